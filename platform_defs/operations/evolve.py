"""A changed contract is applied: shown first (`propose`), then carried out in one transaction of its own (`apply`).

In it the pipeline's row is locked and its epoch raised, so that a running batch is fenced and its offsets are read
again; then come the statements, and the contract's row in the ledger. Never in the transaction that publishes: ALTER
TABLE waits for every reader of the table, and a publication would wait with it.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from platform_defs.contract.model import Contract, Table
from platform_defs.engine import crash_points
from platform_defs.errors import BadInput, LedgerAway, OutcomeUnknown
from platform_defs.evolution.plan import ChangePlan, plan, unused
from platform_defs.evolution.statements import Given
from platform_defs.operations.schema_survey import WriterFit, survey
from platform_defs.words import plural
from resources.postgres.claims import claim
from resources.postgres.connection import DURABLE, Connection, connect, database_errors, lock_timeout, queries
from resources.postgres.contract_ledger import SHORT_WAIT, ContractLedger, run
from resources.postgres.migrations import require_current
from resources.settings import settings

TRIES = 5  # for the locks, each for SHORT_WAIT; with the pauses between them, 13 seconds at most
PAUSE = 0.3, 0.7  # seconds


@dataclass(frozen=True)
class Proposal:
    """What would be applied, or was."""

    plan: ChangePlan
    known: bool  # the ledger has had a contract of the pipeline
    tables: tuple[Table, ...]  # that are created empty, and that a replay then fills
    nulls: tuple[tuple[str, int], ...]  # schema.table.column that must not be NULL, and in how many rows it is
    published: bool  # there are rows of its batches
    dead_letters: tuple[tuple[str, int], ...]  # by rule that is looser now: open ones, which may pass
    writers: tuple[WriterFit, ...] = ()  # of messages that name schemas: those that the ledger has

    @property
    def empty(self) -> bool:
        """Whether there is nothing to apply."""
        return self.known and self.plan.empty and not self.tables

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why it cannot be applied, each with what to do."""
        held = [
            f"{column} is NULL in {plural(rows, 'row')}: correct them, or leave the column optional"
            for column, rows in self.nulls
        ]
        keyed = [f"{item.what}: {item.sentence}" for item in self.plan.found_otherwise if self.published]
        return (*self.plan.refusals, *keyed, *held)

    @property
    def remedy(self) -> str:
        """What makes the rows that cannot be changed in place, as a sentence; empty where nothing is to be made."""
        refused = any(item.refused and item.kind in ("add", "retype") for item in self.plan.statements)
        command = replay_command(self.plan.new.pipeline)
        return f" To have all rows made again by this contract: {command}" if self.plan.needs_replay or refused else ""


def replay_command(name: str) -> str:
    """What makes all rows of a pipeline again."""
    return f"tidegate replay {name} --execute --reason '...'"


def propose(url: str, contract: Contract, given: Given) -> Proposal:
    """What applying `contract` would do. Changes nothing.

    Raises BadInput where the pipeline has never run, or something is given that nothing asks for; LedgerMissing,
    LedgerOutdated, LedgerTooNew, LedgerAway.
    """
    with connect(url) as connection, database_errors():
        require_current(connection)
        with connection.transaction():
            found = _proposed(connection, contract, given)
    return replace(found, writers=_writers(url, contract))


def apply(url: str, contract: Contract, given: Given, who: str) -> Proposal:
    """Carry it out, or change nothing; what was done.

    Raises BadInput where it is refused, LedgerAway, which names who holds the table, where its lock was not to be had,
    OutcomeUnknown where the session was lost.
    """
    retrying = Retrying(
        # A task that publishes directly has the table while it waits for the pipeline's row, which is locked here.
        retry=retry_if_exception_type((psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)),
        stop=stop_after_attempt(TRIES),
        wait=wait_random(*PAUSE),
    )
    try:
        with database_errors(), _session_lost(contract):
            done = retrying(_apply, url, contract, given, who)
    except RetryError as error:
        raise _locked(url, contract) from error
    crash_points.reach("apply_committed")
    return done


