"""The statements that write staged rows into a table: appended, upserted by key, or merged into an accumulate.

Each returns how many rows it wrote, since a table can swallow rows without an error; it counts in the same statement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from platform_defs.contract.model.contract import Aggregate, Table
from platform_defs.contract.model.system_columns import target_columns
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural
from platform_defs.postgres.connection import Connection, queries
from platform_defs.postgres.tables import closed_list, identifier


@dataclass(frozen=True)
class StagedRows:
    """The rows of one try at a batch that count: `winners` is the condition that a staged row is one of them."""

    connection: Connection
    source: sql.Composable  # the staging table
    batch_id: int
    winners: sql.Composable
    left: Sequence[str] = ()  # columns of an upsert that earlier contracts left: NULL in the rows that are written


@dataclass(frozen=True)
class Written:
    """The counts of one statement: staged rows, rows that they make in the table, and rows that it took. For an upsert
    also the rows that it deleted.
    """

    staged: int
    due: int
    written: int
    deleted: int = 0

    def refuse_fewer(self, table: Table) -> None:
        """Raise BadInput unless the table took every row. Known causes of swallowed rows were refused before."""
        if self.written != self.due:
            raise BadInput(
                f"{table.name} accepted {self.written} of {plural(self.due, 'row')} and reported no error, so "
                "something in Postgres dropped the others (a trigger, a rule, a policy, an extension?). Nothing "
                "was published. Find and remove the cause",
                field=table.name,
            )


def append(rows: StagedRows, table: Table, where: sql.Composable) -> int:
    """Insert the winners' rows that match `where` and return their number."""
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    query = sql.SQL(
        "INSERT INTO {} ({names}, _batch_id, _partition, _offset) "
        "SELECT {}, {}, _partition, _offset FROM {} WHERE {} AND {}"
    ).format(
        identifier(table.name),
        sql.SQL(", ").join(_cast(table)),
        rows.batch_id,
        rows.source,
        rows.winners,
        where,
        names=names,
    )
    return rows.connection.execute(query).rowcount


def upsert(rows: StagedRows, table: Table, where: sql.Composable) -> Written:
    """Upsert the newest message of each key: a tombstone deletes the row, any other message replaces it. One statement
    does both: Postgres checks foreign keys at its end, so rows may reference each other in any order.
    """
    return _counted(rows, "upsert", _parts(rows, table, where, sql.SQL("")))


def upsert_in_order(rows: StagedRows, table: Table, where: sql.Composable, *, has_writing_triggers: bool) -> Written:
    """As `upsert`, but with every message in order of partition and offset, for a table in which the rows of two keys
    can collide. A refusal then does not depend on the rest of the batch: each constraint that can be deferred is
    checked after each message. `has_writing_triggers`: triggers of the table may write rows, and the check must wait
    for them. Without such triggers, each statement checks its own constraints: in a subtransaction Postgres keeps every
    deferred check and scans all of them at each SET CONSTRAINTS.
    """
    defer = check = sql.SQL("")
    if has_writing_triggers:
        defer, check = _ALL_DEFERRED, _ALL_IMMEDIATE
    else:
        rows.connection.execute(_ALL_IMMEDIATE)
    parts = {**_parts(rows, table, where, sql.SQL("_row.")), "defer": defer, "check": check}
    block = sql.Literal(_formatted(rows, "upsert_in_order", parts).as_string(rows.connection))
    rows.connection.execute(sql.SQL("DO {}").format(block))
    return _counted(rows, "written_in_order", parts)


def _parts(
    rows: StagedRows, table: Table, where: sql.Composable, source: sql.Composable
) -> Mapping[str, sql.Composable]:
    """Return the parts of an upsert's statements; the values to insert are columns of `source`."""
    own = [name for name, _ in target_columns(table) if name != "_batch_id"]
    names = [*(column.name for column in table.columns), *own]
    changed = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(n)) for n in [*names, "_batch_id"] if n != "_key"]
    changed += [sql.SQL("{} = NULL").format(sql.Identifier(name)) for name in rows.left]
    return {
        "table": identifier(table.name),
        "columns": sql.SQL(", ").join(map(sql.Identifier, names)),
        "values": sql.SQL(", ").join(source + item for item in (*_cast(table), *map(sql.Identifier, own))),
        "changes": sql.SQL(", ").join(changed),
        "where": where,
    }


_ALL_DEFERRED, _ALL_IMMEDIATE = sql.SQL("SET CONSTRAINTS ALL DEFERRED;"), sql.SQL("SET CONSTRAINTS ALL IMMEDIATE;")


def _cast(table: Table) -> Sequence[sql.Composable]:
    """Return the contract's columns as read from staging: cast to their own type if COPY could not write it."""
    return [
        sql.Identifier(column.name)
        if column.type.staged == column.type.postgres
        else sql.SQL("{}::{}").format(sql.Identifier(column.name), closed_list(column.type.postgres))
        for column in table.columns
    ]


def accumulate(rows: StagedRows, table: Table) -> None:
    """Merge this batch's aggregates, in key order: sessions that update the same rows in it never deadlock.

    Raises BadInput if the table did not take them all.
    """
    sources = {item.column: _aggregate(item) for item in table.aggregates}
    named = [
        sources.get(c.name, sql.Identifier(c.name)) + sql.SQL(" AS {}").format(sql.Identifier(c.name))
        for c in table.columns
    ]
    parts = {
        "table": identifier(table.name),
        "columns": sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns),
        "values": sql.SQL(", ").join(named),
        "keys": sql.SQL(", ").join(map(sql.Identifier, table.group_by)),
        "merged": sql.SQL(", ").join(
            closed_list(_MERGE[item.function]).format(sql.Identifier(item.column)) for item in table.aggregates
        ),
    }
    _counted(rows, "accumulate", parts).refuse_fewer(table)


def _counted(rows: StagedRows, statement: str, parts: Mapping[str, sql.Composable]) -> Written:
    """Run a statement that returns the numbers of Written."""
    return Written(*(rows.connection.execute(_formatted(rows, statement, parts)).fetchone() or (0, 0, 0)))


def _formatted(rows: StagedRows, statement: str, parts: Mapping[str, sql.Composable]) -> sql.Composed:
    return sql.SQL(queries()[statement]).format(
        staging=rows.source, winners=rows.winners, batch_id=sql.Literal(rows.batch_id), **parts
    )


_MERGE = {
    "sum": "{0} = coalesce(t.{0} + excluded.{0}, t.{0}, excluded.{0})",
    "count": "{0} = t.{0} + excluded.{0}",
    "min": "{0} = least(t.{0}, excluded.{0})",
    "max": "{0} = greatest(t.{0}, excluded.{0})",
}


def _aggregate(item: Aggregate) -> sql.Composable:
    source = sql.SQL("*") if item.source is None else sql.Identifier(item.source)
    return sql.SQL("{}({})").format(sql.SQL(item.function), source)
