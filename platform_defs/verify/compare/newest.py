"""The newest message of each key of an upsert, and its expected row; compared in columns, since there are many."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray
from typing_extensions import override

from platform_defs.verify.validators.validator import Row

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types

Mask: TypeAlias = NDArray[np.bool_]


class Newest:
    """The newest valid message of a key in a partition."""

    __slots__ = ("_row", "block", "offset", "partition")
    __hash__ = None  # type: ignore  # pyright: ignore  # as Python's manual says of what is equal and may change

    def __init__(self, partition: int, offset: int, row: Row | int | None, block: pa.Table | None = None) -> None:
        """Set the row. `row`: the table's columns, with json, uuid and time in canonical form, or its place in `block`,
        which has these columns; None for a tombstone.
        """
        self.partition, self.offset, self._row, self.block = partition, offset, row, block

    @property
    def row(self) -> Row | None:
        """The values of the table's columns; None for a tombstone."""
        if self.block is None or not isinstance(self._row, int):
            return self._row if isinstance(self._row, tuple) else None
        return tuple(column[self._row].as_py() for column in self.block.columns)

    @property
    def place(self) -> int:
        """The place of the row in its block; -1 if it is in none."""
        return self._row if isinstance(self._row, int) else -1

    def move(self, place: int, block: pa.Table) -> None:
        """Refer to the same row in another block."""
        self._row, self.block = place, block

    @override
    def __eq__(self, other: object) -> bool:
        mine = self.partition, self.offset, self.row
        return isinstance(other, Newest) and mine == (other.partition, other.offset, other.row)


def equal_rows(
    rows: pa.Table, partitions: Sequence[int], offsets: Sequence[int], wanted: Sequence[Newest | None]
) -> Mask:
    """Return True for each row that is from the same message as the wanted one, and equal to its row. A wanted row
    outside a block counts as not equal.
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
        same = np.ones(len(places), np.bool_)
        own, theirs = rows.take(pa.array(places)), block.take(pa.array(others))
        for one, other in zip(own.columns, theirs.columns, strict=True):
            values: Any = pc.fill_null(pc.equal(one, other), fill_value=False)
            nulls: Any = pc.and_(pc.is_null(one), pc.is_null(other))
            same &= pc.or_(values, nulls).to_numpy()
        equal[places] = same
    return equal


def without_waste(kept: Iterable[Newest]) -> int:
    """Drop the rows that are no longer needed from the blocks. Return the number of rows left."""
    blocks = dict[int, list[Newest]]()
    for one in kept:
        if one.block is not None:
            blocks.setdefault(id(one.block), []).append(one)
    for found in blocks.values():
        block = found[0].block
        assert block is not None  # noqa: S101  # those without one were excluded
        smaller = block.take(pa.array([one.place for one in found]))
        for place, one in enumerate(found):
            one.move(place, smaller)
    return sum(map(len, blocks.values()))


class _Whatever:
    """A value that equals every other."""

    @override
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore  # pyright: ignore  # as Python's manual says of what is equal and may change


class Retyped:
    """A value that equals nothing: an older contract's value does not fit the column's current type."""

    def __init__(self, what: str) -> None:
        self._what = what

    @override
    def __str__(self) -> str:
        return f"the value in its message: {self._what}"


WHATEVER: Any = _Whatever()
NOT_COMPARED: Any = _Whatever()  # the expected value is not known: the row is counted as not verifiable
