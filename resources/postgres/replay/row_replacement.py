"""Rebuilt rows against the live ones: their differences, and the statements that make the live table the same.

An equal row stays: only its batch changes. So what refers to it stays as well, and so do values in columns that the
contract does not know, except an upsert's columns that earlier contracts left.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from platform_defs.contract.model.classified import HIDDEN, NOTHING, Classified
from platform_defs.contract.model.contract import Table
from platform_defs.contract.model.system_columns import target_columns
from platform_defs.evolution.statements import Statement
from resources.postgres.ledger.contract_ledger import run
from resources.postgres.session.connection import Connection
from resources.postgres.tables.tables import identifier

SAMPLES = 5
MAX_INT = 1_000  # digits; sys.get_int_max_str_digits() is 4,300 unless it is lowered


@dataclass(frozen=True)
class Difference:
    """The change to a table, or to the dead letters: how many rows are live, how many were rebuilt, and how many are
    only in one of the two.
    """

    name: str
    live: int
    rebuilt: int
    only_live: int
    only_rebuilt: int
    samples: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Pair:
    """A live table and its rebuilt one. In an append table, rows of batches before `from_batch` are not touched."""

    old: Table
    new: Table
    from_batch: int  # 0: everything
    reshaping: tuple[Statement, ...] = ()  # changes to the live table's columns, executed when it is empty
    left: Sequence[str] = ()  # columns of an upsert that earlier contracts left: empty in the rebuilt rows
    hidden: Classified = NOTHING  # fields that samples do not show

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify a row of a keyed table; none for an append table."""
        return {"append": (), "upsert": ("_key",), "accumulate": self.old.group_by}[self.old.disposition]

    def difference(self, connection: Connection) -> Difference:
        """Return the difference by everything but the batch that wrote a row. If columns change, every row differs."""
        if self.reshaping:
            counted = self._sql("SELECT (SELECT count(*) FROM {old}), (SELECT count(*) FROM {new})")
            live, rebuilt = connection.execute(counted).fetchone() or (0, 0)
            return Difference(self.old.name, live, rebuilt, live, rebuilt)
        only = {
            "live": self._sql("TABLE live EXCEPT ALL TABLE rebuilt"),
            "rebuilt": self._sql("TABLE rebuilt EXCEPT ALL TABLE live"),
        }
        both = self._sql(
            "WITH live AS (SELECT {values} FROM {old} WHERE {scope}), rebuilt AS (SELECT {values} FROM {new}) "
        )
        counts = connection.execute(
            both
            + sql.SQL(
                "SELECT (SELECT count(*) FROM live), (SELECT count(*) FROM rebuilt), "
                "(SELECT count(*) FROM ({live}) AS x), (SELECT count(*) FROM ({rebuilt}) AS x)"
            ).format(**only)
        ).fetchone()
        there, made, only_live, only_rebuilt = counts or (0, 0, 0, 0)
        samples: list[dict[str, Any]] = []
        for side, query in only.items():
            taken = connection.execute(
                both + sql.SQL("SELECT row_to_json(_row)::text FROM ({} LIMIT {}) AS _row").format(query, SAMPLES)
            )
            samples += [{"only": side, **self._shown(_sample(text))} for (text,) in taken.fetchall()]
        return Difference(
            name=self.old.name,
            live=there,
            rebuilt=made,
            only_live=only_live,
            only_rebuilt=only_rebuilt,
            samples=tuple(samples),
        )

    def _shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: HIDDEN if self.hidden.hides(self.old.name, name) else value for name, value in row.items()}

    def orphans(self, connection: Connection, built: str) -> int:
        """Return how many keys only the live table has whose message compaction removed: they cannot be rebuilt."""
        query = self._sql(
            "SELECT count(*) FROM {old} AS o WHERE NOT EXISTS (SELECT 1 FROM {new} AS n WHERE n._key = o._key) AND"
            " EXISTS (SELECT 1 FROM tidegate.batch_range AS r JOIN tidegate.batch AS b USING (batch_id)  WHERE"
            " b.pipeline = %(built)s AND r.partition = o._partition AND r.gaps @> o._offset)"
        )
        (count,) = connection.execute(query, {"built": built}).fetchone() or (0,)
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
        scope = sql.SQL("_batch_id >= {}").format(self.from_batch) if self.from_batch else sql.SQL("true")
        return sql.SQL(statement).format(  # pyright: ignore[reportArgumentType]  # the constants of this module
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
        )


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


def _list(names: Any, alias: str | None = None) -> sql.Composable:
    return sql.SQL(", ").join(sql.Identifier(*(part for part in (alias, name) if part)) for name in names)


def _sample(text: str) -> dict[str, Any]:
    """Return a row as JSON. A number of thousands of digits, which jsonb takes but Python's int does not, is text."""
    return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < MAX_INT else digits)
