"""Accumulate tables: each recomputed from the rows that must be there, exactly, and compared key by key."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from platform_defs.contract.model import Aggregate, Table
from platform_defs.verification.report import Findings
from platform_defs.verification.snapshot import Snapshot

Values: TypeAlias = tuple[Any, ...]  # Python values: of the group by columns, or of the aggregates


class Accumulated:
    """What one accumulate table must hold, while rows are added."""

    def __init__(self, table: Table, row_table: Table) -> None:
        self.table, self._row_table = table, row_table.name
        # Which text is the least depends on the database's collation: that is for Postgres to say.
        texts = {column.name for column in table.columns if column.type.name == "string"}
        self._aggregates = [a for a in table.aggregates if a.function == "count" or a.column not in texts]
        self._names = [a.column for a in self._aggregates]
        self._groups: dict[Values, Values] = {}

    @property
    def reads(self) -> set[str]:
        """The columns of the row table that it is made of."""
        return {*self.table.group_by, *(item.source for item in self._aggregates if item.source)}

    def add(self, rows: pa.Table) -> None:
        """Add rows of the row table."""
        if not rows.num_rows:
            return
        for group, found in self._aggregated(rows):
            held = self._groups.get(group)
            self._groups[group] = found if held is None else _merged(self._aggregates, held, found)

    def _aggregated(self, rows: pa.Table) -> "zip[tuple[Values, Values]]":
        keys = list(self.table.group_by)
        columns = {name: _widened(rows[name]) for name in self.reads}
        if not columns:
            raise AssertionError(f"{self.table.name} groups by nothing")
        wanted: list[Any] = [(a.source or [], a.function if a.source else "count_all") for a in self._aggregates]
        table = pa.Table.from_arrays(list(columns.values()), names=list(columns))
        result = table.group_by(keys, use_threads=False).aggregate(wanted)
        names = [f"{a.source}_{a.function}" if a.source else "count_all" for a in self._aggregates]
        return zip(_tuples(result, keys), _tuples(result, names), strict=True)

    def compare(self, snapshot: Snapshot, findings: Findings) -> None:
        """Report every key whose aggregates are not those of its rows. The rows added are used up."""
        for batch in snapshot.accumulated(self.table):
            groups, values = _tuples(batch, self.table.group_by), _tuples(batch, self._names)
            for group, found in zip(groups, values, strict=True):
                wanted = self._groups.pop(group, None)
                if wanted is None:
                    findings.bad(
                        "wrong", f"{self._place(group, findings)} has a row, but {self._row_table} has none for it"
                    )
                elif found != wanted:
                    findings.bad("wrong", f"{self._place(group, findings)}: {self._unlike(found, wanted, findings)}")
                else:
                    findings.count("keys")
        for group, wanted in self._groups.items():
            due = self._spelt(self._names, wanted, findings)
            findings.bad("lost", f"{self._place(group, findings)} has no row; the rows of {self._row_table} give {due}")

    def _place(self, group: Values, findings: Findings) -> str:
        return f"{self.table.name} ({self._spelt(self.table.group_by, group, findings)})"

    def _unlike(self, found: Values, wanted: Values, findings: Findings) -> str:
        differ = findings.unlike(self.table.name, self._names, found, wanted)
        return f"{differ}, which is what the rows of {self._row_table} give"

    def _spelt(self, names: Sequence[str], values: Values, findings: Findings) -> str:
        pairs = zip(names, values, strict=True)
        return ", ".join(f"{name} {findings.shown(self.table.name, name, value)}" for name, value in pairs)


def _tuples(rows: pa.Table | pa.RecordBatch, names: Sequence[str]) -> list[Values]:
    columns: Any = rows  # what a table and a record batch share is not typed in full
    if not names:
        return [()] * rows.num_rows
    return list(zip(*(columns[name].to_pylist() for name in names), strict=True))


def _widened(column: "pa.ChunkedArray[Any]") -> "pa.ChunkedArray[Any]":
    """Numbers as decimals of 38 digits: a sum of them neither overflows nor rounds."""
    if pa.types.is_decimal(column.type):
        return column.cast(pa.decimal128(38, column.type.scale))
    return column.cast(pa.decimal128(38, 0)) if pa.types.is_int64(column.type) else column


def _merged(aggregates: list[Aggregate], held: Values, found: Values) -> Values:
    return tuple(_merge(a.function, one, other) for a, one, other in zip(aggregates, held, found, strict=True))


def _merge(function: str, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if function in ("sum", "count"):
        return one + other
    return min(one, other) if function == "min" else max(one, other)
