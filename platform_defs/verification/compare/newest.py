"""The newest message of each key of an upsert, and the rows that these must be: in columns, as many as there are."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray
from typing_extensions import override

from platform_defs.verification.judge.judge import Row

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types

Mask: TypeAlias = NDArray[np.bool_]


class Newest:
    """The newest valid message of a key in a partition."""

    __slots__ = ("_row", "block", "offset", "partition")
    __hash__ = None  # type: ignore  # pyright: ignore  # as Python's manual says of what is equal and may change

    def __init__(self, partition: int, offset: int, row: Row | int | None, block: pa.Table | None = None) -> None:
        """`row`: of the table's columns, json, uuid and time in one spelling, or its place in `block`, which holds
        these columns; None for a tombstone.
        """
        self.partition, self.offset, self._row, self.block = partition, offset, row, block

    @property
    def row(self) -> Row | None:
        """Of the table's columns; None for a tombstone."""
        if self.block is None or not isinstance(self._row, int):
            return self._row if isinstance(self._row, tuple) else None
        return tuple(column[self._row].as_py() for column in self.block.columns)

    @property
    def place(self) -> int:
        """Of the row in its block; -1 where it is in none."""
        return self._row if isinstance(self._row, int) else -1

    def move(self, place: int, block: pa.Table) -> None:
        """The same row is there as well."""
        self._row, self.block = place, block

    @override
    def __eq__(self, other: object) -> bool:
        mine = self.partition, self.offset, self.row
        return isinstance(other, Newest) and mine == (other.partition, other.offset, other.row)


def equal_rows(
    rows: pa.Table, partitions: Sequence[int], offsets: Sequence[int], wanted: Sequence[Newest | None]
) -> Mask:
    """Which rows are of the same message as what is wanted, and equal to its row. One that is in no block is not said
    to be equal.
    """
    blocks = dict[int, tuple[pa.Table, list[int], list[int]]]()
    for number, (partition, offset, one) in enumerate(zip(partitions, offsets, wanted, strict=True)):
        if one is None or one.block is None or one.offset != offset or one.partition != partition:
            continue
        _, places, others = blocks.setdefault(id(one.block), (one.block, [], []))
        places.append(number)
        others.append(one.place)
    equal = np.zeros(rows.num_rows, np.bool_)
    for block, places, others in blocks.values():
        equal[places] = _equal(rows.take(pa.array(places)), block.take(pa.array(others)))
    return equal


def _equal(one: pa.Table, other: pa.Table) -> Mask:
    """Row by row."""
    found = np.ones(one.num_rows, np.bool_)
    for mine, theirs in zip(one.columns, other.columns, strict=True):
        values: Any = pc.fill_null(pc.equal(mine, theirs), fill_value=False)
        nulls: Any = pc.and_(pc.is_null(mine), pc.is_null(theirs))
        found &= pc.or_(values, nulls).to_numpy()
    return found


def without_waste(kept: Iterable[Newest]) -> int:
    """Let blocks hold nothing but the rows that are kept; how many these are."""
    blocks = dict[int, list[Newest]]()
    for one in kept:
        if one.block is not None:
            blocks.setdefault(id(one.block), []).append(one)
    for found in blocks.values():
        block = found[0].block
        assert block is not None  # noqa: S101  # those without one were left out
        smaller = block.take(pa.array([one.place for one in found]))
        for place, one in enumerate(found):
            one.move(place, smaller)
    return sum(map(len, blocks.values()))


class _Whatever:
    """Equal to every value."""

    @override
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore  # pyright: ignore  # as Python's manual says of what is equal and may change


class Retyped:
    """Equal to nothing: what a message of an older contract makes is no value of the type that the column has now."""

    def __init__(self, what: str) -> None:
        self._what = what

    @override
    def __str__(self) -> str:
        return f"what its message says: {self._what}"


WHATEVER: Any = _Whatever()
NOT_COMPARED: Any = _Whatever()  # what the column must hold is not known: its row is counted as not verifiable
