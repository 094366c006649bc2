"""A pipeline's speed by the number of partitions, messages of a batch, bytes of a message, bad ones, and sessions.

    python -m bench.curves [partitions,batch,large,message,bad,sessions] [--write]

Page views without batch rules are carried staged and directly. The points of a curve are measured by turns, after a
round that does not count, and each is compared with the first one of its own round.
"""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import typer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from bench.ending import ended_by_signals, own_home, say, stack_up
from bench.paths import clean
from bench.reports.aims import ratios
from bench.reports.page import write_between
from bench.reports.scale_page import PAGE, markers, measured_on, table
from bench.transfers import send
from platform_defs.contract.model.contract import Contract, Publishing
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import Budget, drain
from platform_defs.errors import BadInput
from platform_defs.runs.open_run import open_run
from platform_defs.settings.contracts import find_pipeline
from platform_defs.spark.session import spark_config, start_session
from platform_defs.stack.endpoints import Endpoints, connection

ROUNDS, PARTITIONS, MESSAGES, MAX_BYTES = 2, 4, 200_000, 100_000_000
HEAD, MIDDLE = b'{"event_id": "e-%d", "visitor": "v", ', b'"url": "https://example.org/", '
TAIL = b'"viewed_at": "2026-11-01T10:00:00Z"}'
BAD = b'{"event_id": "e-%d", "visitor": "v", "url": "https://example.org/", "viewed_at": "2026-11-01T10:00'


@dataclass(frozen=True)
class Point:
    """A topic, the part of it that is carried, and the batch size. `cores`: Spark's, each with two sessions."""

    label: str
    messages: int = MESSAGES
    partitions: int = PARTITIONS
    size: int = 100  # bytes of a message, about
    bad: float = 0.0  # share
    batch: int = 1_000_000
    batches: int = 1_000
    cores: str = "*"

    @property
    def values(self) -> Iterator[bytes]:
        """The messages' values; bad ones are spread evenly."""
        padding = b'"referrer": "%s", ' % (b"r" * (self.size - 115)) if self.size > 150 else b""
        for n in range(self.messages):
            is_bad = int((n + 1) * self.bad) > int(n * self.bad)
            yield BAD % n if is_bad else b"".join((HEAD % n, MIDDLE, padding, TAIL))

    @property
    def carried(self) -> int:
        return min(self.messages, self.batch * self.batches)


@dataclass(frozen=True)
class Curve:
    """A comparison. `small`: also the seconds of a batch of one message in each partition. `weighed`: by bytes, for
    messages of several sizes.
    """

    head: str
    points: Sequence[Point]
    ways: Sequence[Publishing] = ("staged", "direct")
    small: bool = False
    weighed: bool = False


