"""JSON documents as Protobuf messages, by a schema: ProtoJSON, and shorter forms of dates and decimals.

https://protobuf.dev/programming-guides/json/
"""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from math import isfinite
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import EncodeError
from google.protobuf.message_factory import GetMessageClass

from platform_defs.contract.document.node import as_list, as_mapping
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.encoding.documents import CannotEncode, shown
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.formats.protobuf.message_index import spellings, types_of
from platform_defs.formats.protobuf.shapes import KINDS

_MISFITS = (ValueError, TypeError, OverflowError, AttributeError, ArithmeticError, ParseError, EncodeError)
_in_field = re.compile(r"Failed to parse (\S+) field: (.*)\.", re.DOTALL).fullmatch
_at = re.compile(r" at \w+((?:\.\w+(?:\[\d+\])?)*)$").search  # json_format ends its sentences with Message.field
_base64 = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2,3}={0,2})?").fullmatch
_timestamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)").fullmatch
_PRECISION = 38  # that a confluent.type.Decimal says it has


@dataclass(frozen=True)
class ProtobufEncoder:
    """Encodes documents as messages of one type. `index`: the place of the type in its file, for framing."""

    message_class: Any
    index: bytes

    def encode(self, document: Any) -> bytes:
        """Return the message, without its index; the same bytes for the same document. Raises CannotEncode for a value
        that does not fit, and for a member that is no field.
        """
        if not isinstance(document, dict):
            raise CannotEncode(f"{shown(document)} is not an object")
        message = self.message_class()
        try:
            ParseDict(_of_message(document, message.DESCRIPTOR), message)
            return message.SerializeToString(deterministic=True)
        except CannotEncode:
            raise
        except RecursionError:
            raise CannotEncode("it is nested too deeply", quotes=False) from None
        except _MISFITS as wrong:
            raise _error(str(wrong), message.DESCRIPTOR) from None


def protobuf_encoder(writer: WriterSchema, record: str) -> ProtobufEncoder:
    """Return the encoder of the schema's message `record`; of the file's first message if that is empty.

    Raises ValueError for a schema without it, SchemaNotCompatible for one that does not compile.
    """
    for indexes, found in types_of(file_of(writer)).items():
        for of in found:
            if record in ("", of.full_name):
                return ProtobufEncoder(GetMessageClass(of), spellings(indexes)[0])
    raise ValueError(f"the schema has no message {record}")


def protobuf_text(writer: WriterSchema, text: str, *, alone: bool = True) -> bytes:
    """Return a message whose first text is `text`, with its index. Raises CannotEncode if the message has none, or has
    other fields though the text must be `alone`.
    """
    encoder = protobuf_encoder(writer, "")
    of: Descriptor = encoder.message_class.DESCRIPTOR
    found = next((one for one in of.fields if one.type == one.TYPE_STRING and not one.is_repeated), None)
    if found is None or (alone and len(of.fields) > 1):
        raise CannotEncode(f"{of.full_name} is not a message with a single string field", quotes=False)
    return encoder.index + encoder.encode({found.name: text})


def _of_message(value: Any, of: Descriptor) -> Any:
    """Return the value of a message as ProtoJSON, in which dates and decimals are objects."""
    if isinstance(value, str | int | Decimal) and not isinstance(value, bool) and of.full_name in _SHORT:
        return _SHORT[of.full_name](value)
    members = as_mapping(value)
    if members is None or of.full_name.startswith("google.protobuf."):  # these have a JSON of their own
        return _without_decimals(value)
    fields = {name: one for one in of.fields for name in (one.name, one.json_name)}
    if unknown := sorted(members.keys() - fields.keys()):
        known = ", ".join(one.name for one in of.fields) or "none"
        reason = f"the message {of.full_name} has no such field; its fields are: {known}"
        raise CannotEncode(reason, path=unknown[:1], quotes=False)
    if len({fields[name].number for name in members}) < len(members):
        raise CannotEncode("it has a field twice, under both of its names", quotes=False)
    return {name: _within(name, inner, fields[name]) for name, inner in members.items()}


