"""A run's lease of one pipeline: everything that it writes, always under its epoch and owner."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb

from platform_defs.contract.model.classified import classified
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.dead_letter_window import Recent
from platform_defs.contract.redaction import stored_halt
from platform_defs.engine.commit.direct_statements import PostgresDirect
from platform_defs.engine.commit.publish_statements import Holder, PostgresPublication, is_owner, lock_as_owner
from platform_defs.engine.commit.refused_rows import RefusedRow, find_first_refused, find_refused
from platform_defs.engine.interfaces import crash_points
from platform_defs.engine.interfaces.broker_and_auditor import AuditView
from platform_defs.engine.interfaces.source_and_staging import Coverage
from platform_defs.engine.interfaces.staged import FaultGroup, Staged
from platform_defs.engine.lease.pauses import LONG, Counts, Pause
from platform_defs.engine.lease.table_claims import claim, pin
from platform_defs.engine.lease.take_over import refuse_held, take_over
from platform_defs.engine.staging import staging_tables
from platform_defs.engine.staging.staging import PostgresStaging, coverage_of, faults_of
from platform_defs.errors import BadInput, Fenced, Halt, LedgerAway, OutcomeUnknown, TidegateError
from platform_defs.errors.halts import AccumulateRefused, BlockingCheckFailed, HaltDetail, KeepsFailing
from platform_defs.formats.blocks.excerpt import printable
from platform_defs.ledger.ledger import Ledger, positions_of
from platform_defs.ledger.published import Published
from platform_defs.offsets import OffsetRange, PendingBatch, Position, Suspect, TopicView
from platform_defs.postgres import tables
from platform_defs.postgres.connection import (
    DURABLE,
    LOCK_WAIT,
    Connection,
    application_name,
    as_ours,
    connect,
    connect_alive,
    database_errors,
    queries,
    state_of,
)

LOCKED = "55P03"  # lock_not_available: the session is as it was


def acquire(
    url: str, contract: Contract, run_id: str | None = None, *, rebuilding: bool = False, unless_held: bool = False
) -> "PostgresLease":
    """Step 0: become the pipeline's owner, end the fenced owner's sessions, claim the tables (`table_claims.claim`).

    Raises Halt if the pipeline is halted, or is halted now because run after run has died on its batch; LedgerAway if
    its row cannot be locked, BadInput if a table does not match the contract, or the ledger is another version's. With
    `unless_held` a live owner is not fenced: PipelineHeld is raised instead.
    """
    name, owner = contract.pipeline, uuid4()
    connection = _session(url, name, owner)
    try:
        with database_errors():
            if unless_held:
                refuse_held(connection, name)  # before the row is locked: its owner may be publishing
            try:
                epoch, found = take_over(connection, name, owner, run_id, unless_held=unless_held)
            except Halt as halt:  # may be from before a field was classified
                raise Halt(name, stored_halt(contract, halt.detail), halt.reason) from None
        held = PostgresLease(url, contract, Holder(name, epoch, owner, run_id), connection)
        if found is not None:  # run after run has died on the batch
            held.halt(found)
            held.close()
            raise Halt(name, found, found.error)
        _claim_tables(held, rebuilding=rebuilding)
    except BaseException:
        connection.close()
        raise
    return held


@dataclass
class PostgresLease:
    """One run's lease of a pipeline, from `acquire` to the run's end. Its open connection shows that the run is alive.

    Each of its methods raises LedgerAway if Postgres is unavailable. Those that write do so under the run's epoch and
    owner: if another run has taken the pipeline over they raise Fenced, except those that do nothing then.
    """

    url: str = field(repr=False)  # contains the password
    contract: Contract
    holder: Holder
    connection: psycopg.Connection[tuple[Any, ...]]
    contract_digest: str | None = None  # contract for the messages of each try; None: not recorded here
    transform_digest: str | None = None  # transform that makes their rows (contract/model/digest.py); None: unknown

    def ping(self) -> None:
        """Run a query in Postgres. Raises LedgerAway if the run's session is gone."""
        with database_errors():
            self.connection.execute("SELECT 1")

    def positions(self) -> list[Position]:
        """Return the pipeline's position in each partition; empty before its first batch."""
        with database_errors():
            return positions_of(self.connection, [self.holder.pipeline]).get(self.holder.pipeline, [])

    def pending(self) -> PendingBatch | None:
        """Return the batch whose offsets are fixed and that has not committed, if there is one."""
        with database_errors():
            row = self.connection.execute(queries()["pending"], self.holder.key).fetchone()
        return PendingBatch.from_json(row[0], Recent.from_json(row[1])) if row and row[0] else None

    def add_positions(self, added: Sequence[Position], every: Sequence[Position]) -> None:
        """Store the positions of partitions seen for the first time (`added`, from one log), and the `seen_end` of
        those known before.

        `every`: all positions as they will be, including those `added` (`decide` in engine/plan/planning.py).
        """
        key = {**self.holder.key, "topic": self.contract.topic}
        noted = {"partitions": [p.partition for p in every], "seen_ends": [p.seen_end for p in every]}
        with self._owned():
            self.connection.execute(queries()["note_ends"], {**key, **noted})
            if not added:
                return
            log = {"cluster_id": added[0].cluster_id, "topic_id": added[0].topic_id, "late": len(added) < len(every)}
            places = {f"{n}s": [getattr(p, n) for p in added] for n in ("partition", "next_offset", "seen_end")}
            if self.connection.execute(queries()["add_positions"], {**key, **log, **places}).rowcount != len(added):
                raise Fenced(
                    f"{self.holder.pipeline}: its other partitions belong to a different topic, or to one created "
                    f"before {self.contract.topic} with partition {added[0].partition}; nothing was changed"
                )

    def has_failed(self) -> bool:
        """Return True if the last try at the pipeline failed, or died, and nothing was planned or published since."""
        with database_errors():
            return self.connection.execute(queries()["has_failed"], self.holder.key).fetchone() == (True,)

    def row_local(self) -> str | None:
        """Return the key (engine/job/row_local.py) of the transform that was compared last without a difference."""
        with database_errors():
            row = self.connection.execute(queries()["row_local"], self.holder.key).fetchone()
        return row[0] if row else None

    def note_row_local(self, key: str) -> None:
        """Record that this transform was compared, so that it is not compared again."""
        with self._owned():
            self.connection.execute(queries()["note_row_local"], {"pipeline": self.holder.pipeline, "key": key})

    def new_batch_id(self) -> int:
        """Return an id that no batch has had. Ids grow; an unused one leaves a hole."""
        with database_errors():
            (batch_id,) = self.connection.execute(queries()["next_batch_id"]).fetchone() or (0,)
        return batch_id

    def fix(self, view: TopicView, ranges: Sequence[OffsetRange], batch_id: int | None = None) -> PendingBatch:
        """Step 1: fix the offsets of the next batch, under a new id unless one is given. Until it commits, every try
        reads exactly these.
        """
        with self._owned():
            number = self.new_batch_id() if batch_id is None else batch_id
            pending = PendingBatch(number, view.cluster_id, view.topic_id, tuple(ranges))
            stored = {**self.holder.key, "pending": Jsonb(pending.to_json())}
            (recent,) = self.connection.execute(queries()["store_pending"], stored).fetchone() or ([],)
        return replace(pending, recent=Recent.from_json(recent))

    def open_staging(self, pending: PendingBatch) -> PostgresStaging:
        """Return a staging table for one try at `pending`, which no other try uses meanwhile."""
        pipeline = self.holder.pipeline
        with self._owned():
            (staging_id,) = self.connection.execute(queries()["next_staging_id"]).fetchone() or (0,)
            table_id = staging_tables.take(self.connection, self.contract, pipeline, staging_id)
            pinned = {"contract_digest": self.contract_digest, "transform_digest": self.transform_digest}
            of_try = {"staging_id": staging_id, "table_id": table_id, "batch_id": pending.batch_id}
            self.connection.execute(queries()["open_staging"], {**self.holder.key, **pinned, **of_try})
        name, table = application_name(pipeline, self.holder.owner), staging_tables.rows_name(table_id)
        return PostgresStaging(self.url, name, staging_id, table)

    def open_direct(self, pending: PendingBatch, staging_id: int) -> PostgresDirect:
        """Let the tasks of a try publish the ranges of `pending`, each as a batch with an id of its own."""
        with self._owned():
            found = self.connection.execute(queries()["next_batch_ids"], {"ranges": len(pending.ranges)}).fetchall()
        ids = tuple(number for (number,) in found)
        return PostgresDirect(
            url=self.url, contract=self.contract, holder=self.holder, plan=pending, batch_ids=ids, staging_id=staging_id
        )

    def published_directly(self, area: PostgresDirect) -> list[Published]:
        """Return the batches of such a try that have committed, by id."""
        return Ledger(self.url).committed(self.contract, area.batch_ids)

    def coverage(self, staging_id: int) -> list[Coverage]:
        """Return every complete attempt of a try, in order of partition and offset; a range may have several."""
        with database_errors():
            rows = self.connection.execute(queries()["coverage"], {"staging_id": staging_id}).fetchall()
        return [coverage_of(self.contract.topic, row) for row in rows]

    def faults(self, staged: Staged) -> list[FaultGroup]:
        """Return the dead letters of a batch that is not published yet, by stage and error class."""
        return faults_of(self.connection, staged)

    def audit_view(self, staged: Staged) -> AuditView | None:
        """Return a view of the rows that publish would write, before they are visible; None if there are none."""
        with self._owned():
            return staging_tables.view_of_winners(self.connection, staged)

    @contextmanager
    def publication(self, staged: Staged) -> Generator[PostgresPublication]:
        """Open the publishing transaction: it commits when the block ends without an error.

        Raises RowRefused if a table rejects a row, LedgerAway if it certainly did not commit, OutcomeUnknown if that
        cannot be established now. If the connection dies and the batch is found committed by this owner, it ends as if
        COMMIT had been answered.
        """
        batch_id = staged.pending.batch_id
        try:
            for statement in ("BEGIN", DURABLE, "SET LOCAL idle_in_transaction_session_timeout = '60s'"):
                self.connection.execute(statement)
            yield PostgresPublication(self.connection, self.holder, self.contract, staged)
            crash_points.reach("in_publish")
            self.connection.execute("COMMIT")
        except (psycopg.Error, LedgerAway) as error:  # LedgerAway: a step of the publication has classified it already
            if not self.connection.closed:
                self._roll_back()
                raise (as_ours(error) if isinstance(error, psycopg.Error) else error) from error
            if not self._committed(batch_id):
                message = f"the connection was lost before batch {batch_id} was in the ledger: {error}"
                raise LedgerAway(message, sqlstate=state_of(error)) from error
        except BaseException:
            self._roll_back()
            raise

    def refused_rows(self, staged: Staged) -> Sequence[RefusedRow]:
        """Return the messages, by partition and offset, whose rows the row table rejects, as far as they are found at
        once; none if it accepts all.
        """
        # One transaction each: the writes of the first search must be gone before the second writes the batch again.
        for search in (find_refused, find_first_refused):
            with database_errors(), self.connection.transaction(force_rollback=True):
                if found := search(PostgresPublication(self.connection, self.holder, self.contract, staged)):
                    return found
        return ()

    def fenced(self) -> bool:
        """Return True if another run, or a settlement, took the pipeline over. False while Postgres is away."""
        try:
            with connect(self.url) as connection, database_errors():
                row = connection.execute(queries()["current_owner"], self.holder.key).fetchone()
        except TidegateError:
            return False
        return row is None or row[0] != self.holder.owner

    def note_failed_checks(self, failed: BlockingCheckFailed) -> int:
        """Record the blocking checks that the pending batch failed. Return how often it has failed them, this time
        included; 0 for a fenced run, which changes nothing.
        """
        noted = {**self.holder.key, "failed": Jsonb(failed.to_json())}
        with database_errors():
            (tries,) = self.connection.execute(queries()["note_failed_checks"], noted).fetchone() or (0,)
        return tries

    def mark(self, batch_id: int, marks: Mapping[str, Any]) -> None:
        """Store what a person has decided about the pending batch, as fields of `PendingBatch`."""
        with self._owned():
            marked = {**self.holder.key, "batch_id": batch_id, "marks": Jsonb(dict(marks))}
            self.connection.execute(queries()["mark_pending"], marked)

    def note_suspects(self, suspects: Sequence[Suspect]) -> float:
        """Record the messages of the pending batch that seem to make it fail, in place of those before; a new one is
        suspected from now on. Return for how many seconds the latest of them has been suspected.
        """
        noted = {**self.holder.key, "suspects": Jsonb([asdict(item) for item in suspects])}
        with self._owned():
            (waited,) = self.connection.execute(queries()["note_suspects"], noted).fetchone() or (0.0,)
        return waited

    def back_off(self, error: str, pause: Pause = LONG, *, counts: Counts = Counts.ALWAYS) -> int:
        """Keep the pending batch, and let the sensor wait before it is tried again; `error` is shown until then. Does
        nothing for a fenced run.

        Returns how often in a row the pending batch has failed by now, counting only failures that count; 0 if no batch
        is pending. Uses another session if the run's own is gone.
        """
        given = {"first": pause.first, "longest": pause.longest, "counts": counts, "error": printable(error)}
        given |= {"hides": sorted(classified(self.contract).names)}
        row = self._execute_on_any_session("back_off", given)
        return row[0] if row else 0

    def halt(self, detail: HaltDetail) -> None:
        """Stop the pipeline until a person resolves it. Does nothing for a fenced run."""
        if classified(self.contract).any and isinstance(detail, AccumulateRefused | KeepsFailing):
            detail = replace(detail, quotes_nothing=True)
        halted = {**self.holder.key, "code": detail.code, "detail": Jsonb(detail.to_json())}
        with database_errors():
            self.connection.execute(queries()["halt"], halted)

    def sweep(self, *, keep: int | None = None) -> None:
        """Delete what tries left in staging, except the one to `keep`."""
        self._forget(lambda staging_id: staging_id != keep)

    def discard(self, staging_id: int) -> None:
        """Delete what this try left in staging."""
        self._forget(lambda tried: tried == staging_id)

    def _forget(self, chosen: Callable[[int], bool]) -> None:
        """Delete what tries left in staging. A fenced run deletes nothing: its successor may have the table by now.
        What a stopped zombie still locks stays until the next sweep.
        """
        with database_errors():
            found = self.connection.execute(queries()["stale_staging"], self.holder.key).fetchall()
        for staging_id, table_id in [one for one in found if chosen(one[0])]:
            with database_errors(), suppress(psycopg.errors.LockNotAvailable), self.connection.transaction():
                if not is_owner(self.connection, self.holder):
                    return
                staging_tables.empty(self.connection, staging_id, table_id)

    def close(self) -> None:
        """Release the pipeline and end the session. If Postgres is away, the next run takes over. Whatever an interrupt
        left open in it is rolled back, never committed.
        """
        with closing(self.connection), suppress(TidegateError):
            if self.connection.info.transaction_status != TransactionStatus.IDLE:
                self._roll_back()
            self._execute_on_any_session("release", {})

    def _execute_on_any_session(self, query: str, given: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return a statement's row, over another session if the run's own is gone, which may only be noticed now."""
        values = {**self.holder.key, **given}
        try:
            if not self.connection.closed:
                with database_errors():
                    return _one_row(self.connection, query, values)
        except LedgerAway:
            if not self.connection.closed:
                raise
        with connect(self.url) as connection, database_errors():
            return _one_row(connection, query, values)

    @contextmanager
    def _owned(self) -> Generator[None]:
        with database_errors(), self.connection.transaction():
            lock_as_owner(self.connection, self.holder)
            yield

    def _roll_back(self) -> None:
        """End the transaction. If the session is gone, Postgres has done so; the error before is what matters."""
        with suppress(psycopg.Error):
            self.connection.execute("ROLLBACK")

    def _committed(self, batch_id: int) -> bool:
        """Return True if a batch whose COMMIT was not answered has committed. Asked under the row lock: nothing is in
        flight.
        """
        try:
            self.connection = _session(self.url, self.holder.pipeline, self.holder.owner)
            with database_errors(), self.connection.transaction():
                locked = self.connection.execute(queries()["lock_pipeline"], self.holder.key).fetchone()
                row = self.connection.execute(queries()["find_batch"], {"batch_id": batch_id}).fetchone()
        except TidegateError as error:
            raise OutcomeUnknown(
                f"the connection was lost during the COMMIT of batch {batch_id}, and Postgres cannot be reached: "
                f"{error}. Whether the batch was committed is in the ledger; the next run continues from there."
            ) from error
        owner = locked[1] if locked else None
        if row is None and owner != self.holder.owner:
            raise Fenced(
                f"{self.holder.pipeline}: another run took over while batch {batch_id} was being published; this run "
                "stops, and has not published the batch."
            )
        return row == (self.holder.epoch, self.holder.owner)


def _session(url: str, pipeline: str, owner: UUID) -> Connection:
    """Open this owner's session, which shows that it is alive, and which waits for no lock longer than LOCK_WAIT."""
    return connect_alive(url, application_name(pipeline, owner), {"lock_timeout": LOCK_WAIT})


def _claim_tables(held: "PostgresLease", *, rebuilding: bool) -> None:
    """Claim the tables. One that cannot be claimed backs the pipeline off, like a batch that cannot be published."""
    contract = held.contract
    try:
        with database_errors(), held.connection.transaction():
            lock_as_owner(held.connection, held.holder)
            held.contract_digest = pin(held.connection, contract, held.holder.run_id, rebuilding=rebuilding)
            for table in sorted(contract.tables, key=lambda table: table.name):  # as create_unclaimed does
                claim(held.connection, contract.pipeline, table, rebuilding=rebuilding)
            tables.refuse_unique(held.connection, contract)
    except (BadInput, LedgerAway) as error:
        if isinstance(error, BadInput) or error.sqlstate == LOCKED:
            held.back_off(str(error), counts=Counts.NEVER)  # no batch has failed
            held.close()
        raise


def _one_row(connection: Connection, query: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    cursor = connection.execute(queries()[query], values)
    return cursor.fetchone() if cursor.description else None
