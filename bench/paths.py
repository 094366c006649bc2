"""The paths that `make bench` measures. A new one is a method of Bench and a line of PATHS; an aim for it is a line of
AIMS, and QUICK_AIMS if `make bench-quick` is to measure it as well.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from shutil import rmtree
from uuid import uuid4

import psycopg
import pyarrow as pa
from pyspark.sql import SparkSession

from bench import formats
from bench.baselines import by_hand, by_hand_postings, limit
from bench.baselines.by_hand import Carry
from bench.baselines.unguarded import without_epoch_and_compare
from bench.formats import Written
from bench.reports.aims import Ratio
from platform_defs.contract.model.contract import Column, Contract, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import drain
from platform_defs.engine.job.job import bound, range_numbers, run
from platform_defs.engine.job.keep_nothing import Nowhere
from platform_defs.engine.job.row_local import comparison_key
from platform_defs.engine.plan.budget import Budget
from platform_defs.engine.task.task import TaskWork, read_ranges
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.kafka.source import KafkaSource
from platform_defs.offsets import OffsetRange
from platform_defs.runs.open_run import open_run
from platform_defs.settings.contracts import find_pipeline
from platform_defs.settings.settings import settings
from platform_defs.spark.session import spark_config, start_session
from platform_defs.stack.endpoints import connection

PARTITIONS = 4
DIRECT_MESSAGES = 2_000_000  # per plan that is published directly: 500,000 a range


class Bench:
    """One topic filled once; each path carries the whole of it, each time into new tables.

    A path is a method that returns how many messages it carried. `batch_messages`: per batch of ours, if not the
    contract's.
    """

    def __init__(self, messages: int, batch_messages: int | None = None) -> None:
        self.messages, self.topic = messages, f"bench-{uuid4().hex[:6]}"
        self.batch_messages, self.budget = batch_messages, Budget()
        self.endpoints = replace(connection(), registry=None)  # the ledger has the schemas: no registry is asked
        self.options = self.endpoints.kafka_options()
        self.spark: SparkSession = start_session(spark_config())
        self.bank = find_pipeline("bank_transfers")
        self.hands = by_hand.processes()
        folder = settings().home / f"{self.topic}-limit"
        self.series = limit.Series(folder, self.options, self.endpoints.postgres_url)

    def source_only(self) -> int:
        """Read, decode and check; keep nothing."""
        contract = self._contract("source", transformed=False)
        ranges = tuple(OffsetRange(self.topic, *span) for span in self._spans())
        work = TaskWork(contract, ranges, KafkaSource(self.options), Nowhere())

        def count_rows(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = sum(batch.num_rows for batch in read_ranges(work, numbers))
            yield pa.record_batch([pa.array([rows], pa.int64())], names=["rows"])

        counted = range_numbers(self.spark, work, ranges).mapInArrow(bound(count_rows, work), "rows bigint")
        return sum(row["rows"] for row in run(counted, work))

    def staged(self, written: Written = formats.JSON) -> int:
        """Run all eight steps, without a transform."""
        contract, topic = self._contract("staged", transformed=False), written.topic(self.topic)
        return self._drain(Pipeline(replace(contract, topic=topic, format=written.format, wire=written.wire)))

    def unguarded(self) -> int:
        """Run staged, without comparing the run's epoch or the positions with the ledger's."""
        with without_epoch_and_compare():
            return self.staged()

    def direct(self) -> int:
        """Publish each range as its own batch, without batch rules; plans are larger: no step handles one as a
        whole.
        """
        contract = self._contract("direct", transformed=False)
        plain = replace(contract.row_table, batch_rules=())
        limits = replace(contract.limits, batch_messages=self.batch_messages or DIRECT_MESSAGES)
        return self._drain(Pipeline(replace(contract, tables=(plain,), limits=limits, publication="direct")))

    def staged_with_transform(self) -> int:
        """Run all eight steps of bank.transfers: twice as many rows, and balances."""
        return self._drain(Pipeline(self._contract("transformed", transformed=True), self.bank.transform))

    def by_hand(self) -> int:
        """Run the hand-written loop."""
        return self._fill_by_hand(self._hand_table())

    def by_hand_with_postings(self) -> int:
        """Run the hand-written loop that does the work of bank.transfers."""
        name = f"bench.hand_{uuid4().hex[:6]}"
        self.create(by_hand_postings.tables(name))
        return self._run_by_hand(partial(by_hand_postings.carry_postings, name))

    def limit(self) -> int:
        """Read, decode and COPY in series, in C."""
        return limit.carried(self.series, self.topic, self._hand_table, self._fill_by_hand)

    def create(self, statements: str) -> None:
        """Run statements, separated by semicolons."""
        with psycopg.connect(self.endpoints.postgres_url, autocommit=True) as database:
            database.execute(statements.encode())

    def close(self) -> None:
        """End Spark and the processes of the loops written by hand, and delete their files."""
        rmtree(self.series.folder, ignore_errors=True)
        self.hands.terminate()
        self.hands.join()
        self.spark.stop()

    def _hand_table(self) -> str:
        table = f"bench.hand_{uuid4().hex[:6]}"
        self.create(by_hand.tables(table))
        return table

    def _fill_by_hand(self, table: str) -> int:
        return self._run_by_hand(partial(by_hand.carry_rows, table))

    def _run_by_hand(self, carry: Carry) -> int:
        return by_hand.run(self.hands, carry, self.options, self.endpoints.postgres_url, self.topic, self._spans())

    def _spans(self) -> list[tuple[int, int, int]]:
        view = KafkaBroker(self.options).describe(self.topic)
        return [(partition, held.low, held.end) for partition, held in sorted(view.partitions.items())]

    def _drain(self, pipeline: Pipeline) -> int:
        with open_run(pipeline, self.endpoints, lambda: self.spark) as context:
            if pipeline.transform is not None:  # as with every batch but the first
                context.ledger.note_row_local(comparison_key(pipeline))
            return sum(batch.messages for batch in drain(pipeline, context, self.budget))

    def _contract(self, name: str, *, transformed: bool) -> Contract:
        """Return bank.transfers on the bench's topic; untransformed, its row table has the message's own fields."""
        bank, run = self.bank.contract, f"bench_{name}_{uuid4().hex[:6]}"
        limits = replace(bank.limits, batch_messages=self.batch_messages or bank.limits.batch_messages)
        if transformed:
            tables = tuple(moved(table, f"bench.{run}_{n}") for n, table in enumerate(bank.tables))
        else:
            columns = tuple(Column(item.name, item.type, item.required) for item in bank.fields)
            rules = tuple(rule for rule in bank.row_table.batch_rules if rule.name != "postings_sum_to_zero")
            tables = (moved(replace(bank.row_table, columns=columns, batch_rules=rules), f"bench.{run}"),)
        return replace(bank, pipeline=run, topic=self.topic, tables=tables, limits=limits)


def moved(table: Table, name: str) -> Table:
    """Return the table, and its batch rules, under another name."""
    return replace(table, name=name, batch_rules=tuple(replace(rule, table=name) for rule in table.batch_rules))


def clean(postgres_url: str) -> None:
    """Clean up between two measurements: drop what the last one wrote, and force a checkpoint in Postgres."""
    with psycopg.connect(postgres_url, autocommit=True) as database:
        database.execute("DROP SCHEMA IF EXISTS bench CASCADE")
        database.execute("CREATE SCHEMA bench")
        database.execute("CHECKPOINT")


@dataclass(frozen=True)
class Path:
    """A way from the topic into tables, and the path (by name) that it is compared with; None is a yardstick."""

    name: str
    carry: Callable[[Bench], int]
    against: str | None
    ours: bool = True  # a peer's may fail: it is then skipped, and the run goes on


BY_HAND = "by hand: confluent-kafka, orjson, psycopg COPY, no checks"
BY_HAND_POSTINGS = "by hand: two rows a message, and balances, no checks"
STAGED = "staged, with checks, audit and publish"
DIRECT = "direct, with checks: each range published by the task that reads it"
UNGUARDED = "the same, without epoch and compare-and-swap"
LIMIT = "in C, one after another: kcat, pyarrow.json, COPY of a prepared file"
TRANSFORMED = "staged with a PySpark transform (two rows a message, and balances)"

# In the order in which a round measures them: compared paths next to each other.
PATHS = (
    Path("source only", Bench.source_only, BY_HAND),
    Path(TRANSFORMED, Bench.staged_with_transform, BY_HAND_POSTINGS),
    Path(BY_HAND_POSTINGS, Bench.by_hand_with_postings, None),
    *(Path(one.name, partial(Bench.staged, written=one), STAGED) for one in formats.FRAMED),
    Path(UNGUARDED, Bench.unguarded, STAGED),
    Path(STAGED, Bench.staged, BY_HAND),
    Path(BY_HAND, Bench.by_hand, None),
    Path(DIRECT, Bench.direct, BY_HAND),
    Path(LIMIT, Bench.limit, DIRECT, ours=False),
)

QUICK_AIMS = (
    Ratio("staged ÷ by hand", STAGED, BY_HAND, 1.0),
    Ratio("direct ÷ by hand", DIRECT, BY_HAND, 1.3),
    Ratio("bank.transfers ÷ by hand with postings", TRANSFORMED, BY_HAND_POSTINGS, 1.2),
)
AIMS = (
    *QUICK_AIMS,
    Ratio("direct ÷ in C, one after another", DIRECT, LIMIT, 0.7),
    Ratio("staged ÷ the same without epoch and compare-and-swap", STAGED, UNGUARDED, 0.98),
)
