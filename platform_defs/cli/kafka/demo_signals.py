"""How the demos end at a signal."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def exiting_at_signals() -> Generator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does: what it has made is deleted first."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    earlier = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
