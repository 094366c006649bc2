"""The tables that a pipeline writes: their DDL, and whether the live ones still match the contract."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import LiteralString, cast

import psycopg
from psycopg import sql

from platform_defs.contract.model.contract import Contract, Table
from platform_defs.contract.model.reserved import REPLAY
from platform_defs.contract.model.system_columns import target_columns
from platform_defs.errors import BadInput
from platform_defs.postgres.connection import Connection, queries
from platform_defs.postgres.live_table import LiveTable, key_columns, read_live, refuse_unfit


def closed_list(text: str) -> sql.SQL:
    """Return `text` as SQL. Only for our own text: types and operators from a closed list, never a user's."""
    return sql.SQL(cast("LiteralString", text))


# A batch updates many rows of an accumulate. With free space on their pages most need no new index entry:
# https://www.postgresql.org/docs/18/storage-hot.html
ROOM_TO_UPDATE = " WITH (fillfactor = 70)"


def identifier(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split("."))


def create_target(connection: Connection, table: Table) -> bool:
    """Create `table` if it is missing: NOT NULL as the contract says, the key of an upsert or accumulate as its primary
    key, and for an append an index by which verify finds the rows of new batches (a few pages in all). If it exists, or
    another session creates it meanwhile, no right to create it is needed. Return True if it was created here.
    """
    if connection.execute("SELECT to_regclass(%s)", [table.name]).fetchone() != (None,):
        return False
    create_schema(connection, table.name.partition(".")[0])
    columns = [_column(c.name, c.type.postgres, required=c.required) for c in table.columns]
    columns += [_column(name, kind.postgres, required=True) for name, kind in target_columns(table)]
    if key := key_columns(table):
        columns.append(sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, key))))
    room = sql.SQL(ROOM_TO_UPDATE if table.disposition == "accumulate" else "")
    definition = sql.SQL("CREATE TABLE {} ({}){}")
    with unless_created_meanwhile(connection) as committed:
        connection.execute(definition.format(identifier(table.name), sql.SQL(", ").join(columns), room))
        if table.disposition == "append":
            options = sql.SQL("WITH (autosummarize = on, pages_per_range = 1024)")
            index = sql.SQL("CREATE INDEX ON {} USING brin (_batch_id) {}")
            connection.execute(index.format(identifier(table.name), options))
        if table.description:
            comment = sql.SQL("COMMENT ON TABLE {} IS {}")
            connection.execute(comment.format(identifier(table.name), sql.Literal(table.description)))
    return bool(committed)


def create_schema(connection: Connection, schema: str) -> None:
    """Create `schema` unless it exists, or another session creates it meanwhile; then no right to create is needed."""
    if connection.execute("SELECT to_regnamespace(quote_ident(%s))", [schema]).fetchone() == (None,):
        with unless_created_meanwhile(connection):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))


@contextmanager
def unless_created_meanwhile(connection: Connection) -> Generator[list[bool]]:
    """Undo the block if another session, of Tidegate or another program, has created the same object meanwhile. Yields
    a list that is empty afterwards unless the block was committed.

    IF NOT EXISTS is not enough: sessions that look before any of them commits all create it. The later ones wait for
    the first one's commit, and then violate a unique index of the catalogue.
    """
    committed = list[bool]()
    with suppress(*_CREATED_MEANWHILE):
        with connection.transaction():
            yield committed
        committed.append(True)


_CREATED_MEANWHILE = (
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateTable,
    psycopg.errors.UniqueViolation,  # in pg_namespace, pg_class or pg_type
)


def check_target(connection: Connection, pipeline: str, table: Table, *, columns: bool = True) -> LiveTable:
    """Return the table's definition. Refuse one that publish could not fill exactly, or that is not the one that the
    pipeline has filled.

    Raises BadInput naming table, column, and what to do. Without `columns`, those may differ from the contract's.
    """
    live = read_live(connection, pipeline, table)
    if live is None:
        raise BadInput(
            f"table {table.name} of pipeline {pipeline} no longer exists. Restore it with its rows (an empty table "
            f"would lack the rows that the offsets record as written), then: tidegate adopt {pipeline}",
            field=table.name,
        )
    refuse_unfit(table, live, columns=columns)
    if not live.bound:  # its OID differs from the ledger's
        original = f"If it is the original, restored or moved: tidegate adopt {pipeline}"
        remedy = f"{original}. Otherwise, restore the original first"
        if pipeline.endswith(REPLAY):
            remedy = f"To drop that replay's tables: tidegate replay {pipeline.removesuffix(REPLAY)} --discard"
        raise BadInput(
            f"table {table.name} is not the one that {pipeline} filled (it was dropped and created again, or "
            f"restored from a dump), but the offsets record its rows as written. {remedy}",
            field=table.name,
        )
    return live


def lock_target(connection: Connection, table: Table) -> None:
    """Lock `table`, its triggers and rules against changes until the transaction ends; others may write to it. Raises
    BadInput if the table does not exist.
    """
    try:
        connection.execute(sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(identifier(table.name)))
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise BadInput(f"table {table.name} no longer exists. Restore it with its rows", field=table.name) from error


def refuse_unique(connection: Connection, contract: Contract) -> None:
    """Raise BadInput if a pipeline that publishes directly has a unique or exclusion constraint on its table."""
    if contract.publication != "direct":
        return
    table = contract.row_table
    found = connection.execute(queries()["unique_indexes"], {"table": table.name}).fetchall()
    if names := ", ".join(name for (name,) in found):
        raise BadInput(
            f"{table.name} has a unique or exclusion constraint ({names}). With publication: direct, tasks that "
            "write the same key would wait for each other. Drop the constraint, or leave out publication",
            field=table.name,
        )


def _column(name: str, kind: str, *, required: bool) -> sql.Composable:
    return sql.SQL("{} {} {}").format(sql.Identifier(name), closed_list(kind), sql.SQL("NOT NULL" if required else ""))
