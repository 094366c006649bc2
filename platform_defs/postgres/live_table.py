"""A table's live definition, and whether publish can fill it exactly: each row as it was written, committed and
recovered together with the offsets.

`read_live` queries Postgres once; the rules are pure functions over its answer. A run queries when it begins and, with
the table locked against ALTER, CREATE TRIGGER and CREATE RULE, in the publishing transaction.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from platform_defs.contract.model.contract import Disposition, Table
from platform_defs.contract.model.system_columns import target_columns
from platform_defs.errors import BadInput
from platform_defs.errors.error_policy import ErrorPolicy, of_sqlstate
from platform_defs.postgres.connection import Connection, queries, state_of

KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "c": "a type"}
# What publish does with each row: https://www.postgresql.org/docs/current/sql-insert.html (ON CONFLICT reads the key)
RIGHTS: Mapping[Disposition, tuple[str, ...]] = {
    "append": ("SELECT", "INSERT"),
    "upsert": ("SELECT", "INSERT", "UPDATE"),
    "accumulate": ("SELECT", "INSERT", "UPDATE"),
}


@dataclass(frozen=True)
class LiveColumn:
    """A column, with its type as format_type prints it and our rights (SELECT, INSERT, UPDATE) on it."""

    name: str
    type: str
    demanded: str  # what rejects rows that leave it out, such as "it is NOT NULL"; empty if nothing does
    generated: bool  # GENERATED ALWAYS AS (...)
    identity: bool  # GENERATED ALWAYS AS IDENTITY
    deterministic: bool  # by its collation, only equal bytes are equal texts
    own_collation: bool  # another one than the database's
    rights: tuple[str, ...]


@dataclass(frozen=True)
class UniqueKey:
    """A unique index over columns: those, sorted, and why ON CONFLICT cannot use it (empty if it can)."""

    name: str
    columns: tuple[str, ...]
    unusable: str  # "invalid", "deferrable" or "partial"


@dataclass(frozen=True)
class LiveTable:
    """A table, with its partitions. Lists name their objects as Postgres formats them."""

    role: str  # the current role
    kind: str  # pg_class.relkind
    bound: bool | None  # the table that its pipeline filled; None if the ledger has no such output
    row_security: bool  # policies apply to us
    may_delete: bool
    may_lock: bool  # LOCK TABLE needs a right to write on the table itself, not on columns
    foreign_parts: tuple[str, ...]
    not_logged: tuple[str, ...]
    rules: tuple[str, ...]
    triggers: tuple[str, ...]  # for each row, before it is written
    cascades: tuple[str, ...]  # foreign keys by which a write to an output of the ledger changes or deletes rows here
    published: bool  # a publication replicates it. False for a partitioned table: each partition is identified alone
    unique_keys: tuple[UniqueKey, ...]
    columns: tuple[LiveColumn, ...]


def rights_on(table: Table) -> tuple[str, ...]:
    """Return the rights that publish needs on the table."""
    return (*RIGHTS[table.disposition], *(["DELETE"] if table.disposition == "upsert" else []))


def key_columns(table: Table) -> tuple[str, ...]:
    """Return the columns by which publish finds a row of the table; none for an append table."""
    return {"append": (), "upsert": ("_key",), "accumulate": table.group_by}[table.disposition]


def read_live(connection: Connection, pipeline: str, table: Table) -> LiveTable | None:
    """Return the table's current definition; None if there is none of this name."""
    with connection.cursor(row_factory=dict_row) as cursor:
        asked = cursor.execute(queries()["live_table"], {"pipeline": pipeline, "table": table.name})
        row = asked.fetchone()
    if row is None:
        return None
    columns: list[dict[str, Any]] = row.pop("columns") or []
    keys: list[dict[str, Any]] = row.pop("unique_keys") or []
    lists: dict[str, Any] = {name: (*value,) for name, value in row.items() if isinstance(value, list)}
    return LiveTable(
        **{**row, **lists},
        unique_keys=tuple(UniqueKey(columns=tuple(key.pop("columns")), **key) for key in keys),
        columns=tuple(_column(connection, column) for column in columns),
    )


