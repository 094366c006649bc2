"""A run's hold on one pipeline: everything that it writes, always under its epoch and owner."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from platform_defs.contract.model import Contract
from platform_defs.engine import crash_points
from platform_defs.engine.ports import Coverage, Publication, Staged
from platform_defs.errors import Fenced, Halt, LedgerAway, OutcomeUnknown, RowRefused
from platform_defs.offsets import OffsetRange, PendingBatch, Position, TopicView
from resources.postgres import tables
from resources.postgres.connection import DURABLE, application_name, connect, database_errors, limited, queries
from resources.postgres.positions import positions_of
from resources.postgres.publication import Holder, PostgresPublication, find_refused, lock_as_owner
from resources.postgres.staging import PostgresStaging

# The third ends the session like the others: it was stopped for so long inside the publishing transaction.
_CONNECTION_TROUBLE = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.IdleInTransactionSessionTimeout)
LOCK_WAIT = "30s"  # longer than a publication takes; whoever holds a pipeline's row for longer is ended


def acquire(url: str, contract: Contract, run_id: str | None = None) -> "PostgresHold":
    """Step 0: become the pipeline's owner, end the fenced owner's sessions, claim the tables.

    Raises Halt when the pipeline is halted, LedgerAway when its row cannot be locked, BadInput when a table is not
    what the contract says.
    """
    name, owner = contract.pipeline, uuid4()
    connection = _session(url, name, owner)
    try:
        with database_errors():
            epoch = _take_over(connection, name, owner, run_id)
            holder = Holder(name, epoch, owner, run_id)
            _claim_tables(connection, holder, contract)
    except BaseException:
        connection.close()
        raise
    return PostgresHold(url, contract, holder, connection)


@dataclass
class PostgresHold:
    """One run's hold on a pipeline (engine.ports.PipelineHold). Its open connection is the sign that the run lives."""

    url: str
    contract: Contract
    holder: Holder
    connection: psycopg.Connection[tuple[Any, ...]]

    def positions(self) -> list[Position]:
        with database_errors():
            return positions_of(self.connection, self.holder.pipeline, self.contract.topic)

    def pending(self) -> PendingBatch | None:
        with database_errors():
            row = self.connection.execute(queries()["pending"], self.holder.key).fetchone()
        return PendingBatch.from_json(row[0]) if row and row[0] else None

    def add_positions(self, added: Sequence[Position], every: Sequence[Position]) -> None:
        """Store the positions of partitions seen for the first time, and the `seen_end` of those known before.

        As `engine.planning.decide` has them: `every` is all positions as they will be, those `added` included.
        """
        key = {**self.holder.key, "topic": self.contract.topic}
        with self._owned():
            noted = {"partitions": [p.partition for p in every], "seen_ends": [p.seen_end for p in every]}
            self.connection.execute(queries()["note_ends"], {**key, **noted})
            for item in added:
                done = self.connection.execute(
                    queries()["add_position"],
                    {
                        **key,
                        "partition": item.partition,
                        "cluster_id": item.cluster_id,
                        "topic_id": item.topic_id,
                        "next_offset": item.next_offset,
                        "late": len(added) < len(every),
                    },
                )
                if done.rowcount != 1:
                    raise Fenced(f"partition {item.partition} has siblings of another topic id; nothing was changed")

    def fix(self, view: TopicView, ranges: Sequence[OffsetRange]) -> PendingBatch:
        """Step 1: fix the offsets of the next batch. Until it commits, every try reads exactly these."""
        with self._owned():
            (batch_id,) = self.connection.execute(queries()["next_batch_id"]).fetchone() or (0,)
            pending = PendingBatch(batch_id, view.cluster_id, view.topic_id, tuple(ranges))
            self.connection.execute(
                queries()["store_pending"], {**self.holder.key, "pending": Jsonb(pending.to_json())}
            )
        return pending

    def open_staging(self, pending: PendingBatch) -> PostgresStaging:
        """A staging table of its own for one try at `pending`."""
        with self._owned():
            row = self.connection.execute(
                queries()["open_staging"], {**self.holder.key, "batch_id": pending.batch_id}
            ).fetchone()
            staging_id: int = row[0]  # pyright: ignore[reportOptionalSubscript]  # RETURNING always gives one
            tables.create_staging(self.connection, self.contract, staging_id)
        return PostgresStaging(self.url, application_name(self.holder.pipeline, self.holder.owner), staging_id)

    def coverage(self, staging_id: int) -> list[Coverage]:
        """Every complete attempt of a try; a range may have several."""
        with database_errors():
            rows = self.connection.execute(queries()["coverage"], {"staging_id": staging_id}).fetchall()
        return [_coverage(self.contract.topic, row) for row in rows]

    def faults(self, staged: Staged) -> dict[tuple[str, str], tuple[int, list[dict[str, Any]]]]:
        """By (stage, error_class): how many dead letters, and up to ten of them."""
        with database_errors():
            rows = self.connection.execute(
                queries()["fault_counts"],
                {"staging_id": staged.staging_id, "attempts": [item.attempt for item in staged.coverage]},
            ).fetchall()
        return {(stage, error_class): (count, samples or []) for stage, error_class, count, samples in rows}

    def audit_view(self, staged: Staged) -> tuple[str, str, str] | None:
        """(database URL, schema, view) of the rows that publish would write, before anyone sees them; None if there are
        none.
        """
        with database_errors():
            name = tables.create_audit_view(self.connection, self.contract, staged)
            any_row = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(tables.STAGING_SCHEMA, name))
            if self.connection.execute(any_row).fetchone() is None:
                return None
        return limited(self.url), tables.STAGING_SCHEMA, name

    @contextmanager
    def publication(self, staged: Staged, *, recorded: bool = True) -> Iterator[Publication]:
        """The publishing transaction: commits when the block ends well.

        Raises LedgerAway when it certainly did not commit, OutcomeUnknown when nobody can say now. If the connection
        dies
        and the batch is found committed by this owner, it ends as if COMMIT had been answered. A transaction that is
        not `recorded` by the batch's row leaves no trace to be found: LedgerAway, whether it committed or not.
        """
        try:
            self._begin()
            yield PostgresPublication(self.connection, self.holder, self.contract, staged)
            self.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            crash_points.reach("in_publish")
            self.connection.execute("COMMIT")
        except _CONNECTION_TROUBLE as error:
            if not self.connection.closed:
                self._roll_back()
                raise LedgerAway(
                    f"publishing batch {staged.pending.batch_id} was refused: {error}. It is tried again."
                ) from error
            if not recorded:
                raise LedgerAway(
                    f"the connection died while the rows of batch {staged.pending.batch_id} were written; whether "
                    f"they are there is not known: {error}"
                ) from error
            if not self._committed(staged.pending.batch_id):
                raise LedgerAway(
                    f"the connection died before batch {staged.pending.batch_id} was in the ledger: {error}"
                ) from error
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            self._roll_back()
            raise RowRefused(str(error).strip()) from error
        except BaseException:
            self._roll_back()
            raise

    def rehearse(self, staged: Staged) -> None:
        """Write the rows, of the accumulates as well, and take them back. Raises RowRefused where a table refuses
        one.
        """
        try:
            with database_errors(), self.connection.transaction(force_rollback=True):
                publication = PostgresPublication(self.connection, self.holder, self.contract, staged)
                publication.check_tables()
                publication.write_rows()
                self.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            raise RowRefused(str(error).strip()) from error

    def refused_row(self, staged: Staged) -> tuple[int, int, str, str] | None:
        """The message that the row table refuses: (partition, offset, error class, what Postgres said)."""
        with database_errors(), self.connection.transaction(force_rollback=True):
            return find_refused(PostgresPublication(self.connection, self.holder, self.contract, staged))

    def fenced(self) -> bool:
        """Whether another run, or a settlement, took the pipeline over. False as long as Postgres cannot be asked."""
        try:
            with connect(self.url) as connection, database_errors():
                row = connection.execute(queries()["current_owner"], self.holder.key).fetchone()
        except LedgerAway:
            return False
        return row is None or row[0] != self.holder.owner

    def gate_failed(self) -> None:
        """Leave the pending batch where it is, and let the sensor wait before it is judged again."""
        with database_errors():
            self.connection.execute(queries()["back_off"], self.holder.key)

    def halt(self, code: str, detail: Mapping[str, Any]) -> None:
        """Stop the pipeline until a person settles it. Does nothing for a fenced run."""
        with database_errors():
            self.connection.execute(queries()["halt"], {**self.holder.key, "code": code, "detail": Jsonb(dict(detail))})

    def sweep(self) -> None:
        """Drop what earlier tries left in staging. What a stopped zombie still locks is left for the next sweep."""
        with database_errors():
            found = self.connection.execute(queries()["stale_staging"], self.holder.key).fetchall()
        for (staging_id,) in found:
            with database_errors(), suppress(psycopg.errors.LockNotAvailable):
                tables.drop_staging(self.connection, staging_id)

    def close(self) -> None:
        """Give the pipeline back and end the session. Where that is gone there is nothing to give: the next run takes
        over.

        Closed, never committed: whatever an interrupt left open on it is rolled back.
        """
        with closing(self.connection), suppress(LedgerAway), database_errors():
            self.connection.execute(queries()["release"], self.holder.key)

    @contextmanager
    def _owned(self) -> Iterator[None]:
        with database_errors(), self.connection.transaction():
            lock_as_owner(self.connection, self.holder)
            yield

    def _begin(self) -> None:
        for statement in ("BEGIN", DURABLE, "SET LOCAL idle_in_transaction_session_timeout = '60s'"):
            self.connection.execute(statement)

    def _roll_back(self) -> None:
        """End the transaction. Where the session has gone, Postgres has done it, and what went wrong before is the
        news.
        """
        with suppress(psycopg.Error):
            self.connection.execute("ROLLBACK")

    def _committed(self, batch_id: int) -> bool:
        """Whether a batch whose COMMIT went unanswered happened. Asked under the row lock: nothing is in flight
        then.
        """
        try:
            self.connection = _session(self.url, self.holder.pipeline, self.holder.owner)
            with database_errors(), self.connection.transaction():
                _, owner, *_ = self.connection.execute(queries()["lock_pipeline"], self.holder.key).fetchone() or (
                    None,
                    None,
                )
                row = self.connection.execute(queries()["find_batch"], {"batch_id": batch_id}).fetchone()
        except (LedgerAway, psycopg.Error) as error:
            raise OutcomeUnknown(
                f"the connection died in the COMMIT of batch {batch_id} and Postgres cannot be asked: {error}. "
                "The ledger knows; the next run goes on from it."
            ) from error
        if row is None and owner != self.holder.owner:
            raise Fenced(
                f"{self.holder.pipeline}: another run took over while batch {batch_id} was published; this run has "
                "changed nothing and stops."
            )
        return row == (self.holder.epoch, self.holder.owner)