def _batches(messages: int, most: int) -> Point:
    return Point(f"{messages:,}", most, batch=messages, batches=max(1, min(10, MESSAGES // messages)))


def _sized(size: int) -> Point:
    return Point(f"{size:,} B", min(MESSAGES, MAX_BYTES // size), size=size)


CURVES: Mapping[str, Curve] = {
    "partitions": Curve("partitions", [Point(str(n), partitions=n) for n in (1, 4, 16, 64)], small=True),
    "batch": Curve("messages of a batch", [_batches(n, 5_000_000) for n in (1_000, 10_000, 100_000, 1_000_000)]),
    "large": Curve("messages of a batch", [_batches(n, 5_000_000) for n in (1_000_000, 5_000_000)]),
    "message": Curve("bytes of a message", [_sized(size) for size in (100, 1_000, 10_000, 100_000)], weighed=True),
    "bad": Curve("bad messages", [Point(f"{share:.0%}", bad=share) for share in (0.0, 0.01, 0.1, 0.3)]),
    "sessions": Curve("sessions in tasks", [Point(str(2 * n), partitions=16, cores=str(n)) for n in (1, 2, 4, 8)]),
}

ALL = ",".join(CURVES)


@dataclass
class Carrying:
    """The Spark session that carries, and the topics."""

    endpoints: Endpoints
    topics: dict[Point, str] = field(default_factory=dict)
    cores: str = ""
    spark: SparkSession | None = None

    def speed(self, point: Point, way: Publishing) -> float:
        """Return messages a second, for one pass."""
        if self._start(point.cores):
            self._seconds(point, way)  # does not count
        return point.carried / self._seconds(point, way)

    def small(self, point: Point, way: Publishing) -> float:
        """Return the seconds of a batch of one message in each partition: the median of some, after one."""
        times: list[float] = []
        self._seconds(replace(point, batch=point.partitions, batches=6), way, times)
        return statistics.median(times[1:])

    def _seconds(self, point: Point, way: Publishing, plans: list[float] | None = None) -> float:
        """Return the seconds of carrying it; `plans` gets those of each plan."""
        contract = self._contract(self._topic(point), way, point.batch)
        carried = 0
        with open_run(Pipeline(contract), self.endpoints, self._session) as context:
            started = last = time.perf_counter()
            for batch in drain(Pipeline(contract), context, Budget(batches=point.batches)):
                carried += batch.messages
                now = time.perf_counter()
                if plans is not None and not batch.followed:
                    plans.append(now - last)
                    last = now
        taken = time.perf_counter() - started
        if carried != point.carried:
            raise BadInput(f"{point.label}, {way}: {carried} of {point.carried} messages arrived")
        return taken

    def _start(self, cores: str) -> bool:
        """Return True if there is a new session: with other cores than the one before, which is stopped."""
        if self.spark is not None and self.cores == cores:
            return False
        self.close()
        self.cores = cores
        self.spark = start_session({**spark_config(), "spark.master": f"local[{cores},4]"})
        return True

    def _session(self) -> SparkSession:
        assert self.spark is not None  # before the first pass
        return self.spark

    def close(self) -> None:
        """End Spark."""
        if self.spark is not None:
            self.spark.stop()
            self.spark = None

    def _topic(self, point: Point) -> str:
        """Return a topic with the point's messages, filled at the first request."""
        holds = Point("", point.messages, point.partitions, point.size, point.bad)
        if holds not in self.topics:
            self.topics[holds] = f"curve-{uuid4().hex[:6]}"
            say(f"filling a topic with {point.messages:,} messages ...")
            _fill(self.endpoints.kafka_options(), self.topics[holds], holds)
        return self.topics[holds]

    def _contract(self, topic: str, way: Publishing, batch: int) -> Contract:
        shipped, name = find_pipeline("web_page_views").contract, f"bench_{uuid4().hex[:6]}"
        plain = replace(shipped.row_table, name=f"bench.{name}", batch_rules=())
        fields = tuple(replace(one, rules=()) if one.name == "referrer" else one for one in shipped.fields)
        limits = replace(shipped.limits, batch_messages=batch, dead_letter_minimum=1_000_000_000)
        return replace(
            shipped, pipeline=name, topic=topic, tables=(plain,), fields=fields, limits=limits, publication=way
        )


def _fill(options: dict[str, str], topic: str, point: Point) -> None:
    admin = AdminClient({**options})  # kept: a future is cancelled when its client is collected
    admin.create_topics([NewTopic(topic, point.partitions, 1)])[topic].result(30)
    values = enumerate(point.values)
    send(options, ({"topic": topic, "value": one, "partition": n % point.partitions} for n, one in values))


Seen = dict[tuple[str, str], list[float]]  # by way and label, for each round


def measure(carrying: Carrying, curve: Curve) -> tuple[Seen, Seen]:
    """Return messages a second, and the seconds of small batches."""
    speeds: Seen = {}
    small: Seen = {}
    turns: list[tuple[Point, Publishing]] = [(point, way) for point in curve.points for way in curve.ways]
    for number in range(ROUNDS + 1):
        for point, way in turns:
            clean(carrying.endpoints.postgres_url)
            speed = carrying.speed(point, way)
            say(f"{curve.head} {point.label}, {way}, round {number}: {speed:,.0f} messages/s")
            if not number:  # the JVM is still becoming faster: it does not count
                continue
            speeds.setdefault((way, point.label), []).append(speed)
            if curve.small:
                small.setdefault((way, point.label), []).append(carrying.small(point, way))
    return speeds, small


def tables(curve: Curve, speeds: Seen, small: Seen) -> str:
    """Return the table in Markdown."""
    first = curve.points[0].label
    head = [curve.head]
    for way in curve.ways:
        head += [f"{way}, messages/s", "MB/s" if curve.weighed else f"against {first}"]
        head += [f"{way}, s a small batch"] if small else []
    rows = [[point.label, *_cells(curve, point, speeds, small)] for point in curve.points]
    return table(head, rows)


def _cells(curve: Curve, point: Point, speeds: Seen, small: Seen) -> Iterator[str]:
    for way in curve.ways:
        found, first = speeds[way, point.label], speeds[way, curve.points[0].label]
        yield f"{statistics.median(found):,.0f}"
        mega_bytes = statistics.median(found) * point.size / 1e6
        yield f"{mega_bytes:.0f}" if curve.weighed else f"{statistics.median(ratios(found, first)):.2f}"
        if small:
            yield f"{statistics.median(small[way, point.label]):.2f}"


def report(
    names: str = typer.Argument(ALL, help="Of these, separated by commas."),
    write: bool = typer.Option(False, "--write", help="Into docs/explanation/scale.md as well."),
) -> None:
    """Measure the curves, and print their tables."""
    with ended_by_signals(), own_home("bench-curves"), stack_up(say):
        carrying = Carrying(replace(connection(), registry=None))
        try:
            for name in names.split(","):
                _one(name, carrying, write=write)
        finally:
            carrying.close()


def _one(name: str, carrying: Carrying, *, write: bool) -> None:
    curve = CURVES[name]
    how = measured_on(f"Median of {ROUNDS} rounds; {PARTITIONS} partitions where nothing else is said")
    text = f"{how}\n\n{tables(curve, *measure(carrying, curve))}"
    print(f"\n{name}\n\n{text}", flush=True)
    if write:
        begin, end = markers(f"curves {name}")
        write_between(begin, f"{text}\n", end, PAGE)


if __name__ == "__main__":
    typer.run(report)
