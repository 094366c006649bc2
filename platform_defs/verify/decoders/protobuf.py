"""Validation of a Protobuf message by its contract, in plain Python: the values of its fields, or the reason for none.

Written for verify alone and deliberately not shared with the engine. The message's values are read first
(protobuf_wire.py); then each field of the contract is converted.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor import FieldDescriptor as F

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Contract, Field
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.verify.decoders.documents import NotTheType, jsonb_text, stored_text
from platform_defs.verify.decoders.protobuf_json import WRAPPERS, default_of, document, enum_name, part
from platform_defs.verify.decoders.protobuf_schema import Places, message_types
from platform_defs.verify.decoders.protobuf_wire import Message, Wanted, WantedField, read
from platform_defs.verify.decoders.values import after_1970, decimal_of, finite, items_of, reader

Convert = Callable[[Any], Any]  # a value of the last field on the path, never None → a value of the column

_MAX_DECIMAL = 512  # bytes
_NARROW = (F.TYPE_INT32, F.TYPE_UINT32, F.TYPE_SINT32, F.TYPE_FIXED32, F.TYPE_SFIXED32)
_INTEGERS = (*_NARROW, F.TYPE_INT64, F.TYPE_UINT64, F.TYPE_SINT64, F.TYPE_FIXED64, F.TYPE_SFIXED64)
_KNOWN = {
    "google.protobuf.Timestamp": (F.TYPE_INT64, F.TYPE_INT32),
    "google.type.Date": (F.TYPE_INT32, F.TYPE_INT32, F.TYPE_INT32),
    "google.type.Decimal": (F.TYPE_STRING,),
    "confluent.type.Decimal": (F.TYPE_BYTES, F.TYPE_UINT32, F.TYPE_INT32),
}


class ProtobufValidator:
    """Validates payloads of one writer's schema by one contract."""

    def __init__(
        self, contract: Contract, document: str, references: Sequence[tuple[str, str]] = (), *, framed: bool = False
    ) -> None:
        """Read the schema. document and references: .proto texts, or base64 of descriptors. framed: payloads begin with
        the indexes of their message. Raises NotTheType: SchemaNotCompatible.
        """
        self._types, self._framed = message_types(document, tuple(references)), framed
        if not self._types:
            raise NotTheType("SchemaNotCompatible")
        self._record = contract.wire.record or next(iter(self._types[0,])).full_name
        of = next((of for types in self._types.values() for of in types if of.full_name == self._record), None)
        if of is None and not framed:
            raise NotTheType("SchemaNotCompatible")
        self._fields = [_FieldValidator(item, of) for item in contract.fields] if of else []
        self._wanted = _wanted([field.path for field in self._fields if field.path])

    def values(self, payload: bytes) -> list[Any]:
        """Return a value for each of the contract's fields, None if missing. Raises NotTheType with the reason."""
        start = 0
        if self._framed:
            of, start = indexed_message(payload, self._types)
            if of.full_name != self._record:
                raise NotTheType("OtherRecord")
        message = read(payload, self._wanted, start)
        return [field.value(message) for field in self._fields]


def indexed_message(payload: bytes, types: Mapping[Places, set[Descriptor]]) -> tuple[Descriptor, int]:
    """Return the type for the indexes in front of a message, and the start of the message."""
    count, at = _index(payload, 0)
    places: list[int] = []
    if count > max(map(len, types)):
        raise NotTheType("UnknownMessageIndex")
    for _ in range(count):
        place, at = _index(payload, at)
        places.append(place)
    found = types.get(tuple(places or [0]), set())
    if len(found) != 1:
        raise NotTheType("UnknownMessageIndex")
    return next(iter(found)), at


