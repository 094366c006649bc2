"""A Protobuf value as a JSON document, with the schema's field names: https://protobuf.dev/programming-guides/json/.

NaN and Infinity are refused; Any and FieldMask are written as their fields.
"""

import base64
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor import FieldDescriptor as F

from platform_defs.verify.decoders.documents import Document, Long, NotTheType, Number, Pairs, stored_text
from platform_defs.verify.decoders.protobuf_wire import Message
from platform_defs.verify.decoders.values import after_1970, finite

_WRAPPED = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
WRAPPERS = {f"google.protobuf.{kind}Value" for kind in _WRAPPED}
_WIDE = (F.TYPE_INT64, F.TYPE_UINT64, F.TYPE_SINT64, F.TYPE_FIXED64, F.TYPE_SFIXED64)


def default_of(item: F) -> Any:
    """Return the default of a field that is not repeated."""
    if item.message_type is not None:
        return {}
    return {F.TYPE_STRING: b"", F.TYPE_BYTES: b"", F.TYPE_BOOL: False, F.TYPE_DOUBLE: 0.0, F.TYPE_FLOAT: 0.0}.get(
        item.type, 0
    )


def document(item: F, value: Any) -> Document:
    """Return the JSON of a field's value. Raises NotTheType."""
    if not item.is_repeated:
        return _one(item, value)
    of = item.message_type
    if of is not None and of.GetOptions().map_entry:
        return _map(of, value)
    return [_one(item, one) for one in value]


def message_document(of: Descriptor, message: Message) -> Pairs:
    """Return the JSON of a message that is not one of Protobuf's well-known types. Raises NotTheType."""
    found = Pairs()
    for item in of.fields:
        value = message.get(item.number)
        if value is None or (not item.has_presence and not value):  # a default
            continue
        found.append((item.name, document(item, value)))
    return found


def enum_name(item: F, number: int) -> str:
    """Return the first name of a number in the field's enum. Raises NotTheType if it has none."""
    values = item.enum_type.values if item.enum_type else ()
    name = next((value.name for value in values if value.number == number), None)
    if name is None:
        raise NotTheType("InvalidEnum")
    return name


def part(message: Message, of: Descriptor, number: int) -> Any:
    """Return the value of the field of that number in a message of type `of`; its default if it is missing."""
    return message.get(number, default_of(of.fields_by_number[number]))


def _one(item: F, value: Any) -> Document:
    if item.message_type is not None:
        return _message(item.message_type, value)
    if item.enum_type is not None:
        name = enum_name(item, value)
        return None if item.enum_type.full_name == "google.protobuf.NullValue" else name
    if item.type == F.TYPE_STRING:
        return stored_text(value)
    if item.type == F.TYPE_BYTES:
        return base64.standard_b64encode(value).decode()
    if item.type == F.TYPE_BOOL:
        return value
    if item.type in (F.TYPE_DOUBLE, F.TYPE_FLOAT):
        real = float(str(np.float32(value))) if item.type == F.TYPE_FLOAT else value
        return Number(repr(finite(real)).removesuffix(".0"))
    return Long(value) if item.type in _WIDE else Number(value)


def _map(entry: Descriptor, entries: list[Message]) -> Pairs:
    found: dict[str, Any] = {}
    for message in entries:
        key = part(message, entry, 1)
        name = stored_text(key) if isinstance(key, bytes) else str(key).lower()
        found[name] = _one(entry.fields_by_number[2], part(message, entry, 2))
    return Pairs(found.items())


def _message(of: Descriptor, message: Message) -> Document:
    name = of.full_name.removeprefix("google.protobuf.") if of.file.name.startswith("google/protobuf/") else ""
    match name:
        case "Timestamp":
            return _timestamp(part(message, of, 1), part(message, of, 2))
        case "Duration":
            return _duration(part(message, of, 1), part(message, of, 2))
        case "Struct" | "ListValue":
            return document(of.fields_by_number[1], message.get(1, []))
        case "Value":
            return next((_one(item, message[item.number]) for item in of.fields if item.number in message), None)
        case _ if name and of.full_name in WRAPPERS:
            return _one(of.fields_by_number[1], part(message, of, 1))
        case _:
            return message_document(of, message)


def _timestamp(seconds: int, nanos: int) -> str:
    if not 0 <= nanos < 10**9:
        raise NotTheType("InvalidTimestamp")
    whole = after_1970(seconds=seconds, microseconds=0).replace(tzinfo=None)
    return f"{whole.isoformat()}{_decimals(nanos)}Z"


def _duration(seconds: int, nanos: int) -> str:
    if abs(seconds) > 315_576_000_000 or abs(nanos) >= 10**9 or (seconds < 0 < nanos) or (nanos < 0 < seconds):
        raise NotTheType("OutOfRange")
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return f"{sign}{abs(seconds)}{_decimals(abs(nanos))}s"


def _decimals(nanos: int) -> str:
    if not nanos:
        return ""
    places = 3 if nanos % 10**6 == 0 else 6 if nanos % 10**3 == 0 else 9
    return "." + f"{nanos:09}"[:places]
