"""Direct publication for a task: a transaction with a range's rows, and then all that makes it a batch.

The rows are COPYed first, while the range is read, and nobody sees them; the pipeline's row is locked only after that,
for the few remaining statements. So tasks of one batch do not wait for each other, and a run that was fenced meanwhile
finds no row to lock. engine/commit/direct_task.py has the order.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.types.json import Jsonb

from platform_defs.contract.model.column_types import JSON
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.dead_letter_window import Recent
from platform_defs.engine.commit.publish_statements import Holder, PostgresPublication
from platform_defs.engine.commit.row_writing import Written
from platform_defs.engine.interfaces import crash_points
from platform_defs.engine.interfaces.source_and_staging import Coverage
from platform_defs.engine.interfaces.staged import FaultGroup, Staged
from platform_defs.engine.staging.binary_copy import copy_rows
from platform_defs.engine.staging.staging import faults_of
from platform_defs.errors import Fenced
from platform_defs.offsets import OffsetRange, PendingBatch
from platform_defs.postgres.connection import (
    DURABLE,
    LOCK_WAIT,
    Connection,
    application_name,
    connect,
    database_errors,
    queries,
)
from platform_defs.postgres.tables import check_target, identifier, lock_target

# The proof of a range commits in another session while this transaction is open, and other ranges move the pipeline's
# row: each statement has to see the latest, whatever isolation the role or the database begins with.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
# A task that was stopped with its rows written would block Postgres' vacuum, and changes to tables.
IDLE = "SET LOCAL idle_in_transaction_session_timeout = '300s'"
IDLE_LOCKED = "SET LOCAL idle_in_transaction_session_timeout = '60s'"  # with the pipeline's row, which others wait for


@dataclass(frozen=True)
class PostgresDirect:
    """The area through which the tasks of one try publish ranges, each as a batch of its own. Picklable."""

    url: str = field(repr=False)  # contains the password
    contract: Contract
    holder: Holder
    plan: PendingBatch
    batch_ids: tuple[int, ...]  # of its ranges, in their order
    staging_id: int

    @cached_property
    def ids(self) -> Mapping[OffsetRange, int]:
        """The batch id of each range: a mapping, since there may be thousands."""
        return dict(zip(self.plan.ranges, self.batch_ids, strict=True))

    @contextmanager
    def session(self) -> Generator["DirectSession"]:
        """Open a session under the name of the run that owns the pipeline, so that it ends with it."""
        name = application_name(self.holder.pipeline, self.holder.owner)
        with closing(connect(self.url, name, settings={"lock_timeout": LOCK_WAIT})) as connection:
            yield DirectSession(self, connection)


@dataclass(frozen=True)
class DirectSession:
    """A session of a task that publishes ranges, one after the other."""

    area: PostgresDirect
    connection: Connection

    def is_published(self, wanted: OffsetRange) -> bool:
        """Return True if the range has been published as the batch that it is in this try. Raises Fenced."""
        batch_id, holder = self.area.ids[wanted], self.area.holder
        with database_errors():
            row = self.connection.execute(queries()["range_state"], {**holder.key, "batch_id": batch_id}).fetchone()
        published, ours = row or (False, False)
        if not published and not ours:
            raise Fenced.not_the_owner(holder.pipeline, holder.epoch)
        return published

    def faults(self, staged: Staged) -> list[FaultGroup]:
        """Return the dead letters of a range that is not published yet, by stage and error class."""
        return faults_of(self.connection, staged)

    @contextmanager
    def transaction(self, wanted: OffsetRange) -> Generator["DirectTransaction"]:
        """Open a transaction, which commits when the block ends without an error."""
        try:
            with database_errors():
                for statement in (BEGIN, DURABLE, IDLE):
                    self.connection.execute(statement)
                yield DirectTransaction(self, wanted, self.area.ids[wanted])
                crash_points.reach("in_publish")
                self.connection.execute("COMMIT")
        except BaseException:
            try:
                self.connection.execute("ROLLBACK")
            except psycopg.Error:  # the session is gone, and with it the transaction
                self.connection.close()
            raise


@dataclass(frozen=True)
class DirectTransaction:
    """One transaction of a task: the rows of a range, then the steps that make a batch of them."""

    session: DirectSession
    wanted: OffsetRange
    batch_id: int

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """COPY `batches` into the row table, which is first locked against changes and compared with the contract.
        Return the number of rows. Raises RowRefused, BadInput, and what `batches` raises.
        """
        connection, contract = self.session.connection, self.session.area.contract
        with database_errors():
            lock_target(connection, contract.row_table)
            check_target(connection, contract.pipeline, contract.row_table)
        with database_errors("table"):
            table = contract.row_table
            jsonb = [column.name for column in table.columns if column.type == JSON]
            return copy_rows(connection, identifier(table.name), batches, schema, jsonb)

    def staged(self, coverage: Coverage, rows: int, registry: str) -> Staged:
        """Return the range as a batch of its own, with `rows` that were COPYed."""
        area = self.session.area
        alone = replace(area.plan, batch_id=self.batch_id, ranges=(self.wanted,))
        return Staged(alone, area.staging_id, {coverage.attempt: rows}, (coverage,), registry)

    def publication(self, staged: Staged) -> "DirectPublication":
        """Return the rest of this transaction. Its `staged` has the latest counts once the row is locked."""
        area = self.session.area
        return DirectPublication(self.session.connection, area.holder, area.contract, staged, area.plan.batch_id)


@dataclass
class DirectPublication(PostgresPublication):
    """Makes the rows that were COPYed in this transaction a batch."""

    plan_id: int

    def lock_as_owner(self) -> None:
        """Lock the pipeline's row as its owner, and read its recent dead letter counts, which include the plan's other
        ranges. Raises Fenced, and StagingLost if the try has been forgotten.
        """
        self.connection.execute(IDLE_LOCKED)
        super().lock_as_owner()
        _ = self.table_id  # for a forgotten try, nothing records the contract that it used
        _, recent = self._fetch("pending", **self.holder.key)[0]
        self.staged = replace(self.staged, pending=replace(self.staged.pending, recent=Recent.from_json(recent)))

    def write_rows(self) -> None:
        """Check that the table has as many rows as were decoded, and that its constraints accept them."""
        with self.table_errors():
            self.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        decoded = sum(item.rows for item in self.staged.coverage)
        Written(decoded, decoded, self.staged.rows).refuse_fewer(self.contract.row_table)

    def _clear_pending(self, counted: Mapping[str, Any]) -> None:
        """Remove this range from the plan."""
        (done,) = self.staged.pending.ranges
        names = ("topic", "partition", "from_offset", "until_offset")
        span = Jsonb({name: getattr(done, name) for name in names})
        cleared = self.connection.execute(
            queries()["clear_range"], {**self.holder.key, **counted, "plan_id": self.plan_id, "range": span}
        )
        if cleared.rowcount != 1:
            raise Fenced(
                f"{self.holder.pipeline}: {done} is no longer planned (another try published it, or a user split or "
                "dropped the batch); nothing was changed"
            )
