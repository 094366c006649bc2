"""Rebuilt rows against the live ones: their differences, and the statements that make the live table the same.

An equal row stays: only its batch changes. So what refers to it stays as well, and so do values in columns that the
contract does not know, except an upsert's columns that earlier contracts left.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

from psycopg import sql

from platform_defs.contract.evolution.statements import Statement
from platform_defs.contract.model.classified import HIDDEN, NOTHING, Classified
from platform_defs.contract.model.contract import Table
from platform_defs.contract.model.system_columns import target_columns
from platform_defs.ledger.contract_ledger import run
from platform_defs.postgres.connection import Connection, queries
from platform_defs.postgres.tables import identifier

SAMPLES = 5  # of each kind of difference
_MESSAGE = ("_partition", "_offset")  # identify the message of a row of an append table
MAX_INT = 1_000  # digits; sys.get_int_max_str_digits() is 4,300 unless it is lowered


@dataclass(frozen=True)
class Difference:
    """The change to a table, or to the dead letters: how many rows are live, and how many were rebuilt. Rows of one
    message, or with one key, are paired: `changed` pairs differ, `new_columns` of them only where a column that a later
    contract added is still empty. Rows without a partner are only in one of the two.
    """

    name: str
    live: int
    rebuilt: int
    only_live: int
    only_rebuilt: int
    changed: int = 0
    new_columns: int = 0
    samples: tuple[dict[str, Any], ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if no row differs."""
        return not (self.only_live or self.only_rebuilt or self.changed or self.new_columns)


@dataclass(frozen=True)
class Pair:
    """A live table and its rebuilt one. In an append table, rows of batches before `from_batch` are not touched."""

    old: Table
    new: Table
    from_batch: int  # 0: everything
    reshaping: tuple[Statement, ...] = ()  # changes to the live table's columns, executed when it is empty
    left: Sequence[str] = ()  # columns of an upsert that earlier contracts left: empty in the rebuilt rows
    hidden: Classified = NOTHING  # fields that samples do not show
    added: Collection[str] = ()  # columns that an earlier contract did not have
    former: Mapping[str, str] = field(default_factory=dict[str, str])  # names in the live table, by those they will get

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify a row of a keyed table; none for an append table."""
        return {"append": (), "upsert": ("_key",), "accumulate": self.old.group_by}[self.old.disposition]

    def difference(self, connection: Connection) -> Difference:
        """Return the difference by everything but the batch that wrote a row. A column that the live table does not
        have yet is empty in its rows; one whose type changes is compared as text.
        """
        row = connection.execute(self._sql(queries()["difference"])).fetchone() or (0, 0, {}, None)
        live, rebuilt, counts, samples = row
        return Difference(
            name=self.old.name,
            live=live,
            rebuilt=rebuilt,
            only_live=counts.get("only_live", 0),
            only_rebuilt=counts.get("only_rebuilt", 0),
            changed=counts.get("changed", 0),
            new_columns=counts.get("new_columns", 0),
            samples=tuple(map(self._sample, _read(samples or "[]"))),
        )

    def _sample(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return a pair with the columns that differ, or the whole of a row without a partner."""
        sides = {side: found[side] for side in ("live", "rebuilt")}
        row = next(side for side in sides.values() if side is not None)
        place = {name: row[name] for name in self.keys or _MESSAGE}
        shown = set(found["differs"] if None not in sides.values() else row).difference(place)
        return {
            "kind": found["kind"],
            "row": self._shown(place),
            **{
                side: None if values is None else self._shown({n: v for n, v in values.items() if n in shown})
                for side, values in sides.items()
            },
        }

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: HIDDEN if self.hidden.hides(self.old.name, name) else value for name, value in row.items()}

    def orphans(self, connection: Connection, built: str) -> int:
        """Return how many keys only the live table has whose message compaction removed: they cannot be rebuilt."""
        (count,) = connection.execute(self._sql(queries()["orphans"]), {"built": built}).fetchone() or (0,)
        return count

    def replace(self, connection: Connection) -> None:
        """Make the live rows the rebuilt ones."""
        if self.reshaping:
            connection.execute(self._sql("DELETE FROM {old}"))
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")  # with checks outstanding, no table can be altered
            for _ in run(connection, self.reshaping):
                pass
        for statement in _KEYED if self.keys else _APPENDED:
            connection.execute(self._sql(statement))

    def _sql(self, statement: str) -> sql.Composed:
        own = [name for name, _ in target_columns(self.old)]
        names = [*(column.name for column in self.old.columns), *self.left, *own]
        values = [name for name in names if name != "_batch_id"]
        same = sql.SQL(" AND ").join(sql.SQL("o.{0} = n.{0}").format(sql.Identifier(name)) for name in self.keys)
        sets = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(n)) for n in names if n not in self.keys]
        types = {column.name: column.type.postgres for column in self.old.columns}
        live, made = [self._live(name, types) for name in values], [self._made(name) for name in values]
        added = [name for name in values if name in self.added]
        place = self.keys or _MESSAGE
        scope = sql.SQL("_batch_id >= {}").format(self.from_batch) if self.from_batch else sql.SQL("true")
        return sql.SQL(statement).format(  # pyright: ignore[reportArgumentType]  # statements of this feature
            old=identifier(self.old.name),
            new=identifier(self.new.name),
            scope=scope,
            same=same,
            names=_list(names),
            values=_list(values),
            keys=_list(self.keys),
            sets=sql.SQL(", ").join(sets),
            of_o=_list(values, "o"),
            of_n=_list(values, "n"),
            of_l=_list(values, "l"),
            of_r=_list(values, "r"),
            live=sql.SQL(", ").join(live),
            made=sql.SQL(", ").join(made),
            place=_list(place),
            stable=_list([name for name in values if name not in self.added]),
            same_place=_all("l.{0} = r.{0}", place),
            still_empty=_all("(l.{0} IS NULL OR l.{0} IS NOT DISTINCT FROM r.{0})", added),
            differs=sql.SQL(", ").join(
                sql.SQL("CASE WHEN l.{0} IS DISTINCT FROM r.{0} THEN {1} END").format(sql.Identifier(n), sql.Literal(n))
                for n in values
            ),
            samples=SAMPLES,
        )

    def _live(self, name: str, types: Mapping[str, str]) -> sql.Composed:
        """Return the column of the live rows that is compared."""
        kinds = {item.kind for item in self.reshaping if item.column == name}
        if "add" in kinds:
            # the type is from the closed list of column types
            empty = sql.SQL("NULL::" + types[name])  # pyright: ignore[reportArgumentType]
            return sql.SQL("{} AS {}").format(empty, sql.Identifier(name))
        return _compared(self.former.get(name, name), name, as_text="retype" in kinds)

    def _made(self, name: str) -> sql.Composed:
        """Return the column of the rebuilt rows that is compared."""
        retyped = any(item.kind == "retype" and item.column == name for item in self.reshaping)
        return _compared(name, name, as_text=retyped)


