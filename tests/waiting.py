"""Waiting for what a system has yet to do."""

import time
from collections.abc import Callable
from typing import Any


def wait_for(what: Callable[[], Any], seconds: float) -> Any:
    """What `what` returns, once that is true. Raises AssertionError after so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := what():
            return found
        time.sleep(0.05)  # between two looks
    raise AssertionError(f"not within {seconds} s")
