"""Accumulate tables: each recomputed from the rows that must be there, exactly, and compared key by key."""

from typing import Any

import pyarrow as pa
import pyarrow.compute

from platform_defs.contract.model import Aggregate, Table
from platform_defs.verification.report import Findings
from platform_defs.verification.snapshot import Snapshot

pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them


class Accumulated:
    """What one accumulate table must hold, while rows are added."""

    def __init__(self, table: Table, row_table: Table) -> None:
        self.table = table
        # The least of some texts depends on the database's collation: that is for Postgres to say.
        texts = {column.name for column in table.columns if column.type.name == "string"}
        self._aggregates = [a for a in table.aggregates if a.function == "count" or a.column not in texts]
        self._types = {column.name: column.type.arrow for column in row_table.columns}
        self._groups: dict[tuple[Any, ...], list[Any]] = {}

    def add(self, rows: pa.Table) -> None:
        """Rows of the row table."""
        keys = list(self.table.group_by)
        if not rows.num_rows:
            return
        columns = {name: _widened(rows[name]) for name in {*keys, *(a.source for a in self._aggregates if a.source)}}
        if not columns:
            raise AssertionError(f"{self.table.name} groups by nothing")
        wanted: list[Any] = [(a.source or [], a.function if a.source else "count_all") for a in self._aggregates]
        result = pa.table(columns).group_by(keys, use_threads=False).aggregate(wanted)
        names = [f"{a.source}_{a.function}" if a.source else "count_all" for a in self._aggregates]
        groups = zip(*(result[name].to_pylist() for name in keys), strict=True)
        values = zip(*(result[name].to_pylist() for name in names), strict=True)
        for group, found in zip(groups, values, strict=True):
            held = self._groups.get(group)
            self._groups[group] = list(found) if held is None else _merged(self._aggregates, held, found)

    def compare(self, snapshot: Snapshot, findings: Findings) -> None:
        """Find every key whose aggregates are not what its rows come to."""
        left = self._groups
        for batch in snapshot.accumulated(self.table):
            groups = zip(*(batch[name].to_pylist() for name in self.table.group_by), strict=True)
            values = zip(*(batch[a.column].to_pylist() for a in self._aggregates), strict=True)
            for group, found in zip(groups, values, strict=True):
                wanted = left.pop(group, None)
                if wanted is None:
                    findings.bad("wrong", f"{self.table.name} holds {_spell(group)}, which no row comes to")
                elif list(found) != wanted:
                    what = f"{self.table.name} says {_spell(found)} for {_spell(group)}"
                    findings.bad("wrong", f"{what}; its rows come to {_spell(wanted)}")
                else:
                    findings.count("keys")
        for group, wanted in left.items():
            findings.bad("lost", f"{self.table.name} has no {_spell(group)}; its rows come to {_spell(wanted)}")


def _widened(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers as decimals of 38 digits: a sum of them overflows nothing and rounds nothing."""
    if pa.types.is_decimal(column.type):
        return column.cast(pa.decimal128(38, column.type.scale))
    return column.cast(pa.decimal128(38, 0)) if pa.types.is_int64(column.type) else column


def _merged(aggregates: list[Aggregate], held: list[Any], found: tuple[Any, ...]) -> list[Any]:
    return [_merge(a.function, one, other) for a, one, other in zip(aggregates, held, found, strict=True)]


def _merge(function: str, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if function in ("sum", "count"):
        return one + other
    return min(one, other) if function == "min" else max(one, other)


def _spell(values: Any) -> str:
    return ", ".join(map(str, values))
