"""A Protobuf message on the wire as the values of the fields that are read.

Written for verify alone, from https://protobuf.dev/programming-guides/encoding/.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor import FieldDescriptor as F

from platform_defs.verify.decoders.documents import NotTheType

DEEPEST = 100  # messages and groups within the outermost
MAX_ITEMS = 1_000_000  # of repeated fields
_INT32_MAX = 2**31 - 1

# The wire type of each field type: 0 varint, 1 eight bytes, 2 a length and bytes, 3 a group, 5 four bytes.
_WIRE_TYPE = {
    **dict.fromkeys((F.TYPE_DOUBLE, F.TYPE_FIXED64, F.TYPE_SFIXED64), 1),
    **dict.fromkeys((F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_MESSAGE), 2),
    **dict.fromkeys((F.TYPE_FLOAT, F.TYPE_FIXED32, F.TYPE_SFIXED32), 5),
    F.TYPE_GROUP: 3,
}
_UNPACK = {
    **{F.TYPE_DOUBLE: "<d", F.TYPE_FIXED64: "<Q", F.TYPE_SFIXED64: "<q"},
    **{F.TYPE_FLOAT: "<f", F.TYPE_FIXED32: "<I", F.TYPE_SFIXED32: "<i"},
}
_BITS = {F.TYPE_INT32: 32, F.TYPE_UINT32: 32, F.TYPE_SINT32: 32, F.TYPE_ENUM: 32}
_SIGNED, _ZIGZAG = (F.TYPE_INT32, F.TYPE_INT64, F.TYPE_ENUM), (F.TYPE_SINT32, F.TYPE_SINT64)

Message: TypeAlias = dict[int, Any]  # field number → bytes, a number, a bool, a Message, or a list of them if repeated
Wanted: TypeAlias = Mapping[int, "WantedField"]  # the fields of a message that are read, by number


class WantedField:
    """A field that is read. For a `rival`, which only shares a oneof with others, only its presence counts."""

    def __init__(self, item: F, inner: Wanted | None = None, *, rival: bool = False) -> None:
        """inner: of a message, the fields that are read; None for all."""
        self.number, self.type, self.message_type = item.number, item.type, item.message_type
        self.is_repeated, self.rival, self._inner = item.is_repeated, rival, inner
        self.wire_type = _WIRE_TYPE.get(item.type, 0)
        self.wire_types = {self.wire_type, 2} if item.is_repeated and self.wire_type != 3 else {self.wire_type}
        oneof, enum = item.containing_oneof, item.enum_type
        self.others = [other.number for other in oneof.fields if other.number != item.number] if oneof else []
        self.named = enum.values_by_number if enum is not None and enum.is_closed else None

    def inner(self) -> Wanted:
        """Return the fields of the message that are read."""
        return whole(self.message_type) if self._inner is None else self._inner


@lru_cache(1_000)
def whole(of: Descriptor) -> Wanted:
    """Return all fields of a type."""
    return {item.number: WantedField(item) for item in of.fields}


def read(data: bytes, wanted: Wanted, start: int) -> Message:
    """Return the values from `start` to the end: of each field the last, messages merged; of a oneof only the last
    member. Raises NotTheType with the reason of a dead letter.
    """
    found: Message = {}
    _Wire(data).message(found, wanted, start, len(data))
    return found


@dataclass
class _Wire:
    """The bytes of one message. Methods raise NotTheType."""

    data: bytes
    items: int = 0

    def message(self, found: Message, wanted: Wanted, at: int, end: int, depth: int = 0, group: int = 0) -> int:
        """Add the values of a message, or of a group of that number, to `found`. Return its end."""
        if depth > DEEPEST:
            raise NotTheType("TooDeep")
        while at < end:
            tag, after = self._varint(at, end)
            number, kind = tag >> 3, tag & 7
            if after - at > 5 or tag > 0xFFFF_FFFF or not number or kind > 5 or (kind == 4 and number != group):
                raise NotTheType("InvalidProtobuf")
            if kind == 4:
                return after
            known = wanted.get(number)
            if known is None or kind not in known.wire_types:
                at = self._pass(number, kind, after, end, depth)
            elif known.rival:
                at = self._rival(found, known, kind, after, end, depth)
            else:
                at = self._value(found, known, kind, after, end, depth)
        if group:
            raise NotTheType("InvalidProtobuf")
        return at

    def _value(self, found: Message, known: WantedField, kind: int, at: int, end: int, depth: int) -> int:
        """Add the field's value. Return its end."""
        for other in known.others:
            found.pop(other, None)
        values: list[Any] = found.setdefault(known.number, []) if known.is_repeated else []
        if kind == 2:
            at, end = self._span(at, end)
        if kind == 2 and known.wire_type != 2:  # packed
            while at < end:
                self._count(known)
                value, at = self._number(known, at, end)
                values.append(value)
            return at
        self._count(known)
        if known.message_type is not None:
            value: Any = {} if known.is_repeated else found.get(known.number, {})
            at = self.message(value, known.inner(), at, end, depth + 1, known.number if kind == 3 else 0)
        elif kind == 2:
            value, at = self.data[at:end], end
        else:
            value, at = self._number(known, at, end)
        if known.is_repeated:
            values.append(value)
        else:
            found[known.number] = value
        return at

    def _rival(self, found: Message, known: WantedField, kind: int, at: int, end: int, depth: int) -> int:
        """Remove the other members of the field's oneof. Return the end of its value."""
        if known.named is None or self._number(known, at, end)[0] in known.named:
            for other in known.others:
                found.pop(other, None)
        return self._pass(known.number, kind, at, end, depth)

    def _count(self, known: WantedField) -> None:
        self.items += known.is_repeated
        if self.items > MAX_ITEMS:
            raise NotTheType("TooManyItems")

    def _number(self, known: WantedField, at: int, end: int) -> tuple[Any, int]:
        if known.type in _UNPACK:
            stop = self._after(at, struct.calcsize(_UNPACK[known.type]), end)
            return struct.unpack_from(_UNPACK[known.type], self.data, at)[0], stop
        raw, after = self._varint(at, end)
        if known.type == F.TYPE_BOOL:
            return raw > 0, after
        bits = _BITS.get(known.type, 64)
        raw %= 2**bits
        if known.type in _ZIGZAG:
            return -(raw // 2) - 1 if raw % 2 else raw // 2, after
        return raw - 2**bits if known.type in _SIGNED and raw >= 2 ** (bits - 1) else raw, after

    def _pass(self, number: int, kind: int, at: int, end: int, depth: int) -> int:
        """Return the end of a value that no column reads."""
        match kind:
            case 0:
                return self._varint(at, end)[1]
            case 2:
                return self._span(at, end)[1]
            case 3:
                return self.message({}, {}, at, end, depth + 1, number)
            case _:
                return self._after(at, 8 if kind == 1 else 4, end)

    def _span(self, at: int, end: int) -> tuple[int, int]:
        length, start = self._varint(at, end)
        if start - at > 5 or length > _INT32_MAX:
            raise NotTheType("InvalidProtobuf")
        return start, self._after(start, length, end)

    def _after(self, at: int, length: int, end: int) -> int:
        if at + length > end:
            raise NotTheType("InvalidProtobuf")
        return at + length

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        if at < end and self.data[at] < 128:  # most are one byte
            return self.data[at], at + 1
        value = 0
        for place, byte in enumerate(self.data[at : min(at + 10, end)]):
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value % 2**64, at + place + 1
        raise NotTheType("InvalidVarint" if end - at >= 10 else "InvalidProtobuf")
