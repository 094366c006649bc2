"""The one transaction that swaps a replay in: rows, dead letters, batches and positions, or nothing. The tables that it
is built in are in shadow_tables.py.

Rows are deleted, inserted and updated, never truncated, and tables keep their names: a reader with a snapshot sees the
old rows to its end, every other one the new rows at once (docs/decisions/0007-replay-in-place.md).
"""

from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from platform_defs.contract.evolution.renames import renames
from platform_defs.contract.model.classified import classified
from platform_defs.contract.redaction import redacting
from platform_defs.engine.commit.publish_statements import lock_as_owner
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.plan.replay_plan import History
from platform_defs.engine.staging import staging_tables
from platform_defs.errors import BadInput, ChangedMeanwhile, Fenced, LedgerAway, OutcomeUnknown, quoting
from platform_defs.errors.words import plural
from platform_defs.ledger.contract_ledger import ContractLedger
from platform_defs.postgres.connection import (
    DURABLE,
    LOCK_WAIT,
    Connection,
    connect,
    database_errors,
    dict_rows,
    queries,
    refusal,
)
from platform_defs.postgres.live_table import refuse_unidentified
from platform_defs.postgres.tables import check_target, identifier
from platform_defs.replay.row_replacement import Difference, Pair
from platform_defs.replay.shadow_tables import REPLACED, BuiltBeside


