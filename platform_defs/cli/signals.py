"""The ends of commands that run until a signal, or that have something to delete first."""

import signal
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def until_signal() -> Generator[list[int]]:
    """Yield the signals to stop as they arrive. They no longer end the process, so that it can still report."""
    received: list[int] = []
    with handled((signal.SIGINT, signal.SIGTERM), lambda got, _frame: received.append(got)):
        yield received


def exiting_at_signals() -> AbstractContextManager[None]:
    """End the block at SIGTERM and SIGHUP as at Ctrl-C: whatever it created is deleted first."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    return handled(numbers, end)


@contextmanager
def handled(
    numbers: Iterable[signal.Signals], handler: Callable[[int, object], object] | signal.Handlers
) -> Generator[None]:
    """Handle these signals with `handler` in the block, and as before after it."""
    earlier = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in earlier.items():
            signal.signal(number, before)