def _column(connection: Connection, row: dict[str, Any]) -> LiveColumn:
    domain: int | None = row.pop("domain")  # its OID
    if domain and not row["demanded"]:
        try:  # only Postgres can evaluate its CHECKs
            with connection.transaction():
                connection.execute(queries()["null_of_domain"], {"domain": domain})
        except psycopg.Error as error:
            if of_sqlstate(state_of(error), "table") is not ErrorPolicy.REFUSED_ROW:
                raise
            row["demanded"] = f"its domain {row['type']} rejects NULL"
    return LiveColumn(rights=tuple(row.pop("rights")), **row)


def refuse_unfit(table: Table, live: LiveTable, *, columns: bool = True) -> None:
    """Raise BadInput, with the statement that fixes it, for the first reason why the table cannot be filled exactly.

    Without `columns`, any columns are accepted: a replay changes them.
    """
    for rule in (_kind_mistakes, *([_column_mistakes] if columns else []), _writing_mistakes, _interference):
        for field, problem in rule(table, live):
            raise BadInput(problem, field=field)


_UNUSABLE = {
    "invalid": "is INVALID: drop it, unless CREATE INDEX CONCURRENTLY is building it (if the table is partitioned, "
    "attach each partition's index to it)",
    "deferrable": "is deferrable",
    "partial": "is partial",
}


def refuse_unidentified(connection: Connection, table: Table, rights: Iterable[str]) -> None:
    """Raise BadInput if a publication replicates the table, and Postgres would refuse to update or delete its rows.

    `rights`: which of the two. Postgres decides it when a plan starts, so EXPLAIN shows it:
    https://www.postgresql.org/docs/current/logical-replication-publication.html
    """
    parts = {
        "table": sql.Identifier(*table.name.split(".")),
        "column": sql.Identifier((*key_columns(table), "_batch_id")[0]),
    }
    try:
        for right in (name for name in rights if name in _CHANGES):
            connection.execute(sql.SQL(_CHANGES[right]).format(**parts))
    except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InvalidColumnReference) as error:
        raise BadInput(
            f"a publication replicates {table.name}, and Postgres cannot identify the rows that Tidegate updates or "
            f"deletes: {' '.join(filter(None, (error.diag.message_primary, error.diag.message_detail)))}. Nothing was "
            f"changed. To allow it: {_IDENTITY[type(error)].format(table=table.name)}",
            field=table.name,
        ) from error


_CHANGES: Mapping[str, LiteralString] = {
    "UPDATE": "EXPLAIN UPDATE {table} SET {column} = DEFAULT",
    "DELETE": "EXPLAIN DELETE FROM {table}",
}
_IDENTITY: Mapping[type[psycopg.Error], str] = {
    psycopg.errors.ObjectNotInPrerequisiteState: "ALTER TABLE {table} REPLICA IDENTITY FULL (if the table is "
    "partitioned, for each partition)",
    psycopg.errors.InvalidColumnReference: "publish all of its columns, and filter its rows only by columns of its "
    "replica identity",
}
Mistakes = Iterator[tuple[str, str]]  # the table or column, and what is wrong with it


def _kind_mistakes(table: Table, live: LiveTable) -> Mistakes:
    """Yield the parts that do not commit and recover together with the ledger."""
    name = table.name
    if live.kind not in ("r", "p"):
        kind = KINDS.get(live.kind, f"a relation of kind {live.kind}")
        yield name, f"{name} is {kind}; rows can only be written to an ordinary or partitioned table. Rename it"
    for part in live.foreign_parts:
        yield (
            name,
            f"{part}, a partition of {name}, is a foreign table: its rows would not commit together with the offsets. "
            f"Detach it: alter table {name} detach partition {part}",
        )
    for part in live.not_logged:
        yield (
            name,
            f"{part} is unlogged: Postgres empties it when it recovers from a crash, but the offsets would still "
            f"record its rows as written. To fix it: alter table {part} set logged",
        )


