"""Runs of the model's pipeline: the real ledger, planner, publication and tasks, without Spark."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast
from uuid import UUID

import psycopg
import pyarrow as pa

from platform_defs.contract.model.column_types import INTEGER, STRING
from platform_defs.contract.model.contract import (
    Aggregate,
    BatchRule,
    CheckResult,
    Column,
    Contract,
    Field,
    Limits,
    RowRule,
    Table,
)
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine import batch
from platform_defs.engine.batch import RunContext
from platform_defs.engine.commit.publish import BatchRecord, publish
from platform_defs.engine.interfaces.broker_and_auditor import AuditView
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.engine.job.stage import Results, one_attempt_each
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.prefetch import Begun, Prefetch, SpeculativeBatch
from platform_defs.engine.staging.staging import PostgresRecording
from platform_defs.engine.task import task
from platform_defs.engine.task.task import TaskWork
from platform_defs.lineage.events import OpenLineageEvents
from platform_defs.offsets import PendingBatch
from tests.model.log import Log

NO_THIRTEENS = BatchRule(
    "no_thirteens",
    "rows",
    "ExpectTableRowCountToBeBetween",
    {"min_value": 0},
    "blocking",
    "No number is a multiple of thirteen.",
)


def new_contract(name: str, *, keyed: bool, batch_messages: int) -> Contract:
    """Return a contract with two fields, into an upsert, or into an append with an accumulate."""
    types = {"number": INTEGER, "account": STRING}
    fields = [Field(n, kind, True, (RowRule(f"{n}_required", n, "required", None, ""),)) for n, kind in types.items()]
    columns = tuple(Column(n, kind, True) for n, kind in types.items())
    rows = Table(f"{name}.rows", "upsert" if keyed else "append", columns, batch_rules=(NO_THIRTEENS,))
    sums = tuple(Column(n, INTEGER, True) for n in ("messages", "total", "highest"))
    made = (
        Aggregate("messages", "count", None),
        Aggregate("total", "sum", "number"),
        Aggregate("highest", "max", "number"),
    )
    merged = Table(f"{name}.sums", "accumulate", (columns[1], *sums), group_by=("account",), aggregates=made)
    return Contract(
        name,
        "1",
        "model",
        "",
        name,
        "json",
        tuple(fields),
        (rows,) if keyed else (rows, merged),
        Limits(batch_messages=batch_messages, dead_letter_minimum=4, dead_letter_share=0.5),
    )


def next_version(contract: Contract, **changes: Any) -> Contract:
    """Return the contract, changed, under a higher version: an applied version never changes."""
    return replace(contract, version=str(int(contract.version) + 1), **changes)


@dataclass
class Area:
    """A staging area (StagingArea) over one session that is reused: a new one for each task takes too long."""

    staging_id: int
    table: str  # in the schema tidegate_staging
    connection: psycopg.Connection[Any]

    @contextmanager
    def recording(self) -> Iterator[PostgresRecording]:
        yield PostgresRecording(self.connection, self.staging_id)

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        table, rows = pa.Table.from_batches(list(batches), schema), 0
        names = ", ".join(schema.names)
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY tidegate_staging.{self.table} ({names}) FROM STDIN".encode()) as copy,
        ):
            for row in table.to_pylist():
                copy.write_row([UUID(bytes=v) if k == "_attempt" else v for k, v in row.items()])
                rows += 1
        return rows


@dataclass(frozen=True)
class Thirteens:
    """An auditor (Auditor) for the one rule."""

    connection: psycopg.Connection[Any]

    def evaluate(self, rules: Sequence[BatchRule], view: AuditView) -> list[CheckResult]:
        (rule,) = rules
        asked = f"SELECT count(*) FROM {view.schema}.{view.name} WHERE number % 13 = 0"
        (failed,) = self.connection.execute(asked.encode()).fetchone() or (0,)
        return [CheckResult(rule.name, rule.table, rule.severity, failed == 0, {"failed": failed})]


class AheadWithoutSpark(Prefetch):
    """A prefetch that stages the next batch at once, with the tasks alone."""

    def __init__(self, context: RunContext, connection: psycopg.Connection[Any]) -> None:
        super().__init__(Pipeline(context.ledger.contract), context, lambda: True)  # pyright: ignore
        self._connection = connection

    def _stage(self, speculative: SpeculativeBatch) -> Begun:
        opened: Any = self._context.ledger.open_staging(speculative.batch)
        area = Area(opened.staging_id, opened.table, self._connection)
        work = TaskWork(self._pipeline.contract, speculative.batch.ranges, self._context.source, area)
        winners = [_attempt(work, number) for number in range(len(work.ranges))]
        job: Future[Results] = Future()
        job.set_result([{"attempt": str(name), "rows": rows} for one in winners for name, rows in one.items()])
        return Begun(speculative, work, cast("Any", None), "", job)  # there is no Spark job


@dataclass
class Run:
    """A run between two of its steps."""

    hold: PostgresLease
    log: Log
    pending: PendingBatch | None = None
    staged: Staged | None = None
    epochs: dict[int, int] = field(default_factory=dict[int, int])  # leader epochs that the plan saw, by partition
    read_of: str = ""  # the id of the log that was read: another may have taken the topic's name since the plan
    truncated: bool = False  # messages were read from a later leader than the plan saw
    lost: Literal["", "rows", "more"] = ""  # what Postgres emptied in a recovery after staging
    ahead: AheadWithoutSpark | None = None
    read_ahead_of: str = ""  # the id of the log that the speculative batch read

    @property
    def context(self) -> RunContext:
        return RunContext(self.hold, self.log, self.log, _no_spark, _EVENTS, Thirteens(self.hold.connection))

    @property
    def contract(self) -> Contract:
        return self.hold.contract

    @property
    def keyed(self) -> bool:
        return self.contract.row_table.disposition == "upsert"

    def plan(self) -> PendingBatch | None:
        """Execute step 1, as drain and run_batch begin it."""
        self.hold.sweep(keep=self.ahead and self.ahead.staging_id)
        self.epochs, speculative = self.log.epochs(), self.ahead and self.ahead.speculative
        self.pending = batch.plan_batch(self.contract, self.context, tasks=2, speculative=speculative)
        self.staged, self.lost, self.truncated = None, "", False
        return self.pending

    @property
    def guessed(self) -> bool:
        """True if the planned batch is the speculative one, already staged."""
        speculative = self.ahead and self.ahead.speculative
        return bool(speculative and self.pending and speculative.batch.batch_id == self.pending.batch_id)

    def stage_ahead(self, connection: psycopg.Connection[Any]) -> bool:
        """Execute steps 2 to 5 for the batch after the staged one; return True if that was worth it."""
        assert self.pending is not None
        self.ahead = self.ahead or AheadWithoutSpark(self.context, connection)
        self.read_ahead_of = self.log.describe(self.contract.topic).topic_id
        self.ahead.begin(self.pending)
        return self.ahead.speculative is not None

    def stage(self, connection: psycopg.Connection[Any], *, losers: bool = False) -> Staged:
        """Execute steps 2 to 5. With `losers`, stage each range once more by an attempt whose result never arrives."""
        pending = self.pending
        assert pending is not None
        if (taken := self.ahead.take(pending) if self.ahead else None) is not None:
            self.read_of = self.read_ahead_of
            return self._proven(taken[0], {UUID(row["attempt"]): row["rows"] for row in taken[1] if row["rows"]})
        self.read_of = self.log.describe(pending.ranges[0].topic).topic_id
        opened = self.hold.open_staging(pending)
        area = Area(opened.staging_id, opened.table, connection)
        work = TaskWork(self.contract, pending.ranges, self.log, area, set_aside=batch._set_aside(pending))
        winners = {}
        for number in range(len(pending.ranges)):
            winners |= _attempt(work, number)
            if losers:
                _attempt(work, number)
        return self._proven(work, winners)

    def _proven(self, work: TaskWork, winners: dict[UUID, int]) -> Staged:
        assert self.pending is not None
        parts = self.log.generations[self.read_of].parts
        self.truncated = any(
            parts[one.partition].last_epoch(one) > self.epochs[one.partition] for one in self.pending.ranges
        )
        coverage = one_attempt_each(self.pending.ranges, self.hold.coverage(work.area.staging_id))
        self.staged = Staged(self.pending, work.area.staging_id, winners, coverage)
        return self.staged

    def audit(self) -> None:
        """Execute step 6. Raises GateFailed or Halt."""
        assert self.staged is not None
        batch._audit(self.contract, self.context, self.staged)

    def publish(self) -> int:
        """Execute step 7; return the batch's id."""
        staged = self.staged
        assert staged is not None
        checks = [CheckResult("model", self.contract.row_table.name, "warning", True, {})]
        event = _EVENTS.of_batch(self.contract, staged, checks)
        publish(self.hold.publication(staged), self.log, self.contract, staged, BatchRecord(checks, {}, event))
        return staged.pending.batch_id

    def forget(self) -> None:
        self.pending = self.staged = None

    def copied(self) -> "Run":
        """Return a copy of the run in its present state."""
        return replace(self)


_EVENTS = OpenLineageEvents("model", "model")


def _no_spark() -> Any:
    raise AssertionError("the model starts no Spark")


def _attempt(work: TaskWork, number: int) -> dict[UUID, int]:
    """Stage one task's attempt at the range with that number; return its row count by UUID, or {} for no rows."""
    asked = pa.record_batch([pa.array([number])], names=["id"])
    (result,) = task.read_and_stage(work, iter([asked]))
    attempt, rows = result.column(0)[0].as_py(), result.column(1)[0].as_py()
    return {UUID(attempt): rows} if rows else {}


@dataclass
class DyingInCommit:
    """A connection that fails in COMMIT: before it arrives at Postgres, or before the response arrives here."""

    connection: psycopg.Connection[Any]
    arrives: bool
    meanwhile: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, query: Any, *parameters: Any) -> Any:
        if query != "COMMIT":
            return self.connection.execute(query, *parameters)
        if self.arrives:
            self.connection.execute(query)
        self.connection.close()
        self.meanwhile()
        raise psycopg.OperationalError("server closed the connection unexpectedly")
