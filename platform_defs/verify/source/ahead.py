"""Prefetch: work on other threads before its results are taken; never more than a few pieces."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def threads_of(many: int) -> Generator[Executor]:
    """Run a pool of `many` threads; at the end work that has not started is dropped."""
    threads = ThreadPoolExecutor(many, "verify")
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)


def ahead(items: Iterable[T], many: int) -> Iterator[T]:
    """Yield the items in order, each created while up to `many` earlier ones are still to be taken."""
    waiting = deque[T]()
    for item in items:
        waiting.append(item)
        if len(waiting) > many:
            yield waiting.popleft()
    yield from waiting


def read_ahead(items: Iterator[T], many: int) -> Generator[T]:
    """Yield the items in order, taken from `items` on a thread of their own, at most `many` in advance. Closing it
    closes `items`, if that is a generator.
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
