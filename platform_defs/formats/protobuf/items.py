"""The items of a repeated field, of all messages of a block at once: each is read like a message of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from platform_defs.formats.blocks.array_columns import as_lists, doubt_arrays
from platform_defs.formats.blocks.arrow import Column
from platform_defs.formats.blocks.buffer import Integers, Words
from platform_defs.formats.protobuf.heads import Values
from platform_defs.formats.protobuf.resolve import ColumnPlan, Path, Program
from platform_defs.formats.protobuf.shapes import FIXED32, FIXED64, LENGTH, FieldShape, MessageShape
from platform_defs.formats.protobuf.walk import FEW, MAX_THIN_ROUNDS, Cell, Found, walk
from platform_defs.formats.wire.cursors import Cursors

_HALF = np.uint64(0xFFFF_FFFF)


@dataclass(frozen=True)
class Items:
    """The items, message after message."""

    rows: Integers  # ascending: the message of each
    cells: list[Cell]  # of the parts of an item
    alone: Found  # the items as messages

    def lists(self, column: Column, most: int, path: Path, found: Found) -> Column:
        """Return a column with a list of items for each message of `found`. A message with a doubtful or null item, or
        more than `most` items, is doubtful.
        """
        doubt_arrays(found.doubtful, column, self.rows, self.alone.doubtful, most)
        absent = ~found.cell(path[:-1]).present if len(path) > 1 else np.zeros(len(found.doubtful), np.bool_)
        return as_lists(column, self.rows, absent)


def items_of(plan: ColumnPlan, field: FieldShape, found: Found) -> Items:
    """Return the items of the repeated field `field`, at the end of the plan's path."""
    assert plan.items  # noqa: S101  # the recipe is for arrays
    rounds = list[Values]()  # each with one item of some messages
    for values in found.wholes.get(plan.parts[0], ()):
        packed = bool(len(values.rows)) and int(found.buffer.raw[values.tags[0]]) & 7 == LENGTH  # the same tag in all
        if packed and field.wire_type != LENGTH:  # each value is several numbers
            cursors = Cursors(found.buffer, values.starts, values.stops, found.doubtful, values.rows)
            rounds += _unpacked(field, cursors)
        else:
            rounds.append(values)
    rows = _joined([one.rows for one in rounds])
    order = np.argsort(rows, kind="stable")  # a message has its items in the order of the rounds
    starts, stops = (_joined(of)[order] for of in ([one.starts for one in rounds], [one.stops for one in rounds]))
    if plan.items.parts and field.message:
        shape = MessageShape(field.message.of, {n: field.message.fields[n] for (n,) in plan.items.parts})
        alone = walk(Program(shape, (plan.items,)), found.buffer, starts, stops)
        alone.doubtful |= alone.unknown
        return Items(rows[order], [alone.cell(path) for path in plan.items.parts], alone)
    raw: Words = np.concatenate([np.zeros(0, np.uint64), *(one.raw for one in rounds)])[order]
    alone = Found(found.buffer, np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_))
    return Items(rows[order], [Cell(np.ones(len(rows), np.bool_), raw, starts, stops)], alone)


def _joined(parts: list[Integers]) -> Integers:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _unpacked(field: FieldShape, cursors: Cursors) -> Iterator[Values]:
    thin = MAX_THIN_ROUNDS
    while (going := (cursors.left > 0) & ~cursors.doubts).any():
        with cursors.among(going) as some:
            thin -= len(some) < FEW
            if thin < 0:
                some.doubt_all()
                return
            at, raw = some.at, _number(field.wire_type, some)
            assert some.rows is not None  # noqa: S101  # as in `values`
            yield Values(some.rows, at, raw, at, some.at)


def _number(wire_type: int, cursors: Cursors) -> Words:
    """Return a number of each message, consumed."""
    if wire_type not in (FIXED32, FIXED64):
        return cursors.varints()
    raw = cursors.words()
    cursors.step(4 if wire_type == FIXED32 else 8)
    return raw & _HALF if wire_type == FIXED32 else raw