def _column_mistakes(table: Table, live: LiveTable) -> Mistakes:
    """Yield the columns for which COPY or publish would write the wrong bits, or nothing could be written."""
    columns = {column.name: column for column in live.columns}
    wanted = {c.name: c.type.postgres for c in table.columns} | {n: t.postgres for n, t in target_columns(table)}
    for name, kind in wanted.items():
        column = columns.get(name)
        is_kind = column.type if column else "missing"
        if is_kind != kind:
            yield (
                f"{table.name}.{name}",
                f"column {name} of {table.name} is {is_kind}, but the contract says {kind}; nothing was written. "
                "Change the column or the contract so that they match",
            )
        elif column and (column.generated or column.identity):
            become = "drop expression" if column.generated else "set generated by default"
            yield (
                f"{table.name}.{name}",
                f"column {name} of {table.name} is generated always, so nothing can be written to it: alter table "
                f"{table.name} alter column {name} {become}, or remove it from the contract",
            )
    for column in live.columns:
        if column.demanded and column.name not in wanted:
            yield (
                f"{table.name}.{column.name}",
                f"column {column.name} of {table.name} is not in the contract and has no default, but "
                f"{column.demanded}: every row would be rejected. Give the column a default, allow NULL, or add it to "
                "the contract",
            )


def _writing_mistakes(table: Table, live: LiveTable) -> Mistakes:
    """Yield missing rights and a missing unique index, without which publish fails after everything has been read."""
    names = {column.name for column in table.columns} | {name for name, _ in target_columns(table)}
    columns = [column for column in live.columns if column.name in names]
    lacking = [right for right in RIGHTS[table.disposition] if not all(right in c.rights for c in columns)]
    if table.disposition == "upsert" and not live.may_delete:
        lacking.append("DELETE")
    if not live.may_lock and "INSERT" not in lacking:
        lacking.append("INSERT")
    if lacking:
        rights = ", ".join(lacking).lower()
        yield table.name, f"{live.role} lacks rights on {table.name}: grant {rights} on {table.name} to {live.role}"
    compared = {item.column for item in table.aggregates if item.function in ("min", "max")}
    for name in [column.name for column in live.columns if column.name in compared and column.own_collation]:
        yield (
            f"{table.name}.{name}",
            f"column {name} of {table.name} has a collation of its own: its min or max would depend on where batches "
            f'are cut. To fix it: alter table {table.name} alter column {name} type text collate "default", then '
            f"rebuild the table, whose values may be wrong: tidegate replay",
        )
    key = key_columns(table)
    for name in [column.name for column in live.columns if column.name in key and not column.deterministic]:
        yield (
            f"{table.name}.{name}",
            f"column {name} of {table.name} has a nondeterministic collation: different Kafka keys would share a "
            f'row. To fix it: alter table {table.name} alter column {name} type text collate "C"',
        )
    indexes = [index for index in live.unique_keys if index.columns == tuple(sorted(key))]
    if key and all(index.unusable for index in indexes):
        named = ", ".join(key)
        existing = "".join(f". {index.name} {_UNUSABLE[index.unusable]}" for index in indexes)
        yield (
            table.name,
            f"{table.name} needs a valid unique index on exactly {named} to find its rows, neither partial nor "
            f"deferrable: create unique index on {table.name} ({named}){existing}",
        )


def _interference(table: Table, live: LiveTable) -> Mistakes:
    """Yield what may swallow or change a row while offsets move on."""
    for found in (*live.rules, *live.triggers):
        what = "use an expression as the column's default instead" if found.startswith("trigger") else ""
        yield (
            table.name,
            f"{found} may drop or change rows while the offsets still advance: drop {found}"
            + (f". AFTER triggers and statement triggers may stay. To set a value, {what}" if what else ""),
        )
    for found in live.cascades:
        yield (
            table.name,
            f"foreign key {found} has an ON DELETE or ON UPDATE action: if a pipeline deletes or changes a referenced "
            f"row, Postgres deletes or changes rows of {table.name}, and which ones depends on where batches are cut. "
            "Create the foreign key again without actions",
        )
    if live.row_security:
        yield (
            table.name,
            f"row-level security of {table.name} applies to {live.role}, and could hide rows from it: alter role "
            f"{live.role} bypassrls, or make it the table's owner",
        )
