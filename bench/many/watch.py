"""The waiting times of messages, and the number of connections: queried once a second."""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psycopg

from bench.many.load import Times
from bench.many.plan import Planned

EVERY = 1.0  # seconds
BENCH = "bench"  # the name of our own sessions, which do not count
POSITIONS = "SELECT topic, partition, next_offset FROM tidegate.source_position"
SESSIONS = """
    SELECT application_name FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'bench'
"""


@dataclass(frozen=True)
class Look:
    """A sample: the age of each topic's oldest unread message (seconds), and the sessions by name."""

    at: float  # seconds since the epoch
    ages: Mapping[str, float]
    sessions: Counter[str]


@dataclass
class Watch:
    """Takes a sample once a second, in a thread, until it is stopped."""

    url: str
    times: Times
    planned: Sequence[Planned]
    looks: list[Look] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)  # topics with a position past 0

    def __post_init__(self) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def unread(self) -> int:
        """Return how many pipelines that must be in time had an unread message in the last sample."""
        last = self.looks[-1].ages if self.looks else {}
        return sum(last.get(item.topic, 0.0) > 0 for item in self.planned if item.measured)

    def _watch(self) -> None:
        with psycopg.connect(self.url, autocommit=True, application_name=BENCH) as database:
            while not self._ending.wait(EVERY):
                self.looks.append(self._look(database))

    def _look(self, database: psycopg.Connection) -> Look:
        positions = {(topic, number): offset for topic, number, offset in _positions(database)}
        self.moved |= {topic for (topic, _), offset in positions.items() if offset}
        now = time.time()
        ages = {item.topic: oldest(self.times, positions, item.topic, now) for item in self.planned}
        sessions = Counter(_kind(name) for (name,) in database.execute(SESSIONS))
        return Look(now, ages, sessions)


def oldest(times: Times, positions: Mapping[tuple[str, int], int], topic: str, now: float) -> float:
    """Return the age of the topic's oldest unread message in seconds; 0 if all are read."""
    unread = (
        sent[position]
        for number, sent in enumerate(times[topic])
        if (position := positions.get((topic, number), 0)) < len(sent)
    )
    return max(0.0, now - min(unread, default=now))


def _kind(name: str) -> str:
    """Return the purpose of a session, by its application name."""
    first, _, rest = name.partition("/")
    return "a pipeline's" if "/" in rest and not rest.startswith("run/") else rest.partition("/")[0] or first


def _positions(database: psycopg.Connection) -> list[tuple[str, int, int]]:
    """Return every position in the ledger; none before the first run has made it."""
    try:
        return database.execute(POSITIONS).fetchall()
    except psycopg.errors.UndefinedTable:
        return []
