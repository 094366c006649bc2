"""The json columns of a block: the bytes of one field of each message, read as the single reader does."""

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.formats.blocks.arrow import Column
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.protobuf.json_tree import json_column_value
from platform_defs.formats.protobuf.resolve import ColumnPlan, Path, Program
from platform_defs.formats.protobuf.shapes import FieldShape, MessageShape
from platform_defs.formats.protobuf.tree import MAX_ITEMS, RefusedMessage, TreeReader
from platform_defs.formats.protobuf.walk import Found


def json_column(plan: ColumnPlan, program: Program, found: Found, budget: Budget) -> Column:
    """Return the column; null for no value, or a value for the single reader. Raises BlockTooLarge."""
    path = plan.parts[0]
    holder, item = program.shape.end(path)
    alone = MessageShape(holder.of, {item.number: item})
    bytes_of = _bytes_of(path, found)
    longest = MAX_ITEMS // sum(other.is_whole for other in program.columns)
    texts: list[str | None] = [None] * len(found.doubtful)
    present = ~found.doubtful
    if len(path) > 1:  # the message that has the field may be missing
        present &= found.cell(path[:-1]).present
    for row in np.flatnonzero(present).tolist():
        text = _text(alone, item, bytes_of.get(row, b""), len(path) - 1, longest)
        if isinstance(text, Reason):
            found.doubtful[row] = True
        else:
            texts[row] = text
            budget.spend(len(text or ""))
    return pa.array(texts, pa.string())


def _bytes_of(path: Path, found: Found) -> dict[int, bytes]:
    """Return all bytes of the field by message, tags included, in order: again a message, with this field alone."""
    pieces: defaultdict[int, bytearray] = defaultdict(bytearray)
    raw: Any = found.buffer.raw
    for values in found.wholes.get(path, ()):
        spans = zip(values.rows.tolist(), values.tags.tolist(), values.stops.tolist(), strict=True)
        for row, start, stop in spans:
            pieces[row] += raw[start:stop].tobytes()
    return {row: bytes(piece) for row, piece in pieces.items()}


def _text(alone: MessageShape, item: FieldShape, raw: bytes, depth: int, longest: int) -> str | Reason | None:
    try:
        if len(raw) > longest:
            return Reason("TooManyItems", "may hold too many items")
        return json_column_value(item, TreeReader(raw).read(alone, 0, depth))
    except RefusedMessage as refused:
        return refused.reason
