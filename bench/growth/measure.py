"""One measurement: a stack, days of history with a prune at each end, then real runs beside those on a new stack.

A machine's speed changes from minute to minute, so the old stack and a new one are compared by turns.
"""

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing.connection import Connection
from shutil import copy

import dagster as dg
import psycopg
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from dagster import DagsterInstance
from typing_extensions import override

from bench.ending import ended_by_signals, own_home, stack_up
from bench.growth.history import MESSAGES, History, message
from bench.paths import moved
from platform_defs.code_location import compose
from platform_defs.contract.model.contract import CheckResult, Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.keys import DRAIN_JOB
from platform_defs.engine.commit import audit
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.ledger.ledger import Ledger
from platform_defs.prune.dagster_job import JOB
from platform_defs.settings.contracts import find_pipeline
from platform_defs.settings.settings import PROJECT_ROOT
from platform_defs.spark.resource import SparkResource
from platform_defs.stack.endpoints import Endpoints, connection
from platform_defs.verify.verify import verify

TOPIC = "growth"
COLD, REAL = 20, 60  # unmeasured real batches, and measured ones in each round
SIZES = {
    "ledger": "schemaname = 'tidegate'",
    "staging": "schemaname = 'tidegate_staging'",
    "pg_attribute": "relname = 'pg_attribute'",
    "pg_class": "relname = 'pg_class'",
    "pg_depend": "relname = 'pg_depend'",
    "Dagster": "schemaname = 'dagster'",
}
_SIZE = "SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint FROM pg_stat_all_tables WHERE "

Progress = Callable[[str], None]


class KeptSpark(SparkResource):
    """One session for all runs: it is not measured."""

    @override
    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        pass


@dataclass(frozen=True)
class Night:
    """The state after a day's batches and the prune of that night. Sizes in bytes."""

    batches: int  # so far
    kept: int  # batches in the ledger
    runs: int  # runs in Dagster
    sizes: Mapping[str, int]
    seconds: float  # time of the prune


@dataclass(frozen=True)
class Measured:
    """For each round, the median seconds from one commit to the next, for real batches in one Dagster run."""

    days: int
    batches: int  # of a day
    new: list[float]  # on the stack without a history
    old: list[float]
    nights: list[Night]


def measure(days: int, batches: int, rounds: int, say: Progress) -> Measured:
    """Measure in separate homes, which are deleted at the end."""
    with growing("bench-growth", say) as old:
        nights = _history(old, days, batches)
        with beside() as new:
            pairs = [(new(), _median(old)) for _ in range(rounds)]
        old.verify()
    return Measured(days, batches, [one for one, _ in pairs], [one for _, one in pairs], nights)


@contextmanager
def growing(home_name: str, say: Progress) -> Generator["Growing"]:
    """Start a stack and a Dagster instance in a separate home, and make a run that warms Spark."""
    with own_home(home_name) as home, stack_up(say):
        (home / "instance").mkdir()
        copy(PROJECT_ROOT / "dagster.yaml", home / "instance")
        with DagsterInstance.from_config(str(home / "instance")) as instance:
            there = Growing(connection(), instance, KeptSpark(), say)
            there.real(COLD)
            yield there


