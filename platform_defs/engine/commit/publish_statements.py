"""The publishing transaction, statement by statement. Their order, and the reasons for it, are in
engine/commit/publish.py.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from platform_defs.contract.model.contract import CheckResult, Contract, Table
from platform_defs.contract.redaction import redacting
from platform_defs.engine.commit.breaker import recent_with
from platform_defs.engine.commit.row_writing import StagedRows, Written, accumulate, append, upsert, upsert_in_order
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.engine.plan.split_batch import next_part
from platform_defs.engine.staging.staging import coverage_of
from platform_defs.engine.staging.staging_tables import rows_table
from platform_defs.errors import Fenced, StagingLost
from platform_defs.errors.halts import PartitionSpan
from platform_defs.errors.words import plural
from platform_defs.ledger.contract_ledger import ContractLedger
from platform_defs.ledger.published import RowChanges
from platform_defs.offsets import whole_spans
from platform_defs.postgres.connection import Connection, database_errors, queries
from platform_defs.postgres.tables import check_target, lock_target


@dataclass(frozen=True)
class Holder:
    """The owner of a pipeline's lease: every write names all its fields."""

    pipeline: str
    epoch: int
    owner: UUID
    run_id: str | None = None

    @property
    def key(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline, "epoch": self.epoch, "owner": self.owner, "run_id": self.run_id}


def lock_as_owner(connection: Connection, holder: Holder) -> None:
    """Lock the pipeline's row as its owner for the rest of the transaction. Raises Fenced if it no longer is."""
    if not is_owner(connection, holder):
        raise Fenced.not_the_owner(holder.pipeline, holder.epoch)


def is_owner(connection: Connection, holder: Holder) -> bool:
    """Return True if `holder` is the pipeline's owner; then its row stays locked for the rest of the transaction."""
    return connection.execute(queries()["lock_as_owner"], holder.key).fetchone() is not None


