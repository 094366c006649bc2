"""One Protobuf message, field by field: the bytes become a tree of values, or are refused, naming the byte.

As in Google's parsers: if a field that is not repeated comes again, the last value counts, and messages are merged; in
a oneof, the member that comes last counts; a field with an unknown number or another wire type is skipped; numbers are
cut to the width of their field. https://protobuf.dev/programming-guides/encoding/
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.empty_pb2 import Empty

from platform_defs.errors.words import plural
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.reason import Wrong
from platform_defs.formats.protobuf.shapes import (
    END_GROUP,
    FIXED32,
    FIXED64,
    GROUP,
    LENGTH,
    VARINT,
    FieldShape,
    MessageShape,
)

Tree = dict[int, Any]  # by number: an int, float, bool, bytes (string, bytes) or Tree; a list if repeated

MAX_DEPTH = 100  # messages within messages, the outermost not counted
MAX_ITEMS = 1_000_000  # of repeated fields: a million booleans are a megabyte on the wire, and many more as values
_MAX_BYTES_OF_TAG, _MAX_BYTES_OF_NUMBER = 5, 10
_LONGEST = 2**31 - 1


@dataclass(slots=True)  # not frozen, which is slower: one is made for each message within a message
class _Message:
    """The state of a message that is being read."""

    shape: MessageShape
    tree: Tree  # into which it is read
    stop: int  # its end at the latest; a group ends before, at its end tag
    depth: int  # the number of messages that it is in
    group: int | None = None  # the number of the group that it is

    def drop_rivals(self, field: FieldShape) -> None:
        """Forget the other members of the oneof that `field` is in: the last one counts."""
        for other in self.shape.rivals[field.number]:
            self.tree.pop(other, None)


class TreeReader:
    """Reads one message; `unknown` is then True if it has fields that the contract does not know."""

    def __init__(self, data: bytes) -> None:
        self._data, self._items, self.unknown = data, 0, False
        self._path: list[str] = []  # the names of the fields in which the reader is

    def read(self, shape: MessageShape, at: int, depth: int = 0) -> Tree:
        """Return the message from the byte `at` on, which is in `depth` others. Raises Wrong."""
        tree: Tree = {}
        try:
            self._read(_Message(shape, tree, len(self._data), depth), at)
        except Wrong as wrong:
            if not self._path:
                raise
            message = f"{wrong.reason.message}, in {excerpt('.'.join(self._path))}"
            raise Wrong(wrong.reason.error_class, message) from None
        return tree

    def _read(self, message: _Message, at: int) -> int:
        """Read the message to its end; return the position after it."""
        if message.depth > MAX_DEPTH:
            raise Wrong("TooDeep", f"messages nest deeper than {MAX_DEPTH} levels at byte {at}")
        shape, stop = message.shape, message.stop
        while at < stop:
            start = at
            number, wire_type, at = self._tag(at, stop)
            if wire_type == END_GROUP:
                if number != message.group:
                    raise _malformed(f"ends group {number}, which was not started", start)
                return at
            field = shape.fields.get(number)
            if field is not None and field.takes(wire_type):
                self._path.append(field.name)
                at = self._field(message, field, wire_type, at)
                self._path.pop()
            else:
                self.unknown |= not shape.is_whole
                at = self._skip(message, number, wire_type, at)
        if message.group is not None:
            raise _malformed(f"ends inside group {message.group}", at)
        return at

    def _field(self, message: _Message, field: FieldShape, wire_type: int, at: int) -> int:
        if not field.wanted:
            return self._rival(message, field, wire_type, at)
        if field.number in message.shape.rivals:
            message.drop_rivals(field)
        if field.message is not None:
            return self._nested(message, field, field.message, at)
        if field.repeated:
            return self._repeated(message, field, wire_type, at)
        message.tree[field.number], at = self._scalar(field, at, message.stop)
        return at

    def _rival(self, message: _Message, field: FieldShape, wire_type: int, at: int) -> int:
        """Skip a member of a oneof that is not read, and drop the others: they no longer count."""
        self.unknown = True
        after = self._skip(message, field.number, wire_type, at)
        enum = field.enum
        if enum is None or not enum.closed or self._scalar(field, at, message.stop)[0] in enum.names:
            message.drop_rivals(field)
        return after

    def _nested(self, message: _Message, field: FieldShape, shape: MessageShape, at: int) -> int:
        if field.repeated:
            tree: Tree = {}
            self._append(field, message.tree, tree)
        else:
            tree = message.tree.setdefault(field.number, {})
        if field.wire_type == GROUP:
            return self._read(_Message(shape, tree, message.stop, message.depth + 1, field.number), at)
        start, end = self._length(at, message.stop)
        return self._read(_Message(shape, tree, end, message.depth + 1), start)

    def _repeated(self, message: _Message, field: FieldShape, wire_type: int, at: int) -> int:
        if wire_type == field.wire_type:
            value, at = self._scalar(field, at, message.stop)
            self._append(field, message.tree, value)
            return at
        at, end = self._length(at, message.stop)
        message.tree.setdefault(field.number, [])
        while at < end:
            value, at = self._scalar(field, at, end)
            self._append(field, message.tree, value)
        return at

    def _append(self, field: FieldShape, tree: Tree, value: Any) -> None:
        self._items += 1
        if self._items > MAX_ITEMS:
            raise Wrong("TooManyItems", f"has more than {MAX_ITEMS:,} items in repeated fields")
        tree.setdefault(field.number, []).append(value)

    def _scalar(self, field: FieldShape, at: int, stop: int) -> tuple[Any, int]:
        if field.wire_type == VARINT:
            raw, at = self._number(at, stop)
            return _NUMBERS[field.kind](raw), at
        if field.wire_type == LENGTH:
            at, end = self._length(at, stop)
            return self._data[at:end], end
        form = _FIXED[field.kind]
        end = self._after(at, form.size, stop)
        return form.unpack_from(self._data, at)[0], end

    def _skip(self, message: _Message, number: int, wire_type: int, at: int) -> int:
        """Return the position after a value that is not read."""
        if wire_type == VARINT:
            return self._number(at, message.stop)[1]
        if wire_type == LENGTH:
            return self._length(at, message.stop)[1]
        if wire_type == GROUP:
            return self._read(_Message(_NOTHING, {}, message.stop, message.depth + 1, number), at)
        return self._after(at, 8 if wire_type == FIXED64 else 4, message.stop)

    def _tag(self, at: int, stop: int) -> tuple[int, int, int]:
        """Return a field's number, its wire type, and the position after them."""
        tag, after = self._number(at, stop)
        number, wire_type = tag >> 3, tag & 7
        if after - at > _MAX_BYTES_OF_TAG or tag >= 2**32 or number == 0:
            raise _malformed("has no field number between 1 and 536,870,911", at)
        if wire_type > FIXED32:
            raise _malformed(f"has the wire type {wire_type}, which does not exist,", at)
        return number, wire_type, after

    def _length(self, at: int, stop: int) -> tuple[int, int]:
        """Return the start and the end of a value with a length in front of it."""
        length, after = self._number(at, stop)
        if after - at > _MAX_BYTES_OF_TAG or length > _LONGEST:
            raise _malformed(f"gives a length of {plural(length, 'byte')}", at)
        return after, self._after(after, length, stop)

    def _after(self, at: int, length: int, stop: int) -> int:
        if length > stop - at:
            raise _malformed(
                f"is cut off: its length is {plural(length, 'byte')}, more than the {stop - at:,} left", at
            )
        return at + length

    def _number(self, at: int, stop: int) -> tuple[int, int]:
        """Return a varint, cut to 64 bits, and the position after it."""
        value = 0
        for place in range(_MAX_BYTES_OF_NUMBER):
            if at + place >= stop:
                raise _malformed("is cut off in the middle of a number", at)
            byte = self._data[at + place]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at + place + 1
        raise Wrong("InvalidVarint", f"the message has a number of more than 10 bytes at byte {at}")