def _session(url: str, pipeline: str, owner: UUID) -> tables.Connection:
    """A session of this owner's, which waits for no lock for longer than LOCK_WAIT."""
    return connect(url, application_name(pipeline, owner), settings={"lock_timeout": LOCK_WAIT})


def _take_over(connection: tables.Connection, name: str, owner: UUID, run_id: str | None) -> int:
    """Lock the pipeline's row and take epoch + 1; a publication in flight is waited for, a stopped one is ended."""
    key = {"pipeline": name, "owner": owner, "run_id": run_id}
    epoch, fenced = 0, None
    connection.execute(queries()["register_pipeline"], key)
    for last_try in (False, True):
        try:
            with connection.transaction():
                row = connection.execute(queries()["lock_pipeline"], key).fetchone()
                if row is None:  # registered above; only what a replay built is ever taken away
                    raise Fenced(f"{name} was taken away by somebody else; nothing was changed")
                _, fenced, state, code, detail = row
                if state == "halted":
                    raise Halt(name, code, "it was halted earlier and nobody has settled it yet.", detail)
                (epoch,) = connection.execute(queries()["take_over"], key).fetchone() or (0,)
            break
        except psycopg.errors.LockNotAvailable as error:
            if connection.execute(queries()["replacing"], key).fetchone() == (True,):
                raise LedgerAway(
                    f"a replay of {name} is being put in place; the next run goes on when it is there"
                ) from error
            if last_try:
                raise LedgerAway(
                    f"{name} stayed locked for {LOCK_WAIT} twice; look at pg_locks for who holds it"
                ) from error
            _end_sessions(
                connection, name, (connection.execute(queries()["current_owner"], key).fetchone() or (None,))[0]
            )
    _end_sessions(connection, name, fenced)
    return epoch


def _end_sessions(connection: tables.Connection, pipeline: str, owner: UUID | None) -> None:
    if owner is not None:
        connection.execute(queries()["end_sessions"], {"application_name": application_name(pipeline, owner)})


def _claim_tables(connection: tables.Connection, holder: Holder, contract: Contract) -> None:
    with connection.transaction():
        lock_as_owner(connection, holder)
        for table in contract.tables:
            tables.claim(connection, holder.pipeline, table)
        if contract.delivery == "at_least_once" and contract.row_table.disposition == "append":
            tables.refuse_unique(connection, contract.row_table)


def _coverage(topic: str, row: tuple[Any, ...]) -> Coverage:
    attempt, partition, start, until, messages, rows, dead, unknown, gaps, epoch = row
    spans = tuple((low, high) for low, high in gaps)
    return Coverage(OffsetRange(topic, partition, start, until), attempt, messages, rows, dead, unknown, spans, epoch)
