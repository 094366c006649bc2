"""json columns and arrays of a block: of each message the bytes of one field, read as the single reader reads them."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.formats.arrays import SIZE_OF_ITEM
from platform_defs.formats.arrow import Column
from platform_defs.formats.budget import Budget
from platform_defs.formats.protobuf.arrays import array_value, items_reader
from platform_defs.formats.protobuf.json_tree import json_column_value
from platform_defs.formats.protobuf.resolve import ColumnPlan, Path, Program
from platform_defs.formats.protobuf.shapes import FieldShape, MessageShape
from platform_defs.formats.protobuf.tree import MOST_ITEMS, RefusedMessage, Tree, TreeReader
from platform_defs.formats.protobuf.walk import Found
from platform_defs.formats.reason import Reason

ReadWhole = Callable[[FieldShape, Tree | None], Any]  # a field and the message that holds it → a value, or a Reason


def json_column(plan: ColumnPlan, program: Program, found: Found, budget: Budget) -> Column:
    """The column; null where there is none, or where the single reader must judge. Raises BlockTooLarge."""
    texts: list[str | None] = [None] * len(found.doubtful)
    for row, text in _values(plan, program, found, json_column_value):
        texts[row] = text
        budget.spend(len(text or ""))
    return pa.array(texts, pa.string())


def array_column(plan: ColumnPlan, program: Program, found: Found, budget: Budget) -> Column:
    """The column of arrays, as the single reader makes them; null as in `json_column`. Raises BlockTooLarge."""
    assert plan.items  # noqa: S101  # the recipe is for arrays
    lists: list[list[Any] | None] = [None] * len(found.doubtful)
    for row, items in _values(plan, program, found, partial(array_value, items_reader(plan.items))):
        lists[row] = items
        budget.spend(len(items or ()) * SIZE_OF_ITEM)
    return pa.array(lists, plan.item.type.arrow)


def _values(plan: ColumnPlan, program: Program, found: Found, read: ReadWhole) -> Iterator[tuple[int, Any]]:
    """The message's number and what `read` makes of the field, for all messages that have it; what is no value makes
    the message doubtful.
    """
    path = plan.parts[0]
    holder, item = _ends_at(program.shape, path)
    alone = MessageShape(holder.of, {item.number: item})
    bytes_of = _bytes_of(path, found)
    longest = MOST_ITEMS // sum(other.is_whole for other in program.columns)
    for row in _rows(path, found):
        value = _value(alone, partial(read, item), bytes_of.get(row, b""), len(path) - 1, longest)
        if isinstance(value, Reason):
            found.doubtful[row] = True
        else:
            yield row, value


def _ends_at(shape: MessageShape, path: Path) -> tuple[MessageShape, FieldShape]:
    """The message that holds the field at the end of the path, and the field."""
    for number in path[:-1]:
        inner = shape.fields[number].message
        assert inner is not None  # noqa: S101  # resolve.py goes through messages only
        shape = inner
    return shape, shape.fields[path[-1]]


def _rows(path: Path, found: Found) -> list[int]:
    """The messages that have what holds the field."""
    present = ~found.doubtful
    if len(path) > 1:
        present &= found.cell(path[:-1]).present
    return np.flatnonzero(present).tolist()


def _bytes_of(path: Path, found: Found) -> dict[int, bytes]:
    """By message all that it has of the field, tags included, in its order: again a message, of this field alone."""
    pieces: defaultdict[int, bytearray] = defaultdict(bytearray)
    raw: Any = found.buffer.raw
    for values in found.wholes.get(path, ()):
        spans = zip(values.rows.tolist(), values.tags.tolist(), values.stops.tolist(), strict=True)
        for row, start, stop in spans:
            pieces[row] += raw[start:stop].tobytes()
    return {row: bytes(piece) for row, piece in pieces.items()}


def _value(alone: MessageShape, read: Callable[[Tree], Any], raw: bytes, depth: int, longest: int) -> Any:
    try:
        if len(raw) > longest:
            return Reason("TooManyItems", "may hold too many items")
        return read(TreeReader(raw).read(alone, 0, depth))
    except RefusedMessage as refused:
        return refused.reason
