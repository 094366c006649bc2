"""Application of a changed contract: shown first (`propose`), then carried out in its own transaction (`apply`).

The transaction locks the pipeline's row and raises its epoch, so that a running batch is fenced and its offsets are
read again; then it runs the statements, and records the contract in the ledger. It is never the transaction that
publishes: ALTER TABLE waits for every reader of the table, and a publication would wait with it.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import psycopg
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from platform_defs.contract.evolution.plan import ChangePlan, plan, unused
from platform_defs.contract.evolution.statements import (
    NOT_NULL,
    UNCHECK,
    Given,
    Statement,
    TableShape,
    nullable,
    quoted,
)
from platform_defs.contract.model.classified import classified
from platform_defs.contract.model.contract import Contract, Table
from platform_defs.contract.odcs_writer import contract_digest
from platform_defs.engine.interfaces import crash_points
from platform_defs.engine.lease.table_claims import claim
from platform_defs.errors import BadInput, ChangedMeanwhile, LedgerAway, OutcomeUnknown, TidegateError
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.writer_fit import writer_changes
from platform_defs.ledger.contract_ledger import SHORT_WAIT, ContractLedger, run
from platform_defs.ledger.migrations import reading, require_current
from platform_defs.postgres.connection import DURABLE, Connection, connect, database_errors, lock_timeout, queries
from platform_defs.postgres.tables import refuse_unique
from platform_defs.schemas.survey import WriterFit, survey
from platform_defs.settings.settings import settings
from platform_defs.stack.endpoints import registry_if_any

TRIES = 5  # for the locks, each for SHORT_WAIT; with the pauses between them, 13 seconds at most
PAUSE = 0.3, 0.7  # seconds


@dataclass(frozen=True)
class Proposal:
    """The changes that would be applied, or were."""

    plan: ChangePlan
    known: bool  # the ledger has a contract of the pipeline
    tables: tuple[Table, ...]  # created empty; a replay then fills them
    nulls: tuple[tuple[str, int], ...]  # schema.table.column that must not be NULL, and the number of rows with NULL
    published: bool  # there are rows of its batches
    dead_letters: tuple[tuple[str, int], ...]  # open ones by loosened rule, which may pass now
    writers: tuple[WriterFit, ...] = ()  # for messages that name schemas: those in the ledger
    nullable: tuple[str, ...] = ()  # schema.table.column that was already required, but allows NULL in Postgres

    @property
    def empty(self) -> bool:
        """True if there is nothing to apply."""
        return self.known and self.plan.empty and not self.tables

    @property
    def refusals(self) -> tuple[str, ...]:
        """The reasons why it cannot be applied, each with the remedy."""
        held = [
            f"{column} is NULL in {plural(rows, 'row')}: correct these rows, or leave the column optional"
            for column, rows in self.nulls
        ]
        keyed = [f"{item.what}: {item.sentence}" for item in self.plan.found_otherwise if self.published]
        return (*self.plan.refusals, *keyed, *held)

    @property
    def remedy(self) -> str:
        """A sentence with the command that rebuilds rows that cannot be changed in place; empty if there are none."""
        refused = any(item.refused and item.kind in ("add", "retype") for item in self.plan.statements)
        command = replay_command(self.plan.new.pipeline)
        return f" To rebuild all rows under this contract: {command}" if self.plan.needs_replay or refused else ""


def replay_command(name: str) -> str:
    """Return the command that rebuilds all rows of a pipeline."""
    return f"tidegate replay {name} --execute --reason '...'"


def propose(url: str, contract: Contract, given: Given) -> Proposal:
    """Return the changes that applying `contract` would make. Changes nothing.

    Raises BadInput if the pipeline has never run, or an unneeded value is given; LedgerMissing, LedgerOutdated,
    LedgerTooNew, LedgerAway; RegistryAway, for a contract whose messages name schemas.
    """
    registered = _newest_registered(contract)
    with reading(connect(url)) as connection, connection.transaction():
        found = _proposed(connection, contract, given, registered)
    in_ledger = survey(contract, None, url, settings().registry_name).schemas if contract.wire.framed else ()
    return replace(found, writers=in_ledger)


def apply(url: str, contract: Contract, given: Given, who: str) -> Proposal:
    """Apply the contract, or change nothing. Return the changes made.

    Raises BadInput if it is refused, RegistryAway as `propose` does, LedgerAway, which names the lock's owner, if a
    table could not be locked, OutcomeUnknown if the session was lost.
    """
    try:
        registered = _newest_registered(contract)
        with database_errors(), _session_lost(contract):
            done = _retrying()(_apply, url, contract, given, who, registered)
    except RetryError as error:
        what = f"the contract of {contract.pipeline} was not applied, and nothing was changed"
        raise _locked(url, contract, what) from error
    crash_points.reach("apply_committed")
    return done


def set_not_null(url: str, contract: Contract) -> tuple[str, ...]:
    """Set NOT NULL on the columns that the contract in force requires and that allow NULL in Postgres, as in tables of
    an older version. Return schema.table.column of each.

    Readers and runs continue while Postgres reads the tables:
    https://www.postgresql.org/docs/current/sql-altertable.html (SET NOT NULL). A CHECK left by an interrupted call is
    used, and dropped. Raises BadInput if another contract is in force, a row has NULL, or the role may not;
    ChangedMeanwhile; LedgerAway.
    """
    with connect(url) as connection, database_errors():
        require_current(connection)
    altered = list[str]()
    for table in contract.tables:
        try:
            with database_errors():
                altered += [f"{table.name}.{column}" for column in _prove_and_set(url, contract, table)]
        except RetryError as error:
            left = _left_of_not_null(url, contract, table)
            raise _locked(url, contract, f"NOT NULL was not set on {table.name}", f". {left}") from error
        except BadInput as error:
            if isinstance(error.__context__, psycopg.IntegrityError):
                with_nulls = _with_nulls(url, contract, table)
                if with_nulls is not None:
                    raise with_nulls from None
            raise
    return tuple(altered)


def _prove_and_set(url: str, contract: Contract, table: Table) -> Sequence[str]:
    """Set NOT NULL in three transactions. The first and the last one lock the table for a moment; the second, which
    reads it, blocks neither readers nor writers.
    """
    columns = _not_null_step(url, contract, table, "add")
    if not columns:
        return columns
    crash_points.reach("not_null_added")
    try:
        _not_null_step(url, contract, table, "validate")
        crash_points.reach("not_null_validated")
        _not_null_step(url, contract, table, "set")
    except (RetryError, ChangedMeanwhile):  # the next call or another session uses the CHECK
        raise
    except BaseException:
        with suppress(RetryError, psycopg.Error, TidegateError):
            _not_null_step(url, contract, table, "drop")
        raise
    return columns


def _not_null_step(
    url: str, contract: Contract, table: Table, step: Literal["add", "validate", "set", "drop"]
) -> Sequence[str]:
    """Return the columns that lacked NOT NULL. Raises RetryError if a lock was not available.

    The pipeline's row is locked while the CHECK is added and NOT NULL is set: a contract that makes a column optional
    either comes into force before, and is seen here, or after, and drops the CHECK (contract/evolution/statements.py).
    """

    def alter() -> Sequence[str]:
        with connect(url, "tidegate apply") as connection, connection.transaction():
            connection.execute(lock_timeout(SHORT_WAIT))
            ledger = ContractLedger(connection, contract.pipeline)
            if step in ("add", "set"):
                ledger.lock()
            if step != "drop" and ledger.in_force() != contract_digest(contract):
                raise BadInput(
                    "the contract has changed since it was applied, or is not recorded yet. Run this first: "
                    f"tidegate contract apply {contract.pipeline} --yes",
                    field=contract.pipeline,
                )
            shape = ledger.shapes(contract).get(table.name, {})
            columns = nullable(table, shape)
            for _ in run(connection, _not_null_statements(contract, table, shape, step if columns else "drop")):
                pass
            return columns

    return _retrying()(alter)


def _not_null_statements(contract: Contract, table: Table, shape: TableShape, step: str) -> Iterator[Statement]:
    columns, checked = nullable(table, shape), {name for name, there in shape.items() if there.checked}
    demand = partial(Statement, "demand", table.name, next(iter(columns), ""))
    if step == "drop":
        if checked:
            yield demand(UNCHECK)
    elif step == "add":
        if checked != {*columns}:
            check = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in columns)
            yield demand(f"{UNCHECK}, ADD CONSTRAINT {NOT_NULL} CHECK ({check}) NOT VALID")
    elif checked != {*columns}:
        raise ChangedMeanwhile(
            f"another session has changed {table.name}. Run the command again: {_not_null_command(contract)}"
        )
    elif step == "validate":
        yield demand(f"VALIDATE CONSTRAINT {NOT_NULL}")
    else:
        for column in columns:
            yield Statement("demand", table.name, column, f"ALTER COLUMN {quoted(column)} SET NOT NULL")
        yield demand(UNCHECK)


def _not_null_command(contract: Contract) -> str:
    return f"tidegate contract apply {contract.pipeline} --not-null"


def _left_of_not_null(url: str, contract: Contract, table: Table) -> str:
    """Return a sentence about the CHECK, which may be left on the table."""
    with connect(url) as connection, database_errors():
        shape = ContractLedger(connection, contract.pipeline).shapes(contract).get(table.name, {})
    if any(there.checked for there in shape.values()):
        return f"The constraint {NOT_NULL} is still on {table.name}; to continue: {_not_null_command(contract)}"
    return f"{table.name} was not changed"


def _with_nulls(url: str, contract: Contract, table: Table) -> BadInput | None:
    """Return the error that names the first column with NULL, and the number of rows."""
    with connect(url) as connection, database_errors():
        ledger = ContractLedger(connection, contract.pipeline)
        columns = nullable(table, ledger.shapes(contract).get(table.name, {}))
        counted = ((column, ledger.nulls(Statement("demand", table.name, column, ""))) for column in columns)
        column, rows = next((one for one in counted if one[1]), ("", 0))
    if not rows:
        return None
    return BadInput(
        f"{table.name}.{column} is NULL in {plural(rows, 'row')}: correct these rows, or rebuild all rows "
        f"({replay_command(contract.pipeline)}). {_left_of_not_null(url, contract, table)}",
        field=f"{table.name}.{column}",
    )


def _retrying() -> Retrying:
    """Return the retry policy for locks: a task that publishes directly locks the table while it waits for the
    pipeline's row, which an apply has locked.
    """
    return Retrying(
        retry=retry_if_exception_type((psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)),
        stop=stop_after_attempt(TRIES),
        wait=wait_random(*PAUSE),
    )


def _apply(url: str, contract: Contract, given: Given, who: str, registered: Sequence[WriterSchema]) -> Proposal:
    with connect(url, f"tidegate apply {contract.pipeline}"[:63]) as connection, connection.transaction():
        connection.execute(lock_timeout(SHORT_WAIT))
        connection.execute(DURABLE)
        require_current(connection)
        ledger = ContractLedger(connection, contract.pipeline)
        ledger.lock()
        decided = _proposed(connection, contract, given, registered)
        if decided.empty:
            return decided
        if decided.refusals:
            raise BadInput(f"{decided.refusals[0]}. Nothing was changed.{decided.remedy}", field=contract.pipeline)
        crash_points.reach("apply_locked")
        ledger.fence()
        for _ in run(connection, decided.plan.statements):
            crash_points.reach("apply_altered")
        for table in decided.tables:
            claim(connection, contract.pipeline, table, rebuilding=True)
        refuse_unique(connection, contract)
        row_table = contract.row_table.name
        dropped = [item.column for item in decided.plan.statements if item.kind == "drop" and item.table == row_table]
        ledger.record(contract, who, by_command=True, dropped=dropped)
        crash_points.reach("apply_recorded")
        return decided


def _proposed(connection: Connection, contract: Contract, given: Given, registered: Sequence[WriterSchema]) -> Proposal:
    ledger = ContractLedger(connection, contract.pipeline)
    applied, published = ledger.applied(), ledger.newest_batch() is not None
    if applied is None and not published:
        raise BadInput("it has published nothing yet: its first run creates the tables", field=contract.pipeline)
    before = contract if applied is None else applied.contract(contract.pipeline)
    shapes = ledger.shapes(contract)
    schemas = (*ledger.schemas_in_use(), *registered)
    found = plan(before, contract, shapes, given, writer_changes(before, contract, dict.fromkeys(schemas)))
    if (wrong := unused(given, found)) is not None:
        raise BadInput(wrong, field=contract.pipeline)
    missing = tuple(table for table in contract.accumulates if table.name not in shapes)
    nulls = [(f"{item.table}.{item.column}", ledger.nulls(item)) for item in found.statements if item.checks_rows]
    rules = [change.rule for change in found.changes if change.rule]
    demanded = {(item.table, item.column) for item in found.statements if item.kind == "demand"}
    allowing = tuple(
        f"{table.name}.{column}"
        for table in contract.tables
        for column in nullable(table, shapes.get(table.name, {}))
        if (table.name, column) not in demanded
    )
    return Proposal(
        plan=found,
        known=applied is not None,
        tables=missing,
        nulls=tuple((column, rows) for column, rows in nulls if rows),
        published=published,
        dead_letters=tuple(ledger.open_dead_letters(rules).items()) if rules else (),
        nullable=allowing,
    )


def _newest_registered(contract: Contract) -> list[WriterSchema]:
    """Return the newest version of the contract's subject, which messages may not have named yet; none without a
    registry.
    """
    address = registry_if_any() if contract.wire.framed and contract.wire.subject else None
    if address is None:
        return []
    from platform_defs.registry.subjects import Subjects

    newest = Subjects(address).version(contract.wire.subject)
    return [newest.schema] if newest and newest.schema else []


@contextmanager
def _session_lost(contract: Contract) -> Generator[None]:
    """Raise OutcomeUnknown if the session is lost: COMMIT may have arrived. Applying again is then harmless."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InternalError) as error:  # the latter: psycopg got two errors for COMMIT
        if error.sqlstate is not None and not error.sqlstate.startswith(("08", "57P")):
            raise
        raise OutcomeUnknown(
            f"the session was lost while the contract of {contract.pipeline} was being applied: {error} Apply it "
            "again: if it was already applied, the command reports that there is nothing to do"
        ) from error


def _locked(url: str, contract: Contract, what: str, left: str = "") -> LedgerAway:
    """Return the error that names the owner of the lock."""
    tables = [table.name for table in contract.tables]
    with connect(url) as connection, database_errors():
        row = connection.execute(queries()["table_holders"], {"tables": tables}).fetchone()
    who = "a run that is publishing, or another session that changes the pipeline"
    if row:
        pid, user, name, seconds, query = row
        doing = "" if classified(contract).any else f": {query}"  # a statement may contain a value
        known = f" ({name or 'no name'}), in a transaction for {seconds} s{doing}"
        who = f"session {pid} of {user}"
        who += " (only members of pg_read_all_stats may see its details)" if seconds is None else known
    return LedgerAway(
        f"{what}: a lock was not acquired in {TRIES} attempts of {SHORT_WAIT} each. It is held by {who}. "
        f"Try again once it is released{left}",
        sqlstate="55P03",
    )