def part_of(field: FieldShape, tree: Tree | None, *, has_default: bool = False) -> Any:
    """Return the value of a field in a message; None if the message is missing (no tree), or the field, if it can be
    missing and has no default.
    """
    if tree is None or (field.number not in tree and field.explicit and not has_default):
        return None
    return tree.get(field.number, field.default)


def _malformed(what: str, at: int) -> Wrong:
    return Wrong("InvalidProtobuf", f"the message {what} at byte {at}")


def _signed(raw: int, bits: int) -> int:
    raw &= (1 << bits) - 1
    return raw - (1 << bits) if raw >> (bits - 1) else raw


def _zigzag(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


_NUMBERS: dict[str, Callable[[int], int]] = {
    "int32": lambda raw: _signed(raw, 32),
    "int64": lambda raw: _signed(raw, 64),
    "uint32": lambda raw: raw & 0xFFFF_FFFF,
    "uint64": lambda raw: raw,
    "sint32": lambda raw: _zigzag(raw & 0xFFFF_FFFF),
    "sint64": _zigzag,
    "bool": bool,
    "enum": lambda raw: _signed(raw, 32),
}
_FIXED = {
    "double": struct.Struct("<d"),
    "float": struct.Struct("<f"),
    "fixed64": struct.Struct("<Q"),
    "fixed32": struct.Struct("<I"),
    "sfixed64": struct.Struct("<q"),
    "sfixed32": struct.Struct("<i"),
}
_NOTHING = MessageShape(Empty.DESCRIPTOR)  # of a group that is skipped: the caller has counted it as unknown
