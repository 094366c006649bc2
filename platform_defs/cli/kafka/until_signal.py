"""Lets a command that runs until Ctrl-C end by itself."""

import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def until_signal() -> Generator[list[int]]:
    """Yield the signals to stop as they arrive. They no longer end the process, so that it can still report."""
    received: list[int] = []
    earlier = {
        number: signal.signal(number, lambda got, _frame: received.append(got))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
