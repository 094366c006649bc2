"""The differences of two tables of rows: in columns while pieces are equal, and row by row only in the others."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from platform_defs.verify.validators.validator import Row

PIECE = 1_000  # rows

Difference = tuple[list[Row], list[Row]]  # rows that are missing, rows that are too many


def differences(want: pa.Table, have: pa.Table) -> dict[int, Difference]:
    """Return by offset the missing and the extra rows of two tables of one partition with the same columns.

    Rows of one offset are compared as a multiset: their order is irrelevant. Rows are tuples of the columns without
    _partition and _offset, in the order of the schema.
    """
    if want.equals(have):
        return {}
    want, have = _sorted(want), _sorted(have)
    found: dict[int, Difference] = {}
    for one, other in _pieces(want, have):
        if one.equals(other):
            continue
        left, right = _by_offset(one), _by_offset(other)
        for offset in sorted(left.keys() | right.keys()):
            wanted, there = Counter(left.get(offset, ())), Counter(right.get(offset, ()))
            if wanted != there:
                found[offset] = list((wanted - there).elements()), list((there - wanted).elements())
    return found


def _sorted(table: pa.Table) -> pa.Table:
    """Sort by offset, then by all columns."""
    rows: Any = table  # sort_by is not typed in full
    names = [name for name in table.schema.names if name != "_offset"]
    return rows.sort_by([(name, "ascending") for name in ("_offset", *names)])


def _pieces(want: pa.Table, have: pa.Table) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield pieces of both sorted tables with the same offsets."""
    offsets, others = offsets_of(want), offsets_of(have)
    edges = [*offsets[::PIECE][1:], 2**63 - 1]
    start, begun = 0, 0
    for edge in edges:
        until, ended = (int(np.searchsorted(column, edge)) for column in (offsets, others))
        yield want.slice(start, until - start), have.slice(begun, ended - begun)
        start, begun = until, ended


def _by_offset(table: pa.Table) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    columns = [_plain(table[name]) for name in table.schema.names if name not in ("_partition", "_offset")]
    for offset, *row in zip(table["_offset"].to_pylist(), *columns, strict=True):
        found.setdefault(offset, []).append(tuple(row))
    return found


def _plain(column: "pa.ChunkedArray[Any]") -> list[Any]:
    """Return Python values; NaN as text, since NaN equals nothing."""
    values = python_values(column)
    return ["NaN" if value != value else value for value in values] if pa.types.is_floating(column.type) else values


def python_values(column: "pa.ChunkedArray[Any]") -> list[Any]:
    """Return Python values. Dates and times outside years 1 to 9999 are ISO text, or infinity and -infinity."""
    try:
        return column.to_pylist()
    except OverflowError:
        # Postgres counts from 2000-01-01. Its infinity is the greatest integer, at which the driver overflows.
        bits, unit, start = (32, "D", 10_957) if pa.types.is_date32(column.type) else (64, "us", 946_684_800_000_000)
        least, values = start - (1 << bits - 1), list[Any]()
        for value in cast("Any", column):
            try:
                values.append(value.as_py())
            except OverflowError:
                infinity = {least - 1: "infinity", least: "-infinity"}.get(value.value)
                values.append(infinity or str(np.datetime64(value.value, unit)))
        return values


def offsets_of(rows: pa.Table) -> NDArray[np.int64]:
    """Return the rows' offsets, in the order of the rows."""
    column: Any = rows["_offset"]
    return column.to_numpy()


def places_of(offsets: NDArray[np.int64], wanted: Sequence[int]) -> dict[int, int]:
    """Return by offset the place of each wanted offset that is in `offsets`, which ascend."""
    places = np.searchsorted(offsets, np.array(wanted, np.int64)).tolist()
    pairs = zip(wanted, places, strict=True)
    return {offset: place for offset, place in pairs if place < len(offsets) and offsets[place] == offset}
