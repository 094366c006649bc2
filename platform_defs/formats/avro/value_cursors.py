"""Cursors over Avro values, for many messages at once: they read a scalar, or find the end of a value of any type.

The vectorised counterpart of `walk.py`, and as strict. It doubts what it does not support: very deep values, and the
last few messages of long arrays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from platform_defs.formats.avro import schema as avro
from platform_defs.formats.blocks.buffer import Integers, Mask
from platform_defs.formats.wire.cursors import Cursors
from platform_defs.formats.wire.varint import zigzag

FEW = 64  # messages: reading so many one by one takes as long as one step over any number of them
_MAX_LEVELS = 16  # of records, arrays and maps in each other
_MAX_STEPS = 20_000  # beyond those that the messages' bytes explain: a schema can use a type in itself again and again
_LONE_ROUNDS = 8  # rounds over the items of few messages
_KEY = avro.Primitive("string")


@dataclass(frozen=True)
class Spans:
    """The start of a value in each message, and its length in bytes."""

    starts: Integers
    lengths: Integers


Scalar: TypeAlias = npt.NDArray[Any] | Spans  # numbers, booleans, an enum's indexes; or strings, bytes and fixed


def scalar(of: avro.Primitive | avro.Fixed | avro.Enum, cursors: Cursors) -> Scalar:
    """Return a value of each message, consumed. An invalid value is doubtful and means nothing."""
    match of:
        case avro.Fixed():
            return Spans(*cursors.spans(np.full(len(cursors), of.size)))
        case avro.Enum():
            return _within(integers(cursors), 0, len(of.symbols) - 1, cursors)
        case avro.Primitive(name="string" | "bytes"):
            return Spans(*cursors.spans(integers(cursors)))
        case avro.Primitive(name="boolean"):
            return _within(cursors.octets(), 0, 1, cursors) == 1
        case avro.Primitive(name="int"):
            return _within(integers(cursors), -(1 << 31), (1 << 31) - 1, cursors)
        case avro.Primitive(name="float"):
            return _four_or_eight(cursors, 4).astype(np.uint32).view(np.float32)
        case avro.Primitive(name="double"):
            return _four_or_eight(cursors, 8).view(np.float64)
        case _:
            return integers(cursors)


def integers(cursors: Cursors) -> Integers:
    """Return a zigzag varint of each message, consumed."""
    return zigzag(cursors.varints())


def _within(values: Integers, least: int, most: int, cursors: Cursors) -> Integers:
    wrong = (values < least) | (values > most)
    if wrong.any():
        cursors.doubt(wrong)
    return values


def _four_or_eight(cursors: Cursors, size: int) -> npt.NDArray[np.uint64]:
    words = cursors.words()
    cursors.step(size)
    return words


Note = Callable[[Cursors], None]


class Passing:
    """Passes values of any type. budget: the bytes of all messages."""

    def __init__(self, schema: avro.Schema, budget: int) -> None:
        self.schema = schema
        self._left = 2 * budget + _MAX_STEPS * FEW  # steps times messages

    def skip(self, of: avro.AvroType, cursors: Cursors, level: int) -> None:
        """Pass a value of each message. level: the number of records, arrays and maps around it."""
        found = self.schema.definite(of)
        if self.schema.is_empty(found) or not len(cursors):
            return
        if self._left < 0 or level > _MAX_LEVELS:
            self._left = -1  # what is beside it is not passed either: there may be as many records as leaves of a tree
            cursors.doubt_all()
            return
        if isinstance(found, avro.Record):
            for item in found.fields:
                self.skip(item.type, cursors, level + 1)
            return
        self._left -= len(cursors) + FEW
        match found:
            case avro.Union():
                self.union(found, cursors, lambda branch, some: self.skip(branch, some, level))
            case avro.Array():
                self._blocks((found.items,), self.schema.is_empty(found.items), cursors, level)
            case avro.Map():
                self._blocks((_KEY, found.values), False, cursors, level)
            case _:
                scalar(found, cursors)

    def union(self, of: avro.Union, cursors: Cursors, read: Callable[[avro.Definite, Cursors], None]) -> None:
        """Read each branch except null, with cursors for the messages that have it."""
        index = _within(integers(cursors), 0, len(of.branches) - 1, cursors)
        for number, branch in enumerate(of.branches):
            if branch != avro.NULL and (held := index == number).any():
                with cursors.among(held) as some:
                    read(self.schema.definite(branch), some)

    def items(self, of: avro.Array, cursors: Cursors, level: int) -> Cursors:
        """Pass an array of each message. Return cursors at the items of messages that are not doubtful, message after
        message; their rows are the message numbers.
        """
        rows, at = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]

        def note(some: Cursors) -> None:
            rows.append(np.arange(len(some)) if some.rows is None else some.rows)
            at.append(some.at)

        stops = np.zeros(len(cursors.doubtful), np.int64)
        stops[slice(None) if cursors.rows is None else cursors.rows] = cursors.stops
        self._blocks((of.items,), False, cursors, level, note)
        messages, begins = np.concatenate(rows), np.concatenate(at)
        order = np.argsort(messages, kind="stable")
        order = order[~cursors.doubtful[messages[order]]]
        messages = messages[order]
        return Cursors(cursors.buffer, begins[order], stops[messages], cursors.doubtful, messages)

    def _blocks(
        self, item: Sequence[avro.AvroType], empty: bool, cursors: Cursors, level: int, note: Note | None = None
    ) -> None:
        """Pass the blocks of an array or a map, up to the empty one. note: called with the cursors before each item."""
        going, rounds = ~cursors.doubts, 0
        while self._worth_it(going, rounds, cursors):
            with cursors.among(going) as some:
                counts = integers(some)
                with some.among(counts != 0) as more:
                    self._counted(counts[counts != 0], item, empty, more, level, note)
            going[np.flatnonzero(going)[counts == 0]] = False
            going &= ~cursors.doubts
            rounds += 1

    def _counted(
        self,
        counts: Integers,
        item: Sequence[avro.AvroType],
        empty: bool,
        cursors: Cursors,
        level: int,
        note: Note | None,
    ) -> None:
        """Pass the items of blocks that have some. A negative count is followed by the block's size in bytes."""
        sizes = np.zeros(len(counts), np.int64)
        with cursors.among(counts < 0) as sized:
            sizes[counts < 0] = integers(sized)
        starts, counts_of_items = cursors.at, np.abs(counts)
        if not empty:
            cursors.doubt((counts_of_items < 0) | (counts_of_items > cursors.left))  # the least integer has no negative
            self._items(counts_of_items, item, cursors, level, note)
        cursors.doubt((counts < 0) & (cursors.at - starts != sizes))

    def _items(
        self, counts: Integers, item: Sequence[avro.AvroType], cursors: Cursors, level: int, note: Note | None
    ) -> None:
        """Pass `counts` items of each message, one per message in each round."""
        rounds = 0
        while self._worth_it(going := (counts > rounds) & ~cursors.doubts, rounds, cursors):
            with cursors.among(going) as some:
                if note is not None:
                    note(some)
                for of in item:
                    self.skip(of, some, level + 1)
            rounds += 1

    def _worth_it(self, going: Mask, rounds: int, cursors: Cursors) -> bool:
        """Return True if another round is due. The last few messages of a long round are left to the single reader."""
        number = np.count_nonzero(going)
        if 0 < number < FEW and rounds >= _LONE_ROUNDS:
            cursors.doubt(going)
            return False
        return bool(number)