# An append table may have the same row several times: the first copies are matched, then the second ones. Names begin
# with an underscore: no column of a contract does.
_NUMBERED = """
WITH o AS (SELECT ctid AS _place, {values}, row_number() OVER (PARTITION BY {values}) AS _nth FROM {old} WHERE {scope}),
     n AS (SELECT ctid AS _place, {values}, _batch_id, row_number() OVER (PARTITION BY {values}) AS _nth FROM {new}),
     kept AS (SELECT o._place, n._place AS _of, n._batch_id FROM o JOIN n
                  ON (o._partition, o._offset, o._nth) = (n._partition, n._offset, n._nth)
                 AND ROW({of_o}) IS NOT DISTINCT FROM ROW({of_n}))
"""
_APPENDED = (
    _NUMBERED + "DELETE FROM {old} WHERE ctid IN (SELECT _place FROM o EXCEPT SELECT _place FROM kept)",
    _NUMBERED + "UPDATE {old} AS t SET _batch_id = kept._batch_id FROM kept WHERE t.ctid = kept._place",
    # The rows that remain are from the rebuilt batches, so these are not taken for old ones.
    _NUMBERED + "INSERT INTO {old} ({names}) SELECT {names} FROM {new} WHERE ctid NOT IN (SELECT _of FROM kept)",
)
# One statement: Postgres checks foreign keys at its end, so rows may reference each other. Reading `gone` makes the
# DELETE run first: a row may take a deleted row's unique value.
_KEYED = (
    "WITH gone AS (DELETE FROM {old} AS o WHERE NOT EXISTS (SELECT 1 FROM {new} AS n WHERE {same}) RETURNING 1) "
    "INSERT INTO {old} ({names}) SELECT {names} FROM {new} WHERE (SELECT count(*) FROM gone) >= 0 ORDER BY {keys} "
    "ON CONFLICT ({keys}) DO UPDATE SET {sets}",
)


def _compared(name: str, becomes: str, *, as_text: bool) -> sql.Composed:
    cast = sql.SQL("::text") if as_text else sql.SQL("")
    return sql.SQL("{}{} AS {}").format(sql.Identifier(name), cast, sql.Identifier(becomes))


def _all(condition: LiteralString, names: Collection[str]) -> sql.Composable:
    """Return the condition for each of the columns, joined with AND; true without one."""
    each = [sql.SQL(condition).format(sql.Identifier(name)) for name in names]
    return sql.SQL(" AND ").join(each) if each else sql.SQL("true")


def _list(names: Any, alias: str | None = None) -> sql.Composable:
    return sql.SQL(", ").join(sql.Identifier(*(part for part in (alias, name) if part)) for name in names)


def _read(text: str) -> Any:
    """Return samples from JSON. A number of thousands of digits, which jsonb takes but Python's int does not, is
    text.
    """
    return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < MAX_INT else digits)
