"""The shape of a Protobuf message type, for readers: its fields by number, and their form on the wire.

https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)  # wire types
PACKABLE = frozenset((VARINT, FIXED64, FIXED32))

# The types of fields as .proto files name them: int64, string, message, ...
_FIELD_TYPES = [name for name in dir(FieldDescriptor) if name.startswith("TYPE_")]
KINDS: dict[int, str] = {getattr(FieldDescriptor, name): name[5:].lower() for name in _FIELD_TYPES}
_WIRE_TYPES = {
    **dict.fromkeys(("double", "fixed64", "sfixed64"), FIXED64),
    **dict.fromkeys(("float", "fixed32", "sfixed32"), FIXED32),
    **dict.fromkeys(("string", "bytes", "message"), LENGTH),
    "group": GROUP,
}
_DEFAULTS: dict[str, Any] = {"string": b"", "bytes": b"", "bool": False, "double": 0.0, "float": 0.0}


@dataclass(frozen=True, eq=False)
class EnumShape:
    """The names of an enum's numbers; if a number has several, the first."""

    name: str
    names: Mapping[int, str]
    closed: bool  # proto2: a number without a name is as if it were not in the message

    @cached_property
    def longest(self) -> int:
        """Characters of the longest name."""
        return max(map(len, self.names.values()), default=0)


@dataclass(frozen=True, eq=False)
class FieldShape:
    """A field of a message type."""

    number: int
    name: str
    kind: str  # a value of KINDS
    repeated: bool = False
    explicit: bool = True  # True if the message shows that it has the field; otherwise a missing one is its default
    oneof: str = ""  # only the member of it that is last on the wire counts; empty: in no oneof
    enum: EnumShape | None = None
    message: "MessageShape | None" = None
    wanted: bool = True  # False: it only matters as a member of its oneof

    @property
    def default(self) -> Any:
        """The value of the field if the message does not have it."""
        if self.repeated:
            return []
        return {} if self.message else _DEFAULTS.get(self.kind, 0)

    @property
    def wire_type(self) -> int:
        """The wire type of one value."""
        return _WIRE_TYPES.get(self.kind, VARINT)

    def takes(self, wire_type: int) -> bool:
        """Return True if a value of this wire type, with the field's number, is the field, not an unknown one."""
        packed = self.repeated and wire_type == LENGTH and self.wire_type in PACKABLE
        return wire_type == self.wire_type or packed


class MessageShape:
    """The fields of a message type that are read: all of them, or some."""

    def __init__(self, of: Descriptor, chosen: Mapping[int, FieldShape] | None = None) -> None:
        self.of, self._chosen = of, chosen

    @property
    def is_whole(self) -> bool:
        """True if all fields are read, so that none is unknown to the contract."""
        return self._chosen is None

    @cached_property
    def fields(self) -> Mapping[int, FieldShape]:
        """The fields by number. Types may contain themselves: a whole message makes its fields on first access."""
        if self._chosen is not None:
            return self._chosen
        return {field.number: field_shape(field) for field in self.of.fields}

    @cached_property
    def rivals(self) -> Mapping[int, tuple[int, ...]]:
        """The other members of the oneof, by member: their values do not count once it follows."""
        members = dict[str, list[int]]()
        for number, field in self.fields.items():
            members.setdefault(field.oneof, []).append(number)
        return {
            number: tuple(other for other in members[field.oneof] if other != number)
            for number, field in self.fields.items()
            if field.oneof
        }

    def end(self, path: tuple[int, ...]) -> "tuple[MessageShape, FieldShape]":
        """Return the message that has the field at the end of the path, and the field."""
        shape = self
        for number in path[:-1]:
            inner = shape.fields[number].message
            assert inner is not None  # noqa: S101  # resolve.py goes through messages only
            shape = inner
        return shape, shape.fields[path[-1]]


def field_shape(field: FieldDescriptor, message: MessageShape | None = None, *, wanted: bool = True) -> FieldShape:
    """Return the shape of a field, with all of its message, if it has one, unless `message` limits that."""
    if field.message_type is not None and message is None:
        message = MessageShape(field.message_type)
    oneof, enum = field.containing_oneof, None
    if field.enum_type:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}  # the first of each number
        enum = EnumShape(field.enum_type.full_name, names, field.enum_type.is_closed)
    return FieldShape(
        number=field.number,
        name=field.name,
        kind=KINDS[field.type],
        repeated=field.is_repeated,
        explicit=field.has_presence,
        oneof=oneof.full_name if oneof and len(oneof.fields) > 1 else "",  # `optional` makes one of a single member
        enum=enum,
        message=message,
        wanted=wanted,
    )
