"""Ends a command that goes on until Ctrl-C, at a moment of its own choice."""

import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def until_signal() -> Generator[list[int]]:
    """The signals to stop that have come: they no longer end the process, so that what was done is still reported."""
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
