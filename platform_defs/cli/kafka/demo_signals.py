"""Ends the demos at a signal."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def exiting_at_signals() -> Generator[None]:
    """End the block at SIGTERM and SIGHUP as at Ctrl-C: whatever it created is deleted first."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    earlier = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
