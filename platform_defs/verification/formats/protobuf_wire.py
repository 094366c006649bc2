"""A Protobuf message on the wire, as a list of its values, in order: nothing is merged or overwritten.

Written for verify alone, from https://protobuf.dev/programming-guides/encoding/.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor import FieldDescriptor as F

from platform_defs.verification.formats.documents import NotTheType

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


@dataclass(frozen=True)
class Wanted:
    """The fields of a message that are read, by number, with those of their messages."""

    fields: Mapping[int, "WantedField"]


@dataclass(frozen=True)
class WantedField:
    """A field that is read. For a `rival`, which only shares a oneof with others, only its presence is recorded."""

    field: F
    inner: "Wanted | Descriptor | None" = None  # for a message: the fields read, or its type for all of them
    rival: bool = False


@dataclass(frozen=True)
class Said:
    """A value of a field in a message (for a message: a list of values; for a rival: None)."""

    field: F
    value: Any


Message: TypeAlias = list[Said]


def whole(of: Descriptor) -> Wanted:
    """Return all fields of a type."""
    return Wanted({item.number: WantedField(item, item.message_type) for item in of.fields})


@dataclass
class Wire:
    """The bytes of one message. Methods raise NotTheType with the reason of a dead letter."""

    data: bytes
    items: int = 0
    _wholes: dict[str, Wanted] = field(default_factory=dict[str, Wanted])

    def message(self, wanted: Wanted | Descriptor, start: int) -> Message:
        """Return all values from `start` to the end."""
        said, _ = self._message(wanted, start, len(self.data), 0, 0)
        return said

    def _message(
        self, wanted: Wanted | Descriptor | None, at: int, end: int, depth: int, group: int
    ) -> tuple[Message, int]:
        if depth > DEEPEST:
            raise NotTheType("TooDeep")
        fields = self._fields(wanted)
        said: Message = []
        while at < end:
            tag, after = self._varint(at, end)
            number, kind = tag >> 3, tag & 7
            if after - at > 5 or tag > 0xFFFF_FFFF or not number or kind > 5 or (kind == 4 and number != group):
                raise NotTheType("InvalidProtobuf")
            if kind == 4:
                return said, after
            known = fields.get(number)
            if known is None or not _fits(known.field, kind):
                at = self._pass(number, kind, after, end, depth)
            else:
                at = self._say(known, kind, after, end, depth, said)
        if group:
            raise NotTheType("InvalidProtobuf")
        return said, at

    def _fields(self, wanted: Wanted | Descriptor | None) -> Mapping[int, WantedField]:
        if isinstance(wanted, Descriptor):
            wanted = self._wholes.setdefault(wanted.full_name, self._wholes.get(wanted.full_name) or whole(wanted))
        return wanted.fields if wanted else {}

    def _say(self, known: WantedField, kind: int, at: int, end: int, depth: int, said: Message) -> int:
        """Add the field's value. Return its end."""
        item = known.field
        if known.rival:
            return self._say_rival(item, kind, at, end, depth, said)
        if kind == 3:
            self._count(item)
            inner, at = self._message(known.inner, at, end, depth + 1, item.number)
            said.append(Said(item, inner))
            return at
        if kind != 2:
            self._count(item)
            value, at = self._number(item, at, end)
            said.append(Said(item, value))
            return at
        start, stop = self._span(at, end)
        if item.message_type is not None:
            self._count(item)
            said.append(Said(item, self._message(known.inner, start, stop, depth + 1, 0)[0]))
        elif item.type in (F.TYPE_STRING, F.TYPE_BYTES):
            self._count(item)
            said.append(Said(item, self.data[start:stop]))
        else:
            said += [Said(item, value) for value in self._packed(item, start, stop)]
        return stop

    def _say_rival(self, item: F, kind: int, at: int, end: int, depth: int, said: Message) -> int:
        after = self._pass(item.number, kind, at, end, depth)
        enum = item.enum_type
        if enum is None or not enum.is_closed or self._number(item, at, end)[0] in enum.values_by_number:
            said.append(Said(item, None))
        return after

    def _packed(self, item: F, at: int, end: int) -> Iterator[Any]:
        while at < end:
            self._count(item)
            value, at = self._number(item, at, end)
            yield value

    def _count(self, item: F) -> None:
        self.items += item.is_repeated
        if self.items > MAX_ITEMS:
            raise NotTheType("TooManyItems")

    def _number(self, item: F, at: int, end: int) -> tuple[Any, int]:
        if item.type in _UNPACK:
            stop = self._after(at, struct.calcsize(_UNPACK[item.type]), end)
            return struct.unpack(_UNPACK[item.type], self.data[at:stop])[0], stop
        raw, after = self._varint(at, end)
        return _as_number(item.type, raw), after

    def _pass(self, number: int, kind: int, at: int, end: int, depth: int) -> int:
        """Return the end of a value that no column reads."""
        match kind:
            case 0:
                return self._varint(at, end)[1]
            case 2:
                return self._span(at, end)[1]
            case 3:
                return self._message(None, at, end, depth + 1, number)[1]
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
        written = self.data[at : min(at + 10, end)]
        for size, byte in enumerate(written, 1):
            if byte < 128:
                groups = (part & 127 for part in written[:size])
                return sum(part << 7 * place for place, part in enumerate(groups)) % 2**64, at + size
        raise NotTheType("InvalidVarint" if len(written) == 10 else "InvalidProtobuf")


def _fits(item: F, kind: int) -> bool:
    usual = _WIRE_TYPE.get(item.type, 0)
    return kind == usual or (kind == 2 and item.is_repeated and usual in (0, 1, 5))


def _as_number(of: int, raw: int) -> int | bool:
    if of == F.TYPE_BOOL:
        return raw > 0
    bits = _BITS.get(of, 64)
    raw %= 2**bits
    if of in _ZIGZAG:
        return -(raw // 2) - 1 if raw % 2 else raw // 2
    return raw - 2**bits if of in _SIGNED and raw >= 2 ** (bits - 1) else raw
