"""Accumulate tables: each recomputed exactly from the expected rows, and compared key by key.

Equal keys are compared in columns, the others one by one. The least or greatest text depends on the database's
collation: Postgres sorts the texts, and Arrow compares their ranks.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from platform_defs.contract.model.contract import Table
from platform_defs.verify.compare.differences import python_values
from platform_defs.verify.compare.report import Findings
from platform_defs.verify.source.arrow_rows import columns_of
from platform_defs.verify.source.snapshot import Snapshot

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types

Values: TypeAlias = tuple[Any, ...]  # Python values: of the group by columns, or of the aggregates

_AT_LEAST = 1_000_000  # rows of parts before they are merged
_MERGED = {"sum": "sum", "count": "sum", "min": "min", "max": "max"}  # the function that merges aggregates of parts
_PLACE = " place"  # a column of ours: theirs have no spaces in their names
_RANK = " rank"
_SAFE = 28  # digits of a number: the sum of 10**10 of them has at most 38


class Accumulated:
    """The expected rows of one accumulate table, computed from added rows.

    `in_order` sorts distinct texts by the collation of a column of the table: Arrow only has the order of bytes.
    """

    def __init__(self, table: Table, row_table: Table, in_order: Callable[[str, Sequence[str]], Sequence[str]]) -> None:
        self.table, self._row_table, self._in_order = table, row_table.name, in_order
        self._aggregates = table.aggregates
        self._names = [a.column for a in self._aggregates]
        self._texts = {column.name for column in table.columns if column.type.name == "string"}
        self._keys = [*table.group_by]
        self._parts: list[pa.Table] = []  # keys and aggregates; a key is once in each part
        self._merged = 0  # rows of the first part after the last merge

    @property
    def reads(self) -> set[str]:
        """The columns of the row table that it reads."""
        return {*self._keys, *(item.source for item in self._aggregates if item.source)}

    def add(self, rows: pa.Table) -> None:
        """Add rows of the row table."""
        if not rows.num_rows:
            return
        columns: Any = {name: _widened(rows[name]) for name in self.reads}
        wanted = [(a.source, a.function if a.source else "count_all") for a in self._aggregates]
        self._parts.append(self._grouped(pa.table(columns), wanted))
        if sum(part.num_rows for part in self._parts) > 2 * self._merged + _AT_LEAST:
            self._parts = [self._together()]
            self._merged = self._parts[0].num_rows

    def _grouped(self, rows: pa.Table, wanted: Sequence[tuple[str | None, str]]) -> pa.Table:
        """Return the keys and the aggregates, by the columns and functions in `wanted`. Texts are compared by rank."""
        if not self._keys:
            raise AssertionError(f"{self.table.name} has no group-by columns")
        asked, ranked = list[Any](), dict[int, Any]()
        for place, (name, (source, function)) in enumerate(zip(self._names, wanted, strict=True), len(self._keys)):
            if source is not None and name in self._texts:
                texts = pc.drop_null(pc.unique(rows[source])).to_pylist()
                ranked[place] = pa.array(self._in_order(name, texts), pa.string())
                rows = rows.append_column(f"{place}{_RANK}", pc.index_in(rows[source], ranked[place]))
                source = f"{place}{_RANK}"
            asked.append((source or [], function))
        columns = rows.group_by(self._keys, use_threads=False).aggregate(asked).columns  # names of two may be the same
        columns = [ranked[n].take(column) if n in ranked else column for n, column in enumerate(columns)]
        return pa.Table.from_arrays(columns, names=[*self._keys, *self._names])

    def _together(self) -> pa.Table:
        wanted = [(name, _MERGED[item.function]) for name, item in zip(self._names, self._aggregates, strict=True)]
        return self._grouped(pa.concat_tables(self._parts), wanted)

    def compare(self, snapshot: Snapshot, findings: Findings) -> None:
        """Report every key with wrong aggregates. The added rows are consumed."""
        names = [*self._keys, *self._names]
        schema = pa.schema(columns_of(self.table))
        there = pa.Table.from_batches([*snapshot.accumulated(self.table)], schema).select(names)
        wanted = self._together() if self._parts else there.slice(0, 0)
        self._parts = []
        alike = _alike(wanted, there, self._keys)
        findings.count("keys", int(np.count_nonzero(alike[: wanted.num_rows])))
        left, extra = (pa.array(~some) for some in (alike[: wanted.num_rows], alike[wanted.num_rows :]))
        groups, due = (_tuples(wanted.filter(left), some) for some in (self._keys, self._names))
        self._one_by_one(dict(zip(groups, due, strict=True)), there.filter(extra), findings)

    def _one_by_one(self, due: dict[Values, Values], there: pa.Table, findings: Findings) -> None:
        groups, values = _tuples(there, self._keys), _tuples(there, self._names)
        for group, found in zip(groups, values, strict=True):
            wanted = due.pop(group, None)
            if wanted is None:
                findings.bad(
                    "wrong", f"{self._place(group, findings)} has a row, but {self._row_table} has none for it"
                )
            elif found != wanted:
                differ = findings.unlike(self.table.name, self._names, found, wanted)
                what = f"{self._place(group, findings)}: {differ}, according to the rows of {self._row_table}"
                findings.bad("wrong", what)
            else:
                findings.count("keys")
        for group, wanted in due.items():
            given = self._format(self._names, wanted, findings)
            what = f"{self._place(group, findings)} has no row, although the rows of {self._row_table} give {given}"
            findings.bad("lost", what)

    def _place(self, group: Values, findings: Findings) -> str:
        return f"{self.table.name} ({self._format(self.table.group_by, group, findings)})"

    def _format(self, names: Sequence[str], values: Values, findings: Findings) -> str:
        pairs = zip(names, values, strict=True)
        return ", ".join(f"{name} {findings.shown(self.table.name, name, value)}" for name, value in pairs)


def _tuples(rows: pa.Table, names: Sequence[str]) -> list[Values]:
    if not names:
        return [()] * rows.num_rows
    return list(zip(*(python_values(rows[name]) for name in names), strict=True))


def _widened(column: "pa.ChunkedArray[Any]") -> "pa.ChunkedArray[Any]":
    """Return the column with enough digits that a sum neither overflows nor rounds; -0.0 becomes 0.0, which
    equals it.
    """
    if pa.types.is_decimal(column.type):
        scale, safe = column.type.scale, column.type.precision <= _SAFE
        return column.cast(pa.decimal128(38, scale) if safe else pa.decimal256(76, scale))
    if pa.types.is_floating(column.type):
        return pc.add(column, 0.0)
    return column.cast(pa.decimal128(38, 0)) if pa.types.is_int64(column.type) else column


def _alike(wanted: pa.Table, there: pa.Table, keys: Sequence[str]) -> NDArray[np.bool_]:
    """Return True for each row of both tables, one after the other, that has exactly one equal row in the other table;
    all False if Arrow cannot compare the types.
    """
    found = np.zeros(wanted.num_rows + there.num_rows, np.bool_)
    try:
        both = pa.concat_tables([_of_types(wanted, there), _of_types(there, wanted)])
        both = both.append_column(_PLACE, pa.array(np.arange(both.num_rows)))
        values = [name for name in wanted.schema.names if name not in keys]
        asked: list[Any] = [(name, how) for name in (*values, _PLACE) for how in ("min", "max", "count")]
        groups = both.group_by([*keys], use_threads=False).aggregate(asked)
        same = pc.equal(groups[f"{_PLACE}_count"], 2)
        for name in values:
            least, most, many = (groups[f"{name}_{how}"] for how in ("min", "max", "count"))
            equal = pc.and_(pc.equal(many, 2), pc.fill_null(pc.equal(least, most), fill_value=False))
            same = pc.and_(same, pc.or_(equal, pc.equal(many, 0)))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return found
    pairs = groups.filter(same)
    first, second = (pairs[f"{_PLACE}_{how}"].to_numpy() for how in ("min", "max"))
    apart = (first < wanted.num_rows) & (second >= wanted.num_rows)
    found[first[apart]] = found[second[apart]] = True
    return found


def _of_types(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Return the rows with types that both tables can have."""
    types = list[pa.DataType]()
    for one, other in zip(rows.schema.types, others.schema.types, strict=True):
        scales = [of.scale if pa.types.is_decimal(of) else 0 for of in (one, other)]
        types.append(one if one == other else pa.decimal256(76, max(scales)))
    return rows.cast(pa.schema([*zip(rows.schema.names, types, strict=True)]))
