"""A column of arrays, split into a column of their items and put together again; limits of arrays of single values, and
the reasons for refusing them, for all formats.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.formats.blocks.arrow import Column
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.buffer import Integers, Mask
from platform_defs.formats.blocks.reason import Reason

MAX_ITEMS = 10_000
SIZE_OF_ITEM = 32  # bytes, about: of an item that takes one byte in its message
_NULL_ITEM = Reason("NullItem", "is null; an array's items must not be null")


def read_items(items: Sequence[Any], read: Callable[[Any], Any]) -> list[Any] | Reason:
    """Return what `read` returns for each item; a Reason for more items than a column takes, or for the first that is
    null, or for which `read` returns one.
    """
    if len(items) > MAX_ITEMS:
        return Reason("TooManyItems", f"has {len(items):,} items; an array can have at most {MAX_ITEMS:,}")
    found = list[Any]()
    for number, item in enumerate(items, 1):
        value = _NULL_ITEM if item is None else read(item)
        if isinstance(value, Reason):
            return Reason(value.error_class, f"has an item, number {number:,}, that {value.message}")
        found.append(value)
    return found


def as_lists(items: Column, rows: Integers, absent: Mask) -> Column:
    """Return a list of items for each message: null if it is `absent`, a mask over all messages. rows: ascending, the
    message of each item.
    """
    return _lists(np.bincount(rows, minlength=len(absent)), items, pa.array(absent))


def doubt_arrays(doubtful: Mask, items: Column, rows: Integers, wrong: Mask, most: int) -> None:
    """Mark in `doubtful`, a mask over all messages, each message with a `wrong` or null item, or more than `most`
    items. rows: ascending, the message of each item.
    """
    nothing = items.is_null().to_numpy(zero_copy_only=False)
    doubtful[rows[wrong | nothing]] = True
    doubtful |= np.bincount(rows, minlength=len(doubtful)) > most


def _lists(lengths: Any, items: Column, absent: pa.BooleanArray) -> Column:
    offsets: Any = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    made: Any = pa.ListArray  # its overloads are typed in part
    return made.from_arrays(pa.array(offsets), items, mask=absent)


class Arrays:
    """A list column; an array may be null."""

    def __init__(self, column: Column) -> None:
        self._column = column

    @cached_property
    def items(self) -> Column:
        """The items of all arrays, one after another."""
        return pc.list_flatten(self._column)

    @property
    def too_long(self) -> pa.BooleanArray:
        """True for arrays of more items than a column takes."""
        return pc.fill_null(pc.greater(self._lengths, MAX_ITEMS), False)

    def with_any(self, wrong: pa.BooleanArray) -> pa.BooleanArray:
        """Return True for each array with at least one `wrong` item."""
        found = np.zeros(len(self._column), np.bool_)
        found[pc.list_parent_indices(self._column).filter(wrong).to_numpy()] = True
        return pa.array(found)

    def holding(self, items: Column) -> Column:
        """Return the arrays with `items` in place of their own, as many as there were."""
        return _lists(pc.fill_null(self._lengths, 0).to_numpy(), items, self._column.is_null())

    @cached_property
    def _lengths(self) -> Any:
        return pc.list_value_length(self._column)
