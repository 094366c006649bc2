"""Writes messages, given as JSON documents, in Protobuf, by any schema that fits their contract."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError

from platform_defs.contract.model.contract import Field
from platform_defs.formats.encoding.documents import CannotEncode, shown
from platform_defs.formats.encoding.protobuf import ProtobufEncoder, without_decimals
from platform_defs.formats.protobuf.resolve import field_at
from platform_defs.samples.values_at import ValuesAt
from platform_defs.times import EPOCH

_MISFITS = (ValueError, TypeError, OverflowError, AttributeError, ArithmeticError, ParseError)


@dataclass(frozen=True)
class ProtobufWriter:
    """Writes messages of one type."""

    encoder: ProtobufEncoder

    def payload(self, values: ValuesAt) -> bytes:
        """Return the message, without its index. Raises CannotEncode if a value does not fit the schema."""
        message = self.encoder.message_class()
        for path, item in values.places.fields.items():
            if path != item.path:  # an alias of it
                continue
            value = values.of(item)
            if value is not None:
                _put(message, item, value)
        return message.SerializeToString(deterministic=True)


def _put(message: Any, item: Field, value: Any) -> None:
    """Set the field of `message` that the contract's field reads, at any depth."""
    for path in (item.path, *item.aliases):
        here = message
        for depth, name in enumerate(path, 1):
            found = field_at(here.DESCRIPTOR, name, item.number if depth == len(path) else None)
            if found is None:
                break
            if depth == len(path):
                _set(here, found, value, is_json=item.type.kind == "json")
                return
            here = getattr(here, found.name)


def _set(message: Any, found: FieldDescriptor, value: Any, *, is_json: bool) -> None:
    """Set a field. A value of a json column is omitted if the schema does not take it. Raises CannotEncode."""
    try:
        if found.message_type is not None and not found.is_repeated:
            _set_message(getattr(message, found.name), found.message_type, value)
        else:
            ParseDict({found.json_name: without_decimals(value)}, message)
    except _MISFITS as wrong:
        if not is_json:
            raise CannotEncode(f"{shown(value)} is not valid for {found.full_name}") from wrong
        message.ClearField(found.name)


def _set_message(message: Any, of: Descriptor, value: Any) -> None:
    message.SetInParent()
    match of.full_name:
        case "google.protobuf.Timestamp":
            since = datetime.fromisoformat(value).astimezone(UTC) - EPOCH
            message.seconds = since.days * 86_400 + since.seconds
            message.nanos = since.microseconds * 1_000
        case "google.type.Date":
            day = date.fromisoformat(value)
            message.year, message.month, message.day = day.year, day.month, day.day
        case "google.type.Decimal":
            message.value = str(value)
        case "confluent.type.Decimal":
            number = Decimal(value)
            message.precision, message.scale = 38, max(0, -int(number.as_tuple().exponent))
            unscaled = int(number.scaleb(message.scale))
            message.value = unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
        case _:
            ParseDict(without_decimals(value), message)