@dataclass
class PostgresPublication:
    """The one transaction that makes a batch real, open on `connection`. engine/commit/publish.py has the order and
    why.
    """

    connection: Connection
    holder: Holder
    contract: Contract
    staged: Staged
    changes: RowChanges | None = field(default=None, init=False)  # of an upsert, once its rows are written

    @contextmanager
    def table_errors(self) -> Generator[None]:
        """Raise Postgres' refusals of rows (`database_errors`), as the contract allows them to be shown."""
        with redacting(self.contract), database_errors("table"):
            yield

    def lock_as_owner(self) -> None:
        """Lock the pipeline's row for the rest of the transaction. Raises Fenced unless this run still owns it, and it
        is active.
        """
        lock_as_owner(self.connection, self.holder)

    def check_tables(self) -> None:
        """Lock each table until the transaction ends. Raises BadInput if one differs from the contract."""
        for table in self.contract.tables:  # locked first: an ALTER after the check would convert what is written
            lock_target(self.connection, table)
            check_target(self.connection, self.holder.pipeline, table)

    def prove_coverage(self) -> None:
        """Raise StagingLost unless every planned range has its complete attempt in staging, unchanged since the driver
        saw it.
        """
        rows = self._fetch("coverage", staging_id=self.staged.staging_id)
        stored = {item.attempt: item for item in (coverage_of(self.contract.topic, row) for row in rows)}
        for item in self.staged.coverage:
            if stored.get(item.attempt) != item:
                raise StagingLost(
                    f"the coverage of {item.range} is gone from staging (did Postgres restart?); the batch will be "
                    "read again"
                )
        if sorted(item.range for item in self.staged.coverage) != sorted(self.staged.pending.ranges):
            raise StagingLost.other_ranges()

    def move_positions(self) -> None:
        """Move each position from the batch's planned start to its end, with the leader epoch of that end. Raises
        Fenced, with no position moved, unless each one is where the batch was planned from.
        """
        pending, spans, epochs = self.staged.pending, self._spans, self.staged.pending.end_epochs
        moved = self.connection.execute(
            queries()["move_positions"],
            {
                **self.holder.key,
                "batch_id": pending.batch_id,
                "topic": self.contract.topic,
                "topic_id": pending.topic_id,
                "cluster_id": pending.cluster_id,
                "partitions": [span.partition for span in spans],
                "from_offsets": [span.from_offset for span in spans],
                "until_offsets": [span.until_offset for span in spans],
                "leader_epochs": [epochs[span.partition] for span in spans],
            },
        )
        if moved.rowcount != len(spans):
            raise Fenced(
                f"{self.holder.pipeline}: {len(spans) - moved.rowcount} of {len(spans)} positions have changed since "
                f"batch {pending.batch_id} was planned; no position was moved"
            )

    def write_rows(self) -> None:
        """Write the winners' rows into the row table, then merge them into each accumulate. Only here can a row be
        refused. Raises StagingLost unless they are as many as reported.
        """
        with self.table_errors():
            table, everything = self.contract.row_table, sql.SQL("true")
            if table.disposition == "append":
                written = append(self.rows, table, everything)
                # counted only if they differ
                staged = self.staged.rows if written == self.staged.rows else self._count()
                self._require(table, Written(staged, self.staged.rows, written))
            else:
                done = self.upsert(self.rows, everything)
                self._require(table, done)
                self.changes = RowChanges(done.written, done.deleted)
            for accumulate_table in self.contract.accumulates:
                accumulate(self.rows, accumulate_table)
            self.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def upsert(self, rows: StagedRows, where: sql.Composable) -> Written:
        """Write the `rows` of an upsert into its table."""
        table = self.contract.row_table
        if not self.other_keys:
            return upsert(rows, table, where)
        return upsert_in_order(rows, table, where, has_writing_triggers=self.has_writing_triggers)

    @cached_property
    def other_keys(self) -> Sequence[tuple[Any, ...]]:
        """The indexes of an upsert's table by which rows of two keys can collide: (name,) of each."""
        table = self.contract.row_table
        return self._fetch("other_keys", table=table.name) if table.disposition == "upsert" else ()

    @cached_property
    def has_writing_triggers(self) -> bool:
        """True if a trigger of the row table may write rows. Always False for tables that are not written message by
        message.
        """
        if not self.other_keys:
            return False
        ((found,),) = self._fetch("has_writing_triggers", table=self.contract.row_table.name)
        return found

    def _require(self, table: Table, done: Written) -> None:
        """Raise StagingLost if staging does not contain what was reported, BadInput if the table took less."""
        if done.staged != self.staged.rows:
            raise StagingLost(
                f"the tasks staged {plural(self.staged.rows, 'row')}, but staging has {done.staged} (did Postgres "
                "restart?); the batch will be read again"
            )
        done.refuse_fewer(table)

    def write_dead_letters(self) -> None:
        """Write the dead letters of the attempts that coverage chose. Raises StagingLost unless they are as many as it
        counted.
        """
        written = self.connection.execute(
            queries()["write_dead_letters"],
            {
                **self.holder.key,
                "batch_id": self.staged.pending.batch_id,
                "topic": self.contract.topic,
                "topic_id": self.staged.pending.topic_id,
                "staging_id": self.staged.staging_id,
                "attempts": [item.attempt for item in self.staged.coverage],
            },
        )
        if written.rowcount != self.staged.dead_letters:
            raise StagingLost(
                f"the tasks staged {plural(self.staged.dead_letters, 'dead letter')}, but staging has "
                f"{written.rowcount}; the batch will be read again"
            )

    def write_record(
        self, checks: Sequence[CheckResult], timings: Mapping[str, float], event: Mapping[str, Any]
    ) -> None:
        """Write the batch, its ranges, check results and lineage event; the pending batch is done. If the batch was
        split, its next part is pending now.
        """
        self._execute(
            "write_batch",
            **self._batch,
            messages=self.staged.messages,
            rows=self.staged.rows,
            dead_letters=self.staged.dead_letters,
            unknown_fields=self.staged.unknown_fields,
            contract_version=self.contract.version,
            staging_id=self.staged.staging_id,
            timings=Jsonb(dict(timings)),
            tables=[table.name for table in self.contract.tables],
        )
        self._record_ranges()
        self._record_schemas()
        self._record_checks(checks)
        self._execute("write_lineage", **self._batch, event=Jsonb(dict(event)))
        recent = Jsonb(recent_with(self.contract.limits, self.staged).to_json())
        self._clear_pending({"messages": self.staged.messages, "rows": self.staged.rows, "recent": recent})

    def _clear_pending(self, counted: Mapping[str, Any]) -> None:
        following = next_part(self.staged.pending)
        pending = Jsonb(following.to_json()) if following else None
        self._execute("clear_pending", **self._batch, **counted, following=pending)

    @property
    def winners(self) -> sql.Composable:
        """The condition that a staged row was copied by an attempt whose result arrived, and is in a planned range."""
        return sql.SQL(
            "_attempt = ANY({}) AND EXISTS (SELECT FROM (VALUES {}) AS planned (_in, low, high)"
            " WHERE _in = _partition AND low <= _offset AND _offset < high)"
        ).format(sql.Literal(list(self.staged.winners)), sql.SQL(", ").join(map(_values, self._spans)))

    @property
    def rows(self) -> StagedRows:
        """The staged rows that count."""
        batch_id = self.staged.pending.batch_id
        return StagedRows(self.connection, rows_table(self.table_id), batch_id, self.winners, self.left_columns)

    @cached_property
    def table_id(self) -> int:
        """The id of the try's staging table. Raises StagingLost if the try has been forgotten."""
        if (row := self._fetch("staging_table", staging_id=self.staged.staging_id)) == []:
            raise StagingLost(
                f"attempt {self.staged.staging_id} at the batch was deleted from staging; the batch will be read again"
            )
        return row[0][0]

    @cached_property
    def left_columns(self) -> Sequence[str]:
        """The columns of an upsert that earlier contracts left in its table."""
        return ContractLedger(self.connection, self.holder.pipeline).left_columns(self.contract)

    @property
    def _batch(self) -> dict[str, Any]:
        return {**self.holder.key, "batch_id": self.staged.pending.batch_id}

    @property
    def _spans(self) -> list[PartitionSpan]:
        """The plan for each partition, as one span."""
        return whole_spans(self.staged.pending.ranges)

    def _record_ranges(self) -> None:
        """Record the ranges, with the gaps of the attempts that coverage chose, which never leave Postgres."""
        coverage, epochs = self.staged.coverage, self.staged.pending.end_epochs
        key = {"topic": self.contract.topic, "topic_id": self.staged.pending.topic_id}
        written = self.connection.execute(
            queries()["write_batch_ranges"],
            {
                **self._batch,
                **key,
                "staging_id": self.staged.staging_id,
                "attempts": [item.attempt for item in coverage],
                "leader_epochs": [epochs[item.range.partition] for item in coverage],
            },
        )
        if written.rowcount != len(coverage):
            raise StagingLost.other_ranges()

    def _record_schemas(self) -> None:
        named = [(item.range, count) for item in self.staged.coverage for count in item.schemas]
        if not named:
            return
        self._execute(
            "write_batch_schemas",
            **self._batch,
            registry=self.staged.registry,
            partitions=[place.partition for place, _ in named],
            from_offsets=[place.from_offset for place, _ in named],
            generations=[count.generation for _, count in named],
            keys=[count.key for _, count in named],
            parts=[count.part for _, count in named],
            messages=[count.messages for _, count in named],
        )

    def _record_checks(self, checks: Sequence[CheckResult]) -> None:
        """Write all in one round trip, or in none without checks: the pipeline's row is locked meanwhile."""
        if not checks:
            return
        rows = [
            {
                **self._batch,
                "check_name": check.name,
                "table_name": check.table,
                "severity": check.severity,
                "passed": check.passed,
                "observed": Jsonb(check.observed),
            }
            for check in checks
        ]
        with self.connection.cursor() as cursor:
            cursor.executemany(queries()["write_check"], rows)

    def _count(self) -> int:
        query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(rows_table(self.table_id), self.winners)
        (count,) = self.connection.execute(query).fetchone() or (0,)
        return count

    def _fetch(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(queries()[name], parameters).fetchall()

    def _execute(self, name: str, **parameters: Any) -> None:
        self.connection.execute(queries()[name], parameters)


def _values(span: PartitionSpan) -> sql.Composable:
    return sql.SQL("({}, {}, {})").format(span.partition, span.from_offset, span.until_offset)
