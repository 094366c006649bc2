"""Turn by turn: several pipelines in one process, a few at a time, none of them for long."""

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Protocol

from platform_defs.pipelines.scheduler.run_policy import RunPolicy, Turned

# Turns at a time: a small batch waits half its time. On a large machine no more: each has sessions of its own.
MAX_CONCURRENT_TURNS = min(os.cpu_count() or 1, 7) + 1
POLL_SECONDS = 1.0  # between polls of the policy while no turn ends


class Work(Protocol):
    """Takes turns."""

    def take(self, name: str) -> Turned:
        """Run a turn of one pipeline. Its errors end the work on this pipeline alone."""
        ...

    def alone(self, name: str) -> bool:
        """Return True if the pipeline must have its turn while no other has one: its batch may break theirs."""
        ...

    def over(self) -> bool:
        """Return True if no turn can be taken any more, by any pipeline."""
        ...

    def stop(self) -> None:
        """Make the turns that are being taken end early: the run itself is being ended."""
        ...


def in_rounds(
    policy: RunPolicy, work: Work, max_turns: int = MAX_CONCURRENT_TURNS, poll_seconds: float | None = None
) -> dict[str, Exception]:
    """Give turns until the policy wants no more, or the work is over. Returns what turns raised, by pipeline.

    `poll_seconds`: between polls of the policy while no turn ends; POLL_SECONDS by default.
    """
    failures: dict[str, Exception] = {}
    working: dict[Future[Turned], str] = {}
    with _worker_pool(max_turns, work.stop) as pool:
        while True:
            wanted: Sequence[str] = () if work.over() else policy.wanted(working.values())
            for name in _next(wanted, [*working.values()], work, max_turns):
                working[pool.submit(work.take, name)] = name
            if not working:
                return failures
            for future in wait(working, poll_seconds or POLL_SECONDS, FIRST_COMPLETED).done:
                name = working.pop(future)
                try:
                    policy.turned(name, future.result())
                    failures.pop(name, None)  # tried again, and well
                except Exception as error:  # noqa: BLE001  # one pipeline's failure, even a bug, must not stop others
                    if policy.failed(name, error):
                        failures[name] = error


def _next(wanted: Sequence[str], working: Sequence[str], work: Work, max_turns: int) -> list[str]:
    """Return the pipelines that begin a turn now. None overtakes one that waits to be alone, so that starts soon."""
    chosen: list[str] = []
    if len(working) == 1 and work.alone(working[0]):
        return chosen
    for name in wanted[: max_turns - len(working)]:
        if work.alone(name):
            return chosen or ([] if working else [name])
        chosen.append(name)
    return chosen


@contextmanager
def _worker_pool(max_turns: int, stop: Callable[[], None]) -> Generator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_turns, "turn") as pool:
        try:
            yield pool
        except BaseException:  # Dagster ends a run by raising in its main thread
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
