"""Work that is done ahead of whoever takes its results, on other threads; never more than a few pieces of it."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def threads_of(many: int) -> Generator[Executor]:
    """So many threads; at the end what was not begun is dropped."""
    threads = ThreadPoolExecutor(many, "verify")
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)


def ahead(items: Iterable[T], many: int) -> Iterator[T]:
    """The same items in their order, each made when `many` others are still to be taken before it."""
    waiting = deque[T]()
    for item in items:
        waiting.append(item)
        if len(waiting) > many:
            yield waiting.popleft()
    yield from waiting


def read_ahead(items: Iterator[T], many: int) -> Generator[T]:
    """The same items in their order, taken from `items` on a thread of their own, at most `many` too early. To be
    closed, which closes `items`, if it can be.
    """
    end: Any = object()
    waiting = deque["Future[Any]"]()
    try:
        with threads_of(1) as thread:
            while True:
                while len(waiting) <= many:
                    waiting.append(thread.submit(next, items, end))
                if (found := waiting.popleft().result()) is end:
                    return
                yield found
    finally:
        if isinstance(items, Generator):
            items.close()