def _index(payload: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag varint that is not negative, and its end."""
    written = payload[at : at + 5]
    size = next((place for place, byte in enumerate(written, 1) if byte < 128), 0)
    value = sum((byte & 127) << 7 * place for place, byte in enumerate(written[:size]))
    if not size or value % 2:
        raise NotTheType("UnknownMessageIndex")
    return value // 2, at + size


_WHOLE = ("json", "array")  # kinds of columns that take a repeated field


class _FieldValidator:
    """A field of the contract: its path, and the conversion of its value."""

    def __init__(self, item: Field, of: Descriptor) -> None:
        found = (_path(of, path, item.number) for path in (item.path, *item.aliases))
        self.path: list[F] = next((fields for fields in found if fields), list[F]())
        if not self.path:
            if item.required:
                raise NotTheType("SchemaNotCompatible")
            return
        last = self.path[-1]
        inner = last.message_type
        wrapped = inner.fields_by_number.get(1) if inner is not None and inner.full_name in WRAPPERS else None
        if wrapped and item.type.kind not in _WHOLE:
            _refuse(last.is_repeated)
            self.path.append(wrapped)
        last = self.path[-1]
        _refuse(last.is_repeated and item.type.kind not in _WHOLE)
        self._convert = _conversion(item.type, last)
        self._missing: Any = [] if last.is_repeated else None if last.has_presence else default_of(last)
        from_text = last.type == F.TYPE_STRING and item.type.kind in ("decimal", "date", "uuid", "time")
        self._empty_is_none = from_text and not last.has_presence

    def value(self, message: Message) -> Any:
        if not self.path:
            return None
        *outer, last = self.path
        for step in outer:
            if step.number not in message:
                return None
            message = message[step.number]
        found = message.get(last.number, self._missing)
        return None if found is None or (self._empty_is_none and not found) else self._convert(found)


def _refuse(wrong: bool) -> None:
    if wrong:
        raise NotTheType("SchemaNotCompatible")


def _path(of: Descriptor, path: MessagePath, number: int | None) -> list[F]:
    """Return the fields along the path, the last by its number if one is given; empty if one does not exist."""
    fields: list[F] = []
    for depth, name in enumerate(path, 1):
        if fields:
            inner = fields[-1].message_type
            if inner is None or fields[-1].is_repeated:
                raise NotTheType("SchemaNotCompatible")
            of = inner
        if depth == len(path) and number is not None:
            matching = [item for item in of.fields if item.number == number]
        else:
            matching = [item for item in of.fields if item.name == name]
            matching += [item for item in of.fields if item.json_name == name]
        if not matching:
            return []
        fields.append(matching[0])
    return fields


def _wanted(paths: Sequence[Sequence[F]]) -> Wanted:
    """Return the fields on the paths, and the other members of their oneofs."""
    fields: dict[int, WantedField] = {}
    for first in {path[0].number: path[0] for path in paths}.values():
        below = [path[1:] for path in paths if path[0].number == first.number]
        fields[first.number] = WantedField(first, _wanted(below) if all(below) else None)
    for path in paths:
        oneof = path[0].containing_oneof
        for rival in oneof.fields if oneof else ():
            fields.setdefault(rival.number, WantedField(rival, rival=True))
    return fields


def _conversion(of: ColumnType, item: F) -> Convert:
    """Return the function that makes a value of the column. Raises NotTheType if the field's type does not fit."""
    if of.name == "json":
        return lambda value: None if (found := document(item, value)) is None else jsonb_text(found)
    if of.item:
        _refuse(not item.is_repeated)
        convert = _conversion(of.item, item)
        return lambda value: items_of(value, convert)
    message = item.message_type
    if message is not None:
        return _of_message(of, message)
    if item.enum_type is not None and of.name == "string":
        return partial(enum_name, item)
    return _of_scalar(of, item.type)


def _of_scalar(of: ColumnType, kind: int) -> Convert:
    match of.kind:
        case "string" if kind == F.TYPE_STRING:
            return stored_text
        case "integer" if kind in _INTEGERS:
            return _integer
        case "double" if kind in (F.TYPE_DOUBLE, F.TYPE_FLOAT, *_NARROW):
            return finite
        case "boolean" if kind == F.TYPE_BOOL:
            return bool
        case "decimal" if kind in _INTEGERS:
            return lambda value: decimal_of(value, 0, of)
        case "bytes" if kind == F.TYPE_BYTES:
            return bytes
        case "decimal" | "date" | "uuid" | "time" if kind == F.TYPE_STRING:
            return _read_text(reader(of))
        case _:
            raise NotTheType("SchemaNotCompatible")


def _read_text(as_column: Convert, empty: str = "") -> Convert:
    return lambda value: as_column(stored_text(value) or empty)


def _of_message(of: ColumnType, message: Descriptor) -> Convert:
    parts = [message.fields_by_number.get(number) for number in (1, 2, 3)]
    kinds = tuple(part.type for part in parts if part is not None and not part.is_repeated)
    wanted = _KNOWN.get(message.full_name, (-1,))
    _refuse(kinds[: len(wanted)] != wanted)

    match of.kind, message.full_name:
        case "timestamp", "google.protobuf.Timestamp":
            return lambda value: _timestamp(part(value, message, 1), part(value, message, 2))
        case "date", "google.type.Date":
            return lambda value: _date(*(part(value, message, number) for number in (1, 2, 3)))
        case "decimal", "google.type.Decimal":
            as_column = _read_text(reader(of), empty="0")
            return lambda value: as_column(part(value, message, 1))
        case "decimal", "confluent.type.Decimal":
            return lambda value: _decimal_of_bytes(part(value, message, 1), part(value, message, 3), of)
        case _:
            raise NotTheType("SchemaNotCompatible")


def _integer(value: int) -> int:
    if value >= 2**63:
        raise NotTheType("OutOfRange")
    return value


def _decimal_of_bytes(raw: bytes, scale: int, of: ColumnType) -> Decimal:
    if len(raw) > _MAX_DECIMAL:
        raise NotTheType("OutOfRange")
    return decimal_of(int.from_bytes(raw, "big", signed=True), scale, of)


def _date(year: int, month: int, day: int) -> date:
    if not 1 <= year <= 9999:
        raise NotTheType("OutOfRange")
    try:
        return date(year, month, day)
    except ValueError:
        raise NotTheType("InvalidDate") from None


def _timestamp(seconds: int, nanos: int) -> datetime:
    if nanos not in range(0, 10**9, 1_000):
        raise NotTheType("InvalidTimestamp")
    return after_1970(seconds=seconds, microseconds=nanos // 1_000)