@contextmanager
def beside() -> Generator[Callable[[], float]]:
    """Start a new stack in a separate process. Yield a function that makes a round there, for its median in seconds."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=_answer, args=(there,))
    process.start()
    there.close()  # or the end of that process would not be noticed

    def one_round() -> float:
        here.send(REAL)
        return here.recv()

    try:
        yield one_round
    finally:
        here.close()
        process.join()


def _answer(asked: Connection) -> None:
    """Measure a round for each message that arrives, until the other end is closed."""
    with ended_by_signals(), growing("bench-growth-new", lambda _: None) as new, suppress(EOFError):
        while asked.recv():
            asked.send(_median(new))


@dataclass(frozen=True)
class Growing:
    """A pipeline, its topic, and Dagster."""

    endpoints: Endpoints
    instance: DagsterInstance
    spark: KeptSpark
    say: Progress

    @property
    def contract(self) -> Contract:
        shipped = find_pipeline("web_page_views").contract
        tables = tuple(moved(table, f"{TOPIC}.{table.name.partition('.')[2]}") for table in shipped.tables)
        limits = replace(shipped.limits, batch_messages=MESSAGES)
        return replace(shipped, pipeline=TOPIC, topic=TOPIC, tables=tables, limits=limits)

    def fill(self, messages: int) -> None:
        """Add `messages` messages to the topic."""
        admin = AdminClient({**self.endpoints.kafka_options()})
        if TOPIC not in admin.list_topics(timeout=10).topics:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        producer = Producer({**self.endpoints.kafka_options(), "linger.ms": 100})
        end = KafkaBroker(self.endpoints.kafka_options()).describe(TOPIC).partitions[0].end
        for offset in range(end, end + messages):
            producer.produce(TOPIC, message(offset), partition=0)
            producer.poll(0)
        producer.flush(60)

    def real(self, batches: int) -> list[float]:
        """Return the seconds from commit to commit for `batches` batches that a Dagster run reads, with Spark."""
        self.fill(batches * MESSAGES)
        job = compose([Pipeline(self.contract, None)], spark=self.spark).resolve_job_def(DRAIN_JOB)
        assert job.execute_in_process(instance=self.instance).success  # else nothing was measured
        query = "SELECT extract(epoch FROM committed_at)::float8 FROM tidegate.batch ORDER BY batch_id DESC LIMIT %s"
        with psycopg.connect(self.endpoints.postgres_url) as session:
            times = [at for (at,) in session.execute(query, [batches]).fetchall()]
        return [later - earlier for later, earlier in pairwise(times)]

    def day(self, batches: int) -> None:
        """Write a day's history."""
        self.fill(batches * MESSAGES)
        view = KafkaBroker(self.endpoints.kafka_options()).describe(TOPIC)
        drain = compose([Pipeline(self.contract, None)], spark=self.spark).resolve_job_def(DRAIN_JOB)
        checks = self._checks()
        History(self.endpoints.postgres_url, self.contract, view, checks, self.instance, drain).write(batches)

    def night(self, seconds: float, low: int) -> float:
        """Apply a retention of `seconds`: the topic loses what is below `low`, then `prune` runs. Return its
        seconds.
        """
        admin = AdminClient({**self.endpoints.kafka_options()})
        admin.delete_records([TopicPartition(TOPIC, 0, low)])[TopicPartition(TOPIC, 0)].result(30)
        limits = replace(self.contract.limits, retention_seconds=seconds)
        job = compose([Pipeline(replace(self.contract, limits=limits), None)], spark=self.spark).resolve_job_def(JOB)
        os.environ["TIDEGATE_DAGSTER_RETENTION_DAYS"] = str(seconds / 86_400)
        started = time.monotonic()
        assert job.execute_in_process(instance=self.instance).success  # else nothing was measured
        return time.monotonic() - started

    def seen(self, batches: int, seconds: float) -> Night:
        """Return the state after VACUUM, which autovacuum does within a real day."""
        with psycopg.connect(self.endpoints.postgres_url, autocommit=True) as session:
            session.execute("VACUUM ANALYZE")
            sizes = {name: _one(session, _SIZE + where) for name, where in SIZES.items()}
            kept = _one(session, "SELECT count(*) FROM tidegate.batch")
            runs = _one(session, "SELECT count(*) FROM dagster.runs")
        return Night(batches, kept, runs, sizes, seconds)

    def verify(self) -> None:
        """Raise AssertionError unless the table matches what the topic still has."""
        found = verify(Pipeline(self.contract, None), self.endpoints)
        assert found.ok, found.explanation  # else nothing was measured
        self.say(found.explanation)

    def position(self) -> int:
        """Return the next offset."""
        (at,) = Ledger(self.endpoints.postgres_url).positions(TOPIC)
        return at.next_offset

    def _checks(self) -> list[CheckResult]:
        """Return a real batch's checks: the results of the row table's checks if all is well."""
        names = audit.row_check_descriptions(self.contract)
        return [CheckResult(name, self.contract.row_table.name, "warning", True, {"failed": 0}) for name in names]


def _history(old: Growing, days: int, batches: int) -> list[Night]:
    """Write days with their nights."""
    nights = list[Night]()
    for day in range(1, days + 1):
        low, started = old.position(), time.monotonic()
        old.day(batches)
        took = time.monotonic() - started
        pruned = old.night(took, low)
        nights.append(old.seen(COLD + day * batches, pruned))
        old.say(f"day {day}: {batches} batches in {took:.0f} s, pruned in {pruned:.1f} s, {nights[-1]}")
    return nights


def _median(there: Growing) -> float:
    median = statistics.median(there.real(REAL))
    there.say(f"{median:.3f} s a batch, the median of {REAL}")
    return median


def _one(session: psycopg.Connection[tuple[int]], query: str) -> int:
    (found,) = session.execute(query.encode()).fetchone() or (0,)
    return found
