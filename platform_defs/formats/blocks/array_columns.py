"""A column of arrays, split into a column of their items and put together again; limits of arrays of single values, and
the reasons for refusing them, for all formats.
"""

from collections.abc import Callable, Sequence
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


def with_items(column: Column, items: Column) -> Column:
    """Return a list column, whose arrays may be null, with `items` in place of its own: as many as there were."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    return _lists(lengths, items, column.is_null())
