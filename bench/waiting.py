"""Messages of one pipeline, sent one by one or at a rate, and the time that each waits until its row is visible.

A row is visible when the ledger's position has passed it: both commit together.
"""

import threading
import time
from array import array
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime

import psycopg
from confluent_kafka import Producer

from bench.many.plan import PARTITIONS

TOPIC, PIPELINE = "bench.latency", "bench_latency"
LOOK = 0.01  # seconds between two polls of the positions: the precision of the figures
START = 300.0  # maximum seconds until the first row arrives
GAPS = (2.0, 3.1, 4.3)  # seconds between two messages of an idle pipeline
SLICE = 0.01  # seconds between two portions of messages
POSITIONS = "SELECT partition, next_offset FROM tidegate.source_position WHERE pipeline = %s"


class Messages:
    """The times at which messages were sent and their rows seen. There is no other producer, so the n-th message of a
    partition has the offset n.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self._producer = Producer({**options, "enable.idempotence": True, "linger.ms": 5, "log_level": 2})
        self.sent, self.seen = ([array("d") for _ in range(PARTITIONS)] for _ in range(2))
        self.count = 0

    def send(self, count: int) -> None:
        """Send so many messages, round robin over the partitions."""
        for _ in range(count):
            now = time.time()
            stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            value = f'{{"event_id":"e-{self.count}","visitor":"v","url":"https://example.org/","viewed_at":"{stamp}"}}'
            self._producer.produce(TOPIC, value.encode(), partition=self.count % PARTITIONS)
            self.sent[self.count % PARTITIONS].append(now)
            self.count += 1
        self._producer.poll(0)

    def look(self, database: psycopg.Connection) -> None:
        """Record what has become visible since the last poll."""
        found = database.execute(POSITIONS, [PIPELINE]).fetchall()
        now = time.time()
        for partition, next_offset in found:
            self.seen[partition].extend([now] * (next_offset - len(self.seen[partition])))

    @property
    def unread(self) -> int:
        """The number of messages whose rows have not been seen."""
        return self.count - sum(map(len, self.seen))

    def waited(self, since: float, until: float) -> list[float]:
        """Return the seconds that each message sent in that time has waited, ascending."""
        pairs = [pair for both in zip(self.sent, self.seen, strict=True) for pair in zip(*both, strict=False)]
        return sorted(seen - sent for sent, seen in pairs if since <= sent < until)


@contextmanager
def watched(url: str, messages: Messages) -> Generator[psycopg.Connection]:
    """Poll the positions, in a thread, while the block runs; yield a connection for other queries."""
    over = threading.Event()

    def watch() -> None:
        with psycopg.connect(url, autocommit=True, application_name="bench") as database:
            while not over.wait(LOOK):
                messages.look(database)

    thread = threading.Thread(target=watch, daemon=True)
    with psycopg.connect(url, autocommit=True, application_name="bench") as database:
        wait_until(lambda: database.execute("SELECT to_regclass('tidegate.source_position')").fetchone() != (None,))
        thread.start()
        try:
            yield database
        finally:
            over.set()
            thread.join()


def wait_until(what: Callable[[], bool], seconds: float = START) -> float:
    """Wait until it is so and return the seconds. Raises TimeoutError."""
    began = time.monotonic()
    while not what():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(SLICE)  # between two polls
    return time.monotonic() - began


def at_rate(messages: Messages, rate: int, seconds: float) -> tuple[float, float]:
    """Send so many messages a second, evenly. Return the start and the end, in seconds since the epoch."""
    began, started, before = time.time(), time.monotonic(), messages.count
    while (passed := time.monotonic() - started) < seconds:
        messages.send(int(passed * rate) - (messages.count - before))
        time.sleep(SLICE)  # the rate
    return began, time.time()


def one_by_one(messages: Messages, count: int) -> tuple[float, float]:
    """Send single messages into an idle pipeline. Return the start and the end."""
    began = time.time()
    for number in range(count):
        time.sleep(GAPS[number % len(GAPS)])  # idle before each
        messages.send(1)
        wait_until(lambda: messages.unread == 0)
    return began, time.time()
