"""Waiting for an event, and time limits that also work on a busy machine."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TypeVar

import psycopg

T = TypeVar("T")
BOUND = 240.0  # seconds; a longer wait fails
BUSY = 10  # how many times slower a busy machine may be than a quiet one


def wait_for(event: Callable[[], T], description: str = "") -> T:
    """Return what `event` returns, once that is true. Raises AssertionError after BOUND seconds."""
    deadline = time.monotonic() + BOUND
    while not (found := event()):
        assert time.monotonic() < deadline, f"did not happen within {BOUND:.0f} s: {description or event}"
        time.sleep(0.05)
    return found


def wait_for_row(url: str, query: str) -> None:
    """Wait until the query has a row. Raises AssertionError after BOUND seconds."""
    with psycopg.connect(url, autocommit=True) as connection:
        wait_for(lambda: connection.execute(query.encode()).fetchone(), query)


@contextmanager
def repeated(action: Callable[[], object]) -> Iterator[Event]:
    """Call `action` again and again in another thread while the block runs; the event is set when it returns, unless
    it returns False. Raises AssertionError with what it raised.
    """
    stopped, done, failed = Event(), Event(), list[BaseException]()

    def repeat() -> None:
        try:
            while not stopped.is_set():
                if action() is not False:
                    done.set()
        except BaseException as error:  # noqa: BLE001  # raised again in the caller's own thread
            failed.append(error)

    thread = Thread(target=repeat)
    thread.start()
    try:
        yield done
    finally:
        stopped.set()
        thread.join()
    assert not failed, failed


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Assert that the block takes at most BUSY times `seconds`, its limit on a quiet machine.

    For faults that would otherwise take far longer: a missing time-out, a wait repeated for each of many.
    """
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took < BUSY * seconds, f"took {took:.1f} s"