def _apply(url: str, contract: Contract, given: Given, who: str) -> Proposal:
    with connect(url, f"tidegate apply {contract.pipeline}"[:63]) as connection, connection.transaction():
        connection.execute(lock_timeout(SHORT_WAIT))
        connection.execute(DURABLE)
        require_current(connection)
        ContractLedger(connection, contract.pipeline).lock()
        decided = _proposed(connection, contract, given)
        if not decided.empty:
            _carry_out(connection, decided, who)
        return decided


def _carry_out(connection: Connection, decided: Proposal, who: str) -> None:
    contract = decided.plan.new
    if decided.refusals:
        raise BadInput(f"{decided.refusals[0]}. Nothing was changed.{decided.remedy}", field=contract.pipeline)
    crash_points.reach("apply_locked")
    ledger = ContractLedger(connection, contract.pipeline)
    ledger.fence()
    for _ in run(connection, decided.plan.statements):
        crash_points.reach("apply_altered")
    for table in decided.tables:
        claim(connection, contract.pipeline, table, rebuilding=True)
    row_table = contract.row_table.name
    dropped = [item.column for item in decided.plan.statements if item.kind == "drop" and item.table == row_table]
    ledger.record(contract, who, by_command=True, dropped=dropped)
    crash_points.reach("apply_recorded")


def _proposed(connection: Connection, contract: Contract, given: Given) -> Proposal:
    ledger = ContractLedger(connection, contract.pipeline)
    applied, published = ledger.applied(), ledger.newest_batch() is not None
    if applied is None and not published:
        raise BadInput("it has published nothing: its first run creates the tables", field=contract.pipeline)
    before = contract if applied is None else applied.contract(contract.pipeline)
    shapes = ledger.shapes(contract)
    found = plan(before, contract, shapes, given)
    if (wrong := unused(given, found)) is not None:
        raise BadInput(wrong, field=contract.pipeline)
    missing = tuple(table for table in contract.accumulates if table.name not in shapes)
    nulls, loosened = _nulls(ledger, found), _loosened(ledger, found)
    return Proposal(found, applied is not None, missing, nulls, published, loosened)


def _writers(url: str, contract: Contract) -> tuple[WriterFit, ...]:
    """The schemas that values named, as the ledger has them."""
    if not contract.wire.framed:
        return ()
    return survey(contract, None, url, settings().registry_name).schemas


def _nulls(ledger: ContractLedger, found: ChangePlan) -> tuple[tuple[str, int], ...]:
    asked = [(f"{item.table}.{item.column}", ledger.nulls(item)) for item in found.statements if item.checks_rows]
    return tuple((column, rows) for column, rows in asked if rows)


def _loosened(ledger: ContractLedger, found: ChangePlan) -> tuple[tuple[str, int], ...]:
    rules = [change.rule for change in found.changes if change.rule]
    return tuple(ledger.open_dead_letters(rules).items()) if rules else ()


@contextmanager
def _session_lost(contract: Contract) -> Generator[None]:
    """Of a session that is lost, COMMIT may have arrived. To apply again does nothing then."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InternalError) as error:  # the latter: psycopg got two errors for COMMIT
        if error.sqlstate is not None and not error.sqlstate.startswith(("08", "57P")):
            raise
        raise OutcomeUnknown(
            f"the session was lost while the contract of {contract.pipeline} was applied: {error} Apply it again: "
            "where that has happened, it says that there is nothing to do"
        ) from error


def _locked(url: str, contract: Contract) -> LedgerAway:
    """Who has what could not be locked."""
    tables = [table.name for table in contract.tables]
    with connect(url) as connection, database_errors():
        row = connection.execute(queries()["table_holders"], {"tables": tables}).fetchone()
    who = _holder(row) if row else "a run that is publishing, or another session that changes the pipeline"
    return LedgerAway(
        f"the contract of {contract.pipeline} was not applied, and nothing was changed: a lock was not to be had in "
        f"{TRIES} tries of {SHORT_WAIT}. It is held by {who}. Try again when that has ended",
        sqlstate="55P03",
    )


def _holder(row: Sequence[Any]) -> str:
    pid, user, name, seconds, query = row
    if seconds is None:
        return f"session {pid} of {user}, of which only members of pg_read_all_stats may see more"
    return f"session {pid} of {user} ({name or 'no name'}), in a transaction for {seconds} s: {query}"
