"""The claims of a run before it reads: its contract, and the tables that it fills.

The contract is the one in the ledger, or a changed one that the run applies by itself
(contract/evolution/unattended.py decides what it may apply). Each table is created, or is the one that the pipeline has
filled up to its last batch, in the same way as the contract fills it now.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from psycopg import sql
from psycopg.rows import class_row

from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.evolution.unattended import refuse_attended, refuse_declassified, refuse_version
from platform_defs.contract.model.classified import classified
from platform_defs.contract.model.contract import Contract, Table
from platform_defs.contract.model.reserved import REPLAY
from platform_defs.contract.odcs_writer import contract_digest
from platform_defs.engine.interfaces import crash_points
from platform_defs.errors import BadInput
from platform_defs.formats.writer_fit import writer_changes
from platform_defs.ledger.contract_ledger import SHORT_WAIT, ContractLedger, run
from platform_defs.postgres.connection import (
    LOCK_WAIT,
    Connection,
    connect,
    database_errors,
    dict_rows,
    lock_timeout,
    queries,
)
from platform_defs.postgres.live_table import refuse_unidentified, rights_on
from platform_defs.postgres.tables import check_target, create_target, identifier


def pin(connection: Connection, contract: Contract, run_id: str | None, *, rebuilding: bool) -> str | None:
    """Return the digest of the contract for this run's messages; None for a replay that is being built, whose batches
    get the digest of the pipeline that they become a part of.

    Runs in a transaction, as the pipeline's owner. Raises BadInput if a user has to apply the contract first. A replay
    that is `rebuilding` records it when it is swapped in.
    """
    if contract.pipeline.endswith(REPLAY):
        return None
    ledger, wanted = ContractLedger(connection, contract.pipeline), contract_digest(contract)
    applied = ledger.applied()
    if applied is not None:
        was = applied.contract(contract.pipeline)
        if applied.digest == wanted:  # which covers neither classification nor limits
            if classified(was) != classified(contract):
                refuse_declassified(plan(was, contract))
            elif was.limits == contract.limits:
                return wanted
        else:
            of_writers = writer_changes(was, contract, ledger.schemas_in_use())
            found = plan(was, contract, ledger.shapes(contract), of_writers=of_writers)
            refuse_version(found, applied.applied_by, by_command=applied.by_command)
            if rebuilding:
                refuse_declassified(found)
            else:
                published = ledger.newest_batch() is not None
                refuse_attended(found, published=published, unknown_fields=ledger.unknown_fields())
                connection.execute(lock_timeout(SHORT_WAIT))
                for _ in run(connection, found.statements):
                    crash_points.reach("apply_altered")
                connection.execute(lock_timeout(LOCK_WAIT))
    if rebuilding:
        return wanted
    return ledger.record(contract, f"run {run_id}" if run_id else "a run", by_command=False)


def claim(connection: Connection, pipeline: str, table: Table, *, rebuilding: bool = False) -> None:
    """Create `table` if this pipeline never had it, and make it the pipeline's own.

    Raises BadInput if it belongs to another, is not as the pipeline left it, or cannot be filled exactly. A replay is
    `rebuilding` all its rows: they may be behind, made in another way, or have other columns.
    """
    _refuse_missing_rights(connection, table, "usage")
    owned = _owner(connection, pipeline, table)
    filled = {"table": table.name, "pipeline": pipeline, "definition": table.definition}
    if owned is None:
        _refuse_missing_rights(connection, table, "create")
        create_target(connection, table)
        connection.execute(queries()["own_output"], {**filled, "disposition": table.disposition})
        _refuse_unfit(connection, pipeline, table)
        _refuse_history(connection, pipeline, table, rebuilding=rebuilding)
        return
    connection.execute(queries()["name_output"], filled)
    _refuse_unfit(connection, pipeline, table, columns=not rebuilding)
    if not rebuilding:
        owned.refuse_outdated(table)


def _refuse_unfit(connection: Connection, pipeline: str, table: Table, *, columns: bool = True) -> None:
    """Raise BadInput if publish cannot fill the table exactly, or if its rows cannot be identified for subscribers.
    The latter is checked for each run, not for each batch, and for a partitioned table by the write itself: it may
    never change a partition that has no replica identity.
    """
    if check_target(connection, pipeline, table, columns=columns).published:
        refuse_unidentified(connection, table, rights_on(table))


def create_unclaimed(url: str, contracts: Iterable[Contract]) -> list[str]:
    """Create the missing tables of `contracts`, for runs whose role may not create tables, and return their names. One
    that a pipeline has claimed is not created again: it would lack rows.

    Raises BadInput if a right for that is missing, LedgerAway.
    """
    created = list[str]()
    with connect(url) as connection, database_errors(), connection.transaction():
        # By name, as runs create them: two sessions never wait for each other's schemas.
        claimed = [(each.pipeline, table) for each in contracts for table in each.tables]
        wanted = sorted(claimed, key=lambda claim: claim[1].name)
        for pipeline, table in wanted:
            _refuse_missing_rights(connection, table, "usage")
            if _owner(connection, pipeline, table) is None:
                _refuse_missing_rights(connection, table, "create")
                created += [table.name] if create_target(connection, table) else []
    return created


@dataclass(frozen=True)
class Output:
    """A table that a pipeline owns, in the ledger."""

    pipeline: str
    definition: str | None  # None: an earlier version of Tidegate claimed it
    batch_id: int | None  # the last one that wrote to it
    newest_batch: int | None  # of the pipeline

    def filled_otherwise(self, table: Table) -> bool:
        """Return True if it was filled in another way than the contract fills `table`."""
        return self.definition not in (None, table.definition)

    @property
    def behind(self) -> bool:
        """True if batches were published without it."""
        return (self.batch_id or 0) < (self.newest_batch or 0)

    def refuse_outdated(self, table: Table) -> None:
        """Raise BadInput if the existing rows do not fit those that the next batch would add."""
        replay = f"Rebuild it from the log: tidegate replay {self.pipeline}"
        if self.filled_otherwise(table):
            raise BadInput(
                f"table {table.name} was filled as {self.definition}, but the contract now says "
                f"{table.definition}: existing and new rows do not fit together. {replay}",
                field=table.name,
            )
        if self.behind:
            last = f"batch {self.batch_id}" if self.batch_id else "no batch"
            raise BadInput(
                f"table {table.name} was last written by {last}, but {self.pipeline} has published up to batch "
                f"{self.newest_batch} while the contract did not include the table: it lacks those rows. {replay}",
                field=table.name,
            )


def _owner(connection: Connection, pipeline: str, table: Table) -> Output | None:
    """Return this table's output. Raises BadInput if it is another pipeline's."""
    with connection.cursor(row_factory=class_row(Output)) as cursor:
        asked = {"table": table.name, "pipeline": pipeline}
        owned = cursor.execute(queries()["output_owner"], asked).fetchone()
    if owned is not None and owned.pipeline != pipeline:
        raise BadInput(
            f"table {table.name} belongs to pipeline {owned.pipeline}; a table can have only one owner. (After a "
            f"restore, let {owned.pipeline} adopt its tables first: tidegate adopt {owned.pipeline})",
            field=table.name,
        )
    return owned


def _refuse_missing_rights(connection: Connection, table: Table, right: Literal["usage", "create"]) -> None:
    """Raise BadInput, with all missing grants, if the table cannot be found (`usage`), or is missing and cannot be
    created (`create`).
    """
    schema, _, name = table.name.partition(".")
    (row,) = dict_rows(connection, "schema_rights", {"schema": schema, "name": name})
    needed = {"usage": row["schema_there"], "create": not row["table_there"]}
    lacking = [name for name, is_needed in needed.items() if is_needed and not row[f"may_{name}"]]
    if right not in lacking:
        return
    where = f"schema {schema}" if row["schema_there"] else f"database {row['database']}"
    granted = f"grant {', '.join(lacking)} on {where} to {row['role']}"
    if not row["table_there"]:
        granted += "; or create it as the ledger's owner (tidegate migrate --tables) and execute the GRANTs that "
        granted += "tidegate rights prints"
    raise BadInput(f"{row['role']} cannot use or create {table.name}: {granted}", field=table.name)


def _refuse_history(connection: Connection, pipeline: str, table: Table, *, rebuilding: bool) -> None:
    """Raise BadInput for a table that would lack what was read before, or that has rows from no message."""
    published = connection.execute("SELECT 1 FROM tidegate.batch WHERE pipeline = %s LIMIT 1", [pipeline]).fetchone()
    if published and not rebuilding:
        remedy = "Give the contract a new id and new tables, so that it reads from the beginning"
        if table.disposition == "accumulate":
            remedy = (
                f"To create it and fill it from the log, run tidegate contract apply {pipeline} --yes, then tidegate "
                f"replay {pipeline}"
            )
        raise BadInput(
            f"table {table.name} is new to {pipeline}, which has already published batches: the table would lack "
            f"their rows. {remedy}",
            field=table.name,
        )
    if connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(identifier(table.name))).fetchone():
        raise BadInput(
            f"table {table.name} has rows that {pipeline} did not write; give the pipeline its own table, or empty "
            "this one",
            field=table.name,
        )
