"""The tables in which tries at a batch are staged. They stay: a table for each try, created and dropped, would make
Postgres' catalogue grow with each batch (docs/decisions/0028-staging-tables.md).

A try has a table to itself: `take` gives it one of its pipeline's that no other try uses and whose columns are the
contract's, or a new one. When the try is forgotten, `empty` frees the table for the next. A task of a fenced run that
wakes up later still writes into it: only the rows of the winners of the table's try are ever read.

Nothing that a batch does here waits for a lock. What another session has locked (a task that was stopped in COPY, a
backup) stays in use, or unchanged, until a later batch.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import LiteralString

import psycopg
from psycopg import sql

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.system_columns import staged_columns
from platform_defs.engine.interfaces.broker_and_auditor import AuditView
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.postgres.connection import Connection, queries
from platform_defs.postgres.tables import closed_list

STAGING_SCHEMA = "tidegate_staging"
SMALL = 256 * 1024  # bytes: a larger table is truncated, which needs a lock and a new file; a smaller one gets DELETE
SPARE = 1  # tables that a pipeline keeps in addition to the one it uses: a late task may have locked that one


def take(connection: Connection, contract: Contract, pipeline: str, new_id: int) -> int:
    """Return the id of a table for a new try at a batch of this contract: an idle one, or a new one called `new_id`.

    Drops tables of earlier contracts. Call it as the pipeline's owner, with its row locked.
    """
    columns = _columns(contract)
    wanted = {"pipeline": pipeline, "columns": [" ".join(column) for column in columns]}
    idle = connection.execute(queries()["idle_staging"], wanted).fetchall()
    fitting = [table_id for table_id, _, fits in idle if fits]
    outdated = [table_id for table_id, ours, fits in idle if ours and not fits]
    for table_id in (*outdated, *fitting[1 + SPARE :]):
        with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
            _drop(connection, table_id)
    if fitting:
        return fitting[0]
    connection.execute(queries()["keep_staging"], {"table_id": new_id, "pipeline": pipeline})
    _create(connection, contract, columns, new_id)
    return new_id


def empty(connection: Connection, staging_id: int, table_id: int) -> None:
    """Forget a try, and delete what it staged. Raises LockNotAvailable if another session has locked its table.

    A table of another role stays as it is: that role's next run empties or drops it.
    """
    row = connection.execute(queries()["staging_size"], {"table_id": table_id}).fetchone()
    if row is not None:
        large = row[0] > SMALL
        if large:
            _lock(connection, table_id)
        statement = "TRUNCATE {}" if large else "DELETE FROM {}"
        connection.execute(sql.SQL(statement).format(rows_table(table_id)))
    connection.execute(queries()["forget_staging"], {"staging_id": staging_id})


def drop_all(connection: Connection, pipeline: str) -> None:
    """Drop all of the pipeline's staging tables. Waits for locks: its sessions may only just have been ended."""
    for (table_id,) in connection.execute(queries()["staging_tables"], {"pipeline": pipeline}).fetchall():
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(rows_table(table_id)))
        connection.execute(queries()["drop_staging"], {"table_id": table_id})


def drop_free(connection: Connection, pipeline: str) -> None:
    """Drop the pipeline's staging tables that no try uses and no other session has locked."""
    for (table_id,) in connection.execute(queries()["free_staging"], {"pipeline": pipeline}).fetchall():
        with suppress(psycopg.errors.LockNotAvailable), connection.transaction():
            _drop(connection, table_id)


def view_of_winners(connection: Connection, staged: Staged) -> AuditView | None:
    """Return the view of what publish would write, which sees this try's winners after the transaction has committed;
    None if they have no rows.
    """
    key = {"staging_id": staged.staging_id}
    connection.execute(queries()["note_winners"], {**key, "attempts": list(staged.winners)})
    row = connection.execute(queries()["staging_table"], key).fetchone()
    if row is None:
        return None
    view = AuditView(STAGING_SCHEMA, _view_name(row[0]))
    any_row = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(view.schema, view.name))
    return view if connection.execute(any_row).fetchone() else None


def rows_table(table_id: int) -> sql.Identifier:
    return sql.Identifier(STAGING_SCHEMA, rows_name(table_id))


def rows_name(table_id: int) -> str:
    return f"rows_{table_id}"


def _view_name(table_id: int) -> str:
    """Return the name of the view of what publish would write from it."""
    return f"audited_{table_id}"


def _columns(contract: Contract) -> Sequence[tuple[str, str]]:
    """Return name and type of each column, as format_type prints it."""
    named = [*((column.name, column.type) for column in contract.row_table.columns), *staged_columns(contract)]
    return [(name, kind.staged) for name, kind in named]


def _create(connection: Connection, contract: Contract, columns: Sequence[tuple[str, str]], table_id: int) -> None:
    """Create an UNLOGGED table like the row table, without constraints: publish finds a row that violates one.

    With a view of what publish would write: the winners' rows; for an upsert the newest of each key, no tombstones.

    No autovacuum: a small table is truncated before it would be worth one, and it would take the lock that needs.
    """
    typed = [sql.SQL("{} {}").format(sql.Identifier(name), closed_list(kind)) for name, kind in columns]
    connection.execute(
        sql.SQL("CREATE UNLOGGED TABLE {} ({}) WITH (autovacuum_enabled = off)").format(
            rows_table(table_id), sql.SQL(", ").join(typed)
        )
    )
    rows = sql.SQL(_OF_WINNERS).format(rows_table(table_id), table_id)
    if contract.row_table.disposition == "upsert":
        latest = sql.SQL("SELECT DISTINCT ON (_key) * FROM ({}) AS rows ORDER BY _key, _offset DESC").format(rows)
        rows = sql.SQL("SELECT * FROM ({}) AS latest WHERE NOT _deleted").format(latest)
    view = sql.Identifier(STAGING_SCHEMA, _view_name(table_id))
    connection.execute(sql.SQL("CREATE VIEW {} AS {}").format(view, rows))


_OF_WINNERS: LiteralString = (
    "SELECT * FROM {} WHERE _attempt IN (SELECT attempt FROM tidegate_staging.winner"
    " JOIN tidegate.staging USING (staging_id) WHERE table_id = {})"
)


def _drop(connection: Connection, table_id: int) -> None:
    with suppress(psycopg.errors.UndefinedTable), connection.transaction():
        _lock(connection, table_id)
        connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(rows_table(table_id)))
    connection.execute(queries()["drop_staging"], {"table_id": table_id})


def _lock(connection: Connection, table_id: int) -> None:
    """Lock the table. Raises LockNotAvailable at once: other sessions would queue behind a lock that is waited for."""
    connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE NOWAIT").format(rows_table(table_id)))