def _within(name: str, value: Any, of: FieldDescriptor) -> Any:
    try:
        return value_of_field(value, of)
    except CannotEncode as wrong:
        raise wrong.within(name) from None


def value_of_field(value: Any, of: FieldDescriptor) -> Any:
    """Return a field's value as ProtoJSON. Raises CannotEncode."""
    items = as_list(value) if of.is_repeated else None
    if of.message_type is None:
        texts = [value] if items is None else items
        if of.type == of.TYPE_BYTES and any(isinstance(text, str) and not _base64(text) for text in texts):
            raise CannotEncode(f"{shown(value)} is not base64")  # json_format ignores what is none
        return _without_decimals(value)
    if of.message_type.GetOptions().map_entry:
        values, members = of.message_type.fields_by_name["value"], as_mapping(value)
        return _without_decimals(value) if members is None else {k: _within(k, v, values) for k, v in members.items()}
    return _of_message(value, of.message_type) if items is None else [_of_message(v, of.message_type) for v in items]


def _without_decimals(value: Any) -> Any:
    """Return the value with floats for decimals, which json_format does not know. Raises CannotEncode."""
    if isinstance(value, Decimal):
        number = float(value)
        if not isfinite(number):
            raise CannotEncode(f"{shown(value)} is out of range")
        return number
    if (members := as_mapping(value)) is not None:
        return {key: _without_decimals(inner) for key, inner in members.items()}
    items = as_list(value)
    return value if items is None else [_without_decimals(inner) for inner in items]


def _date(value: str | int | Decimal) -> Mapping[str, int]:
    try:
        day = date.fromisoformat(str(value))
    except ValueError:
        raise CannotEncode(f"{shown(value)} is not a date, such as 2026-01-31") from None
    return {"year": day.year, "month": day.month, "day": day.day}


def _of_timestamp(value: str | int | Decimal) -> str:
    if not isinstance(value, str) or not _timestamp(value):
        raise CannotEncode(f"{shown(value)} is not a timestamp, such as 2026-01-31T13:45:00.123Z")
    return value


def _decimal_bytes(value: str | int | Decimal) -> Mapping[str, Any]:
    sign, digits, exponent = _number(value).as_tuple()
    scale, power = max(0, -int(exponent)), max(0, int(exponent))
    if len(digits) + power > _PRECISION or scale > _PRECISION:
        raise CannotEncode(f"{shown(value)} has more than {_PRECISION} digits")
    unscaled = int("".join(map(str, digits))) * 10**power * (-1 if sign else 1)
    written = unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
    return {"value": base64.b64encode(written).decode(), "precision": _PRECISION, "scale": scale}


def _number(value: str | int | Decimal) -> Decimal:
    try:
        number = Decimal(value)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite():
        raise CannotEncode(f"{shown(value)} is not a number")
    return number


_SHORT: Mapping[str, Callable[[str | int | Decimal], Any]] = {
    "google.protobuf.Timestamp": _of_timestamp,
    "google.type.Date": _date,
    "google.type.Decimal": lambda value: {"value": str(_number(value))},
    "confluent.type.Decimal": _decimal_bytes,
}


def _error(message: str, of: Descriptor) -> CannotEncode:
    """Return json_format's error about a message of type `of`, which names the fields from the outermost on."""
    path = list[str]()
    while found := _in_field(message):
        path.append(found[1])
        message = found[2]
    if (at := _at(message)) is not None:
        path, message = at[1].split(".")[1:] or path, message[: at.start()]
    wanted = _wanted(path, of)
    return CannotEncode(message.rstrip(".") + (f"; the schema has {wanted} there" if wanted else ""), path=path)


def _wanted(path: Sequence[str], of: Descriptor | None) -> str:
    """Return the type of the field that the path leads to; empty if there is none."""
    found = None
    for name in path:
        plain = name.partition("[")[0]
        fields = () if of is None else of.fields
        found = next((one for one in fields if plain in (one.name, one.json_name)), None)
        of = found and found.message_type
    return "" if found is None else f"{KINDS[found.type]} {found.name}"