@dataclass(frozen=True)
class Shown:
    """A replay that is built up to the pipeline's positions, and its differences from the live tables."""

    replay_id: int
    history: History
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Replacement(BuiltBeside):
    """The rebuilt tables, and the live tables that they replace."""

    @contextmanager
    def alone(self, url: str) -> Generator[None]:
        """Keep other sessions from replaying this pipeline meanwhile. Raises ChangedMeanwhile if one does."""
        # Closed, not committed: if the connection is gone by the end, nothing depends on it any more.
        with closing(connect(url, f"tidegate replay {self.live.name}"[:63])) as connection:
            with database_errors():
                connection.execute("BEGIN")
                if connection.execute(queries()["replay_alone"], self.key).fetchone() != (True,):
                    raise self._changed("another session is replaying it; try again once that has ended")
            yield

    def apart(self, connection: Connection) -> bool:
        """Return True if the two are at different offsets, or in different logs."""
        return connection.execute(queries()["apart"], self.key).fetchone() is not None

    def differences(self, connection: Connection, history: History) -> tuple[Difference, ...]:
        """Return the differences of each table, then of the dead letters. Raises BadInput if keys cannot be rebuilt."""
        pairs = self._pairs(connection, history)
        if pairs[0].keys and (gone := pairs[0].orphans(connection, self.built.name)):
            raise BadInput(
                f"compaction removed the messages of {plural(gone, 'key')} of {pairs[0].old.name}, and no later "
                "message that was read replaced them: their rows cannot be rebuilt. Nothing was changed",
                field=self.live.name,
            )
        tables = [pair.difference(connection) for pair in pairs]
        asked = {**self.key, "from_batch": history.from_batch}
        (counts,) = dict_rows(connection, "dead_letter_differences", asked)
        return (*tables, Difference("dead letters", **counts))

    def put_in_place(self, held: PostgresLease, shown: Shown, reason: str, who: str) -> None:
        """Swap all of it in, as the pipeline's owner, or nothing. Raises Fenced, ChangedMeanwhile or BadInput: nothing
        was changed.

        OutcomeUnknown: the ledger has the outcome.
        """
        try:
            with redacting(self.live.contract), database_errors(), held.connection.transaction():
                held.connection.execute(DURABLE)
                self._replace(held, shown, reason, who)
        except LedgerAway as error:
            if not self._found_in_place(held.url, shown.replay_id):
                if held.fenced():
                    raise Fenced.taken_over(self.live.name) from error
                raise

    def _replace(self, held: PostgresLease, shown: Shown, reason: str, who: str) -> None:
        connection = held.connection
        key = {**self.key, "replay_id": shown.replay_id, "from_batch": shown.history.from_batch}
        # 1. Both pipelines' rows, locked: the live one as its owner, the building one with no session at work on it.
        # How long this takes depends on the rows, and a run that waits for the live one's row reports why.
        connection.execute(queries()["replace_now"], key)
        lock_as_owner(connection, held.holder)
        if connection.execute(queries()["lock_builder"], key).fetchone() is None:
            raise self._changed(
                "its replay is being built or was discarded by another session, or one of its tasks is still running; "
                "nothing was changed"
            )
        # 2. They are at the same offsets of the same log.
        if self.apart(connection):
            raise self._changed("its positions have moved since its replay caught up; nothing was changed")
        # 3. The rows. COPY stored bits in the new tables, and they must mean the same here.
        self._replace_rows(held, shown.history)
        # 4. Dead letters: the replayed batches' go, the rebuilt ones come. Check results name the live tables, which
        # are now filled as the rebuilt ones are. Before the batches, by which they are found.
        for name in ("keep_dead_letter_status", "take_dead_letters_away"):
            connection.execute(queries()[name], key)
        for pair in self._pairs(connection, shown.history):
            for name in ("name_live_table", "take_output_over"):
                connection.execute(queries()[name], {**key, "live": pair.old.name, "built": pair.new.name})
        connection.execute(queries()["take_dead_letters_over"], key)
        # 5. The contract that made them, and the batches. Their ids keep growing with their offsets, so a pending one
        # gets a new id.
        ContractLedger(connection, self.live.name).record(self.live.contract, who, by_command=False)
        for name in (
            "replace_batches",
            "take_batches_over",
            "take_schema_use_over",
            "take_positions_over",
            "renumber_pending",
        ):
            connection.execute(queries()[name], key)
        # 6. The record: who, why, and the differences as they were shown. The building pipeline is deleted.
        record = {**key, "executed_by": who, "reason": reason}
        differing = Jsonb([asdict(item) for item in shown.differences])
        if connection.execute(queries()["end_replay"], {**record, "differences": differing}).rowcount != 1:
            raise self._changed(f"its replay {shown.replay_id} was discarded in the meantime; nothing was changed")
        staging_tables.drop_free(connection, self.built.name)  # its runs' role may differ from the replay's
        connection.execute(queries()["forget_builder"], key)

    def _replace_rows(self, held: PostgresLease, history: History) -> None:
        try:
            for pair in self._pairs(held.connection, history):
                # Readers continue, and writers wait; if columns change, both wait.
                lock = sql.SQL("LOCK TABLE {} IN {} MODE").format(
                    identifier(pair.old.name), sql.SQL("ACCESS EXCLUSIVE" if pair.reshaping else "SHARE ROW EXCLUSIVE")
                )
                held.connection.execute(lock)
                check_target(held.connection, self.live.name, pair.old, columns=not pair.reshaping)
                refuse_unidentified(held.connection, pair.old, REPLACED)
                check_target(held.connection, self.built.name, pair.new)
                pair.replace(held.connection)
                check_target(held.connection, self.live.name, pair.old)
                self._prove(held.connection, replace(pair, reshaping=(), former={}))
            held.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except (psycopg.IntegrityError, psycopg.DataError, psycopg.errors.RaiseException) as error:
            swapped = isinstance(error, psycopg.errors.UniqueViolation | psycopg.errors.ExclusionViolation)
            remedy = " If rows swap values of a unique constraint, recreate it as DEFERRABLE" if swapped else ""
            raise quoting(
                lambda why: BadInput(
                    f"a table of {self.live.name} rejects rebuilt rows: {why}. Nothing was changed.{remedy}",
                    field=self.live.name,
                ),
                str(error).strip(),
                refusal(error),
            ) from error

    def _prove(self, connection: Connection, pair: Pair) -> None:
        """Check that the live rows are now the rebuilt ones. A trigger or a rule could have prevented it."""
        left = pair.difference(connection)
        if not left.is_empty:
            differing = left.changed + left.new_columns
            raise BadInput(
                f"in {left.name}, {plural(left.only_live, 'row')} to delete, {plural(left.only_rebuilt, 'row')} to "
                f"insert and {differing:,} to change stayed as they were (does the table have triggers or rules?). "
                "Nothing was changed",
                field=left.name,
            )

    def _found_in_place(self, url: str, replay_id: int) -> bool:
        """Return True if a replay whose COMMIT was not answered is swapped in. Asked under the row lock: nothing is in
        flight.
        """
        try:
            asking = connect(url, settings={"lock_timeout": LOCK_WAIT})
            with asking as connection, database_errors(), connection.transaction():
                connection.execute(queries()["lock_pipeline"], self.key)
                row = connection.execute(queries()["replayed"], {"replay_id": replay_id}).fetchone()
        except (LedgerAway, psycopg.Error) as error:
            raise OutcomeUnknown(
                f"Postgres cannot be reached to check whether replay {replay_id} of {self.live.name} is in place: "
                f"{error} It is in place if its executed_at is set in tidegate.replay."
            ) from error
        return row == (True,)

    def _changed(self, what: str) -> ChangedMeanwhile:
        return ChangedMeanwhile(f"{self.live.name}: {what}")

    def _pairs(self, connection: Connection, history: History) -> Sequence[Pair]:
        """Return each live table with its rebuilt one; for a partial replay only rows from its first batch on."""
        start, reshaping = 0 if history.whole else history.from_batch, self.reshaping(connection)
        ledger = ContractLedger(connection, self.live.name)
        left, added = ledger.left_columns(self.live.contract), ledger.added_columns(self.live.contract)
        shapes = ledger.shapes(self.live.contract)
        hidden = classified(self.live.contract)
        return [
            Pair(
                old=old,
                new=new,
                from_batch=start if old.disposition == "append" else 0,
                reshaping=tuple(item for item in reshaping if item.table == old.name),
                left=left,
                hidden=hidden,
                added=added[old.name],
                former={new: was for was, new in renames(old.columns, shapes.get(old.name, {})).items()},
            )
            for old, new in zip(self.live.contract.tables, self.built.contract.tables, strict=True)
        ]
