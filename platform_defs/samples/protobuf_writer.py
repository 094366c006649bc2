"""Writes messages, given as JSON documents, in Protobuf, by any schema that fits their contract."""

from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError

from platform_defs.contract.model.contract import Field
from platform_defs.formats.encoding.documents import CannotEncode, shown
from platform_defs.formats.encoding.protobuf import ProtobufEncoder, value_of_field
from platform_defs.formats.protobuf.resolve import field_at
from platform_defs.samples.values_at import ValuesAt

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
        of = found.message_type
        if of is not None and of.full_name == "google.type.Decimal" and not found.is_repeated:
            getattr(message, found.name).value = str(value)  # whatever it is: it may be a fault
        else:
            ParseDict({found.json_name: value_of_field(value, found)}, message)
    except _MISFITS as wrong:
        if not is_json:
            raise CannotEncode(f"{shown(value)} is not valid for {found.full_name}") from wrong
        message.ClearField(found.name)
