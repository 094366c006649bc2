"""A Protobuf schema as fields of a contract: the inverse of schemas/conversion/protobuf.py, for all types of Protobuf.

A message within the message is flattened. A repeated field of single values is a column of arrays. Anything else
(other repeated fields, maps, messages that contain themselves) goes whole into a json column. Fields of proto3 are not
required: a message never says that it lacks one.
"""

from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from platform_defs.contract.model.message_path import MessagePath
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.formats.protobuf.fields import MESSAGES, SCALARS
from platform_defs.formats.protobuf.message_index import types_of
from platform_defs.formats.protobuf.shapes import KINDS
from platform_defs.schemas.conversion.found import FoundField, FoundMessage, within_limit

_WIDE = ("uint64", "fixed64")
_GUESSED = "decimal(38,9)"  # the message does not say how many digits its numbers have
_MESSAGES = {**MESSAGES, **dict.fromkeys(("google.type.Decimal", "confluent.type.Decimal"), _GUESSED)}
_MESSAGES_IN_ARRAYS = {name for name in _MESSAGES if not name.endswith("Value")}
_KEPT_WHOLE = "google.protobuf."  # Struct, Value, Any, Duration and so on
_DEEPEST = 90
Numbers = tuple[int, ...]


def from_protobuf(writer: WriterSchema, message: str = "") -> FoundMessage:
    """Return the fields of the message, or the file's first. Raises BadInput; Retryable if the compiler cannot run."""
    try:
        found = _message(writer, message)
    except SchemaNotCompatible as wrong:
        raise BadInput(f"the Protobuf schema cannot be read: {wrong}") from None
    open_ended = sorted(of.full_name for of in _within(found) if of.is_extendable)
    notes = (f"extensions of {', '.join(open_ended)} are not read, not even in json columns",) if open_ended else ()
    return FoundMessage(found.full_name, within_limit(_fields(found, (), (), (), required=True)), notes)


def _within(of: Descriptor) -> set[Descriptor]:
    """Return the message type, and all types that its fields lead to."""
    found, waiting = set[Descriptor](), [of]
    while waiting:
        if (here := waiting.pop()) not in found:
            found.add(here)
            waiting += [item.message_type for item in here.fields if item.message_type is not None]
    return found


def _message(writer: WriterSchema, wanted: str) -> Descriptor:
    file = file_of(writer)
    types = [of for found in types_of(file).values() for of in found]
    if not types:
        raise BadInput("the schema defines no message")
    fitting = [of for of in types if of.full_name == wanted] if wanted else types
    if not fitting:
        names = ", ".join(dict.fromkeys(of.full_name for of in types))
        raise BadInput(f"the schema does not define the message {wanted}; it has {names}")
    return fitting[0]


def _fields(
    of: Descriptor, path: MessagePath, numbers: Numbers, above: tuple[str, ...], *, required: bool
) -> Iterator[FoundField]:
    for item in of.fields:
        here, places = (*path, item.name), (*numbers, item.number)
        needed = required and item.is_required
        inner = None if item.is_repeated else item.message_type
        around = (*above, of.full_name)
        if inner is not None and (inner.full_name in _MESSAGES or inner.full_name.startswith(_KEPT_WHOLE)):
            inner = None
        if inner is not None and inner.full_name not in around and inner.fields and len(here) < _DEEPEST:
            yield from _fields(inner, here, places, around, required=needed)
        else:
            kind, note = _column(item)
            symbols = tuple(one.name for one in item.enum_type.values) if item.enum_type and kind == "string" else ()
            yield FoundField(path=here, type=kind, required=needed, numbers=places, note=note, symbols=symbols)


def _column(item: FieldDescriptor) -> tuple[str, str]:
    """Return the contract's type, and a note on what it does not carry."""
    kind, note = _single(item)
    message = item.message_type
    if not item.is_repeated:
        return kind, note
    if kind != "json" and (message is None or message.full_name in _MESSAGES_IN_ARRAYS):
        return f"array<{kind}>", f"each item: {note}" if note else ""
    what = "a map" if message is not None and message.GetOptions().map_entry else "a repeated field"
    return "json", f"{what}, whole"


def _single(item: FieldDescriptor) -> tuple[str, str]:
    kind, message = KINDS[item.type], item.message_type
    if message is not None:
        found = _MESSAGES.get(message.full_name)
        guess = f"a {message.full_name}, which does not define its digits: precision and scale are guesses"
        return found or "json", guess if found == _GUESSED else "" if found else f"a {message.full_name}, whole"
    if item.enum_type is not None:
        return "string", f"an enum of {', '.join(value.name for value in item.enum_type.values)}"
    if kind in _WIDE:
        return "integer", f"a {kind}: messages with one above 9223372036854775807 are dead letters"
    return SCALARS.get(kind, "json"), "" if kind in SCALARS else f"{kind}, whole"
