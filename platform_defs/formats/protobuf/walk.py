"""A walk through many messages of one type at once: it finds the values of each field that is read.

Each message has a cursor of its own, between its own start and stop. A round takes the lowest tag under any cursor, and
reads the value after it in all messages that have it there. Protobuf's writers write fields in the order of their
numbers, so there are about as many rounds as fields. A rare case (groups, a message that comes twice, two members of a
oneof, odd lengths) marks the message as doubtful, for the single reader.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from platform_defs.formats.blocks.buffer import Buffer, Integers, Mask, Words
from platform_defs.formats.protobuf.heads import Heads, Values
from platform_defs.formats.protobuf.resolve import Path, Program
from platform_defs.formats.protobuf.shapes import LENGTH, FieldShape, MessageShape

FEW = 32  # messages in a round: with less it is slower than reading them one by one ...
MAX_THIN_ROUNDS = 64  # ... so only so many of those are made


@dataclass
class Cell:
    """The values of one field in the messages of a block."""

    present: Mask
    raw: Words  # a number as it is on the wire
    starts: Integers  # of a value with a length
    stops: Integers


@dataclass
class Found:
    """The values found in the messages of a block."""

    buffer: Buffer
    doubtful: Mask
    unknown: Mask  # messages with a field that the contract does not know
    cells: dict[Path, Cell] = field(default_factory=dict[Path, Cell])
    wholes: dict[Path, list[Values]] = field(default_factory=dict[Path, list[Values]])  # in the order of the messages

    def cell(self, path: Path) -> Cell:
        """Return the cell of a field: empty, if no message has had it yet."""
        if path not in self.cells:
            count = len(self.doubtful)
            self.cells[path] = Cell(
                np.zeros(count, np.bool_),
                np.zeros(count, np.uint64),
                np.zeros(count, np.int64),
                np.zeros(count, np.int64),
            )
        return self.cells[path]


def walk(program: Program, buffer: Buffer, starts: Integers, stops: Integers) -> Found:
    """Return the values in the messages data[starts[i]:stops[i]]; both ascend, and no two messages overlap."""
    found = Found(buffer, np.zeros(len(starts), np.bool_), np.zeros(len(starts), np.bool_))
    _Walk(program, found).message(program.shape, (), np.arange(len(starts)), starts, stops)
    return found


class _Walk:
    def __init__(self, program: Program, found: Found) -> None:
        parts = [(path, plan.is_whole) for plan in program.columns for path in plan.parts]
        self._found = found
        self._leaves = {path for path, whole in parts if not whole}
        self._wholes = {path for path, whole in parts if whole}
        self._inner = {path[:depth] for path, _ in parts for depth in range(1, len(path))}

    def message(self, shape: MessageShape, path: Path, rows: Integers, starts: Integers, stops: Integers) -> None:
        """Read the messages of a type that are at the path, in those rows."""
        inner = self._expect(shape, path, rows)
        heads = Heads(self._found.buffer, rows, starts, stops, self._found.doubtful)
        cases: dict[str, Integers] = {}
        thin = MAX_THIN_ROUNDS
        while (tag := heads.lowest()) is not None:
            values = heads.take(tag)
            thin -= len(values.rows) < FEW
            if thin < 0:
                heads.doubt_all()
            self._field(shape, path, tag, values, cases)
        for below, message in inner:
            cell = self._found.cell(below)
            rows = np.flatnonzero(cell.present & ~self._found.doubtful)
            if len(rows):
                self.message(message, below, rows, cell.starts[rows], cell.stops[rows])

    def _expect(self, shape: MessageShape, path: Path, rows: Integers) -> Collection[tuple[Path, MessageShape]]:
        """Mark fields without presence as present, since their message is; return the messages to go into."""
        inner = list[tuple[Path, MessageShape]]()
        for number, item in shape.fields.items():
            here = (*path, number)
            if here in self._leaves and not item.explicit:
                self._found.cell(here).present[rows] = True
            if here in self._inner and item.message:
                inner.append((here, item.message))
        return inner

    def _field(self, shape: MessageShape, path: Path, tag: int, values: Values, cases: dict[str, Integers]) -> None:
        item = shape.fields.get(tag >> 3)
        if item is not None and not item.takes(tag & 7):
            item = None  # whatever it is, it is not the field
        if item is not None and item.oneof:
            # Two members of a oneof, or one that may not count, are doubtful.
            case = cases.setdefault(item.oneof, np.zeros(len(self._found.doubtful), np.int64))
            before = case[values.rows]
            unsure = item.enum is not None and item.enum.closed and not item.wanted
            self._found.doubtful[values.rows] |= unsure | ((before != 0) & (before != item.number))
            case[values.rows] = item.number
        if item is not None and item.wanted:
            self._keep(item, (*path, item.number), values)
        elif not shape.is_whole:
            self._found.unknown[values.rows] = True

    def _keep(self, item: FieldShape, path: Path, values: Values) -> None:
        if path in self._wholes:
            self._found.wholes.setdefault(path, []).append(values)
        if path not in self._leaves and path not in self._inner:
            return
        cell = self._found.cell(path)
        if path in self._inner:
            self._found.doubtful[values.rows] |= cell.present[values.rows]  # messages that come twice are merged
        cell.present[values.rows] = True
        if item.wire_type == LENGTH:
            cell.starts[values.rows], cell.stops[values.rows] = values.starts, values.stops
        else:
            cell.raw[values.rows] = values.raw
