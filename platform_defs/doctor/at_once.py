"""Concurrent checks, none of which can block the others or the end."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def at_once(checks: Mapping[str, Callable[[], T]], seconds: float) -> dict[str, T | None]:
    """Return the result of each check by name; None if it has none within `seconds`. Raises the error of a check.

    Daemon threads, because a system call that hangs (a name service, a database behind a dead network) cannot be ended,
    and a pool would wait for it when the process ends.
    """
    answers = queue.SimpleQueue[tuple[str, T | None, BaseException | None]]()
    for name, check in checks.items():
        threading.Thread(target=_ask, args=(name, check, answers), daemon=True).start()
    found: dict[str, T | None] = dict.fromkeys(checks)
    deadline = time.monotonic() + seconds
    for _ in checks:
        try:
            name, answer, error = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if error is not None:
            raise error
        found[name] = answer
    return found


def _ask(name: str, check: Callable[[], T], answers: "queue.SimpleQueue[tuple[str, T | None, BaseException | None]]"):
    try:
        answers.put((name, check(), None))
    except BaseException as error:  # noqa: BLE001  # raised again by `at_once`
        answers.put((name, None, error))
