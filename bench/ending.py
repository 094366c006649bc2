"""What a benchmark starts is stopped when it ends, also when it is interrupted or cut off by a time limit."""

import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from resources.local import stack

CUT_OFF = (signal.SIGTERM, signal.SIGHUP)  # what `timeout` and a closed terminal send; Ctrl-C raises by itself


@contextmanager
def ended_by_signals() -> Generator[None]:
    """Inside, SIGTERM and SIGHUP leave by way of every `finally`, as Ctrl-C does."""
    before = {number: signal.signal(number, _leave) for number in CUT_OFF}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def undisturbed() -> Generator[None]:
    """Inside, a second signal does not cut the stopping short."""
    numbers = (signal.SIGINT, *CUT_OFF)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stack_up(progress: Callable[[str], None]) -> Generator[None]:
    """The stack, running; stopped at the end unless it was running before."""
    before = stack.status()
    ours = before.kafka.address is None or before.postgres.address is None
    try:
        stack.up(progress)
        yield
    finally:
        if ours:
            with undisturbed():
                stack.down()


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)
