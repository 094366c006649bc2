"""The tables that a pipeline writes: their DDL, and whether the live ones are still what the contract says."""

from typing import Any, LiteralString, cast

from psycopg import sql

from platform_defs.contract.model import Contract, Table
from platform_defs.contract.own_columns import staged_columns, target_columns
from platform_defs.engine.ports import Staged
from platform_defs.errors import BadInput
from resources.postgres.connection import Connection, queries

STAGING_SCHEMA = "tidegate_staging"


def closed_list(text: str) -> sql.SQL:
    """`text` as SQL. Only for what this project wrote: types and operators from a closed list, never a user's text."""
    return sql.SQL(cast("LiteralString", text))


def identifier(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split("."))


def create_target(connection: Connection, table: Table) -> None:
    """Create `table` where it is missing: NOT NULL as the contract says, and the key of an upsert or accumulate as its
    primary key.
    """
    schema = table.name.partition(".")[0]
    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    columns = [
        _column(c.name, c.type.postgres, required=c.required and table.disposition != "upsert") for c in table.columns
    ]
    columns += [_column(name, kind.postgres, required=True) for name, kind in target_columns(table)]
    key = table.group_by if table.disposition == "accumulate" else ("_key",) if table.disposition == "upsert" else ()
    if key:
        columns.append(sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, key))))
    connection.execute(
        sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(identifier(table.name), sql.SQL(", ").join(columns))
    )
    if table.description:
        comment = sql.SQL("COMMENT ON TABLE {} IS {}")
        connection.execute(comment.format(identifier(table.name), sql.Literal(table.description)))


def check_target(connection: Connection, pipeline: str, table: Table) -> None:
    """Refuse a table that COPY or publish would fill with the wrong bits, or that is another pipeline's.

    Raises BadInput naming table, column, and what to do.
    """
    live = {name: (kind, demanded) for name, kind, demanded in _rows(connection, "columns_of", table=table.name)}
    if not live:
        raise BadInput(
            f"table {table.name} of pipeline {pipeline} no longer exists. Restore it with its rows: an empty one in "
            "its place would lack the rows that the offsets say are written",
            field=table.name,
        )
    wanted = {c.name: c.type.postgres for c in table.columns} | {n: t.postgres for n, t in target_columns(table)}
    for name, kind in wanted.items():
        is_kind = live.get(name, ("missing", False))[0]
        if is_kind != kind:
            raise BadInput(
                f"column {name} of {table.name} is {is_kind}, and the contract says {kind}; nothing was written. "
                "Change the column or the contract so that they agree",
                field=f"{table.name}.{name}",
            )
    for name, (_, demanded) in live.items():
        if demanded and name not in wanted:
            raise BadInput(
                f"column {name} of {table.name} is NOT NULL without a default, and not in the contract. Give it a "
                "default, or add it to the contract",
                field=f"{table.name}.{name}",
            )


def lock_target(connection: Connection, table: Table) -> None:
    """Prevent that `table` is altered until the transaction ends; others may write to it. A table that is gone is left
    to check_target.
    """
    if connection.execute("SELECT to_regclass(%s)", [table.name]).fetchone() != (None,):
        connection.execute(sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(identifier(table.name)))


def refuse_unique(connection: Connection, table: Table) -> None:
    """Raise BadInput for a table with a unique constraint: at_least_once writes rows again after a crash, and could
    not.
    """
    names = [name for (name,) in _rows(connection, "unique_indexes", table=table.name)]
    if names:
        raise BadInput(
            f"{table.name} accepts a row only once ({', '.join(names)}), and at_least_once may write it again: after a "
            "crash it could never continue. Drop the constraint, or deliver exactly_once",
            field=table.name,
        )


def claim(connection: Connection, pipeline: str, table: Table) -> None:
    """Create `table` if this pipeline never had it, and make it the pipeline's own. Raises BadInput where it belongs to
    another.
    """
    owned = _rows(connection, "output_owner", table=table.name, pipeline=pipeline)
    oid = connection.execute("SELECT to_regclass(%s)::oid", [table.name]).fetchone()
    if not owned:
        create_target(connection, table)
        check_target(connection, pipeline, table)
        _refuse_history(connection, pipeline, table)
        connection.execute(
            queries()["own_output"], {"table": table.name, "pipeline": pipeline, "disposition": table.disposition}
        )
        return
    for owner, known_oid in owned:
        if owner != pipeline:
            raise BadInput(f"table {table.name} belongs to pipeline {owner}; a table has one owner", field=table.name)
        if oid is None or oid[0] != known_oid:
            raise BadInput(
                f"table {table.name} is not the one that {pipeline} filled (it was dropped or replaced). Restore the "
                "original: the offsets say that its rows are written",
                field=table.name,
            )
    check_target(connection, pipeline, table)


def _refuse_history(connection: Connection, pipeline: str, table: Table) -> None:
    """Raise BadInput for a table that would lack what was read before, or that holds rows that no message explains."""
    if connection.execute("SELECT 1 FROM tidegate.batch WHERE pipeline = %s LIMIT 1", [pipeline]).fetchone():
        raise BadInput(
            f"table {table.name} is new to {pipeline}, which has published batches already: it would lack their rows. "
            "Give the contract a new id and new tables, so that it reads from the beginning",
            field=table.name,
        )
    if connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(identifier(table.name))).fetchone():
        raise BadInput(
            f"table {table.name} holds rows that {pipeline} has not written; give the pipeline a table of its own, or "
            "empty this one",
            field=table.name,
        )


def create_staging(connection: Connection, contract: Contract, staging_id: int) -> None:
    """An UNLOGGED table like the row table, without its constraints: a row that violates one is found at publish."""
    named = [*((column.name, column.type) for column in contract.row_table.columns), *staged_columns(contract)]
    columns = [_column(name, kind.staged, required=False) for name, kind in named]
    connection.execute(
        sql.SQL("CREATE UNLOGGED TABLE {} ({}) WITH (autovacuum_enabled = off)").format(
            staging_table(staging_id), sql.SQL(", ").join(columns)
        )
    )


def staging_table(staging_id: int) -> sql.Identifier:
    return sql.Identifier(STAGING_SCHEMA, f"rows_{staging_id}")


def create_audit_view(connection: Connection, contract: Contract, staged: Staged) -> str:
    """A view of what publish would write: the winners' rows; for an upsert the newest of each key, without
    tombstones.
    """
    name, source = f"audit_{staged.staging_id}", staging_table(staged.staging_id)
    rows = sql.SQL("SELECT * FROM {} WHERE _attempt = ANY({})").format(source, sql.Literal(list(staged.winners)))
    if contract.row_table.disposition == "upsert":
        latest = sql.SQL("SELECT DISTINCT ON (_key) * FROM ({}) AS rows ORDER BY _key, _offset DESC").format(rows)
        rows = sql.SQL("SELECT * FROM ({}) AS latest WHERE NOT _deleted").format(latest)
    connection.execute(sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(sql.Identifier(STAGING_SCHEMA, name), rows))
    return name


def drop_staging(connection: Connection, staging_id: int) -> None:
    """Drop a try's table and view. A stopped process inside COPY still locks them: lock_timeout, and the next sweep."""
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '1s'")
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(staging_table(staging_id)))
        connection.execute(queries()["forget_staging"], {"staging_id": staging_id})


def _column(name: str, kind: str, *, required: bool) -> sql.Composable:
    return sql.SQL("{} {} {}").format(
        sql.Identifier(name),
        closed_list(kind),
        sql.SQL("NOT NULL" if required else ""),
    )


def _rows(connection: Connection, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
    return connection.execute(queries()[query], parameters).fetchall()
