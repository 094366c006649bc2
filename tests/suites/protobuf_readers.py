"""A Protobuf message through the block reader, the single reader and verify's reader, and through Google's upb.

upb is the parser of the package `protobuf` for Python.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.protobuf.decode import ProtobufReader
from platform_defs.verify.decoders.documents import NotTheType
from platform_defs.verify.decoders.protobuf import ProtobufValidator
from tests.suites.json_readers import Outcome, plain
from tests.suites.protobuf_cases import tag, varint
from tests.suites.protobuf_schema import contract, number, proto
from tests.unit.formats.protobuf.protobuf_messages import decoded, schema, type_of

GOOD = tag(number("single", "int32"), 0) + varint(7)  # a message beside those under test
_LARGEST = 2**63 - 1


@dataclass
class Upb:
    """Upb's result for a message."""

    refused: bool
    values: dict[str, Any] = field(default_factory=dict[str, Any])  # by column; json as parsed JSON
    departures: set[str] = field(default_factory=set[str])  # contents that Tidegate treats otherwise on purpose


def answer(request: tuple[str, Sequence[bytes], Sequence[str]]) -> list[tuple[Upb, dict[str, Outcome]]]:
    """Return, for each message of a syntax, the results of upb and of each of the readers named."""
    syntax, values, names = request
    found = [READERS[name](syntax, values) for name in names]
    return [
        (upb(syntax, value), dict(zip(names, outcomes, strict=True)))
        for value, *outcomes in zip(values, *found, strict=True)
    ]


@cache
def _reader(syntax: str) -> ProtobufReader:
    return ProtobufReader(contract(syntax), schema(proto(syntax)))


@cache
def _validator(syntax: str) -> ProtobufValidator:
    return ProtobufValidator(contract(syntax), proto(syntax))


def _read_block(syntax: str, values: Sequence[bytes]) -> list[Outcome]:
    """Return the outcomes of one block with each value between good messages, which stay rows."""
    found = decoded(_reader(syntax), [payload for value in values for payload in (value, GOOD)] + [GOOD] * 64)
    columns = [column.to_pylist() for column in found.rows.columns]
    rows: Any = zip(found.indexes.to_pylist(), zip(*columns, strict=True), strict=True)
    outcomes: dict[int, Outcome] = {index: tuple(map(plain, row)) for index, row in rows}
    outcomes |= {fault.index: fault.error_class for fault in found.faults}
    (good,) = _read_single(syntax, [GOOD])
    spoiled = [place for place in range(1, 2 * len(values) + 64, 2) if outcomes[place] != good]
    assert not spoiled, spoiled
    return [outcomes[2 * place] for place in range(len(values))]


def _read_single(syntax: str, values: Sequence[bytes]) -> list[Outcome]:
    read = (_reader(syntax).read_alone(value) for value in values)
    return [one.error_class if isinstance(one, Reason) else tuple(map(plain, one.values)) for one in read]


def _read_verify(syntax: str, values: Sequence[bytes]) -> list[Outcome]:
    found = list[Outcome]()
    for value in values:
        try:
            found.append(tuple(map(plain, _validator(syntax).values(value))))
        except NotTheType as why:
            found.append(str(why))
    return found


READERS = {"block": _read_block, "single": _read_single, "verify": _read_verify}


def upb(syntax: str, payload: bytes) -> Upb:
    """Parse the message, and return the values that the columns are to have."""
    try:
        message = GetMessageClass(type_of(proto(syntax), "M")).FromString(payload)
        found = Upb(refused=False, departures=set(_departures(message)))
        if not found.departures:
            mapped = MessageToDict(message, preserving_proto_field_name=True)
            found.values = {
                item.name: _value(message, item.path, item.type.kind, mapped) for item in contract(syntax).fields
            }
    except (DecodeError, UnicodeDecodeError) as wrong:
        return Upb(
            isinstance(wrong, DecodeError),
            departures={"InvalidUtf8"} if isinstance(wrong, UnicodeDecodeError) else set(),
        )
    return found


def _value(message: Any, path: Sequence[str], kind: str, mapped: dict[str, Any]) -> Any:
    for name in path[:-1]:
        if not message.HasField(name):
            return None
        message = getattr(message, name)
    of = message.DESCRIPTOR.fields_by_name[path[-1]]
    if of.is_repeated and kind != "json":
        return [_single(of, item) for item in getattr(message, of.name)]
    if of.has_presence and not message.HasField(of.name):
        return None
    if kind == "json":
        is_map = of.message_type.GetOptions().map_entry
        return mapped.get(of.name, ({} if is_map else []) if of.is_repeated else {})
    return _single(of, getattr(message, of.name))


def _single(of: FieldDescriptor, value: Any) -> Any:
    return of.enum_type.values_by_number[value].name if of.enum_type is not None else value


def _departures(message: Any, inside: bool = False) -> Iterator[str]:
    """Yield what a value has that no column takes, and what upb treats as unknown though the schema has it."""
    for one in UnknownFieldSet(message):
        if (of := message.DESCRIPTOR.fields_by_number.get(one.field_number)) is not None:
            yield from _set_aside(of, one)
    for of, value in message.ListFields():
        if of.is_extension:
            yield "Extension"
            continue
        is_map = of.message_type is not None and of.message_type.GetOptions().map_entry
        if is_map:
            yield from _of_map(of, value)
            continue
        for item in value if of.is_repeated else [value]:
            if of.message_type is not None:
                yield from _departures(item, inside=True)
            else:
                yield from _of_scalar(of, item, inside=inside)


def _of_map(of: FieldDescriptor, entries: Any) -> Iterator[str]:
    entry: Any = of.message_type
    of_key, of_value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    for key in entries:
        yield from _of_scalar(of_key, key, inside=True)
        if of_value.message_type is not None:
            yield from _departures(entries[key], inside=True)
        else:
            yield from _of_scalar(of_value, entries[key], inside=True)


def _of_scalar(of: FieldDescriptor, value: Any, *, inside: bool) -> Iterator[str]:
    """Yield a scalar's departures. `inside`: in a json column, where integers of 64 bits are texts."""
    if of.enum_type is not None:
        if value not in of.enum_type.values_by_number:
            yield "InvalidEnum"
    elif isinstance(value, str) and "\0" in value:
        yield "NulCharacter"
    elif isinstance(value, bytes) and of.type == FieldDescriptor.TYPE_STRING:  # upb's form of a text that is not UTF-8
        yield "InvalidUtf8"
    elif isinstance(value, float) and not isfinite(value):
        yield "NotFinite"
    elif isinstance(value, int) and value > _LARGEST and not inside:
        yield "OutOfRange"


def _set_aside(of: FieldDescriptor, one: Any) -> Iterator[str]:
    """Yield a closed enum's number without a name; a map entry with such a number, or with unknown fields."""
    is_map = of.message_type is not None and of.message_type.GetOptions().map_entry
    if is_map and one.wire_type == 2:
        yield "MapEntry"
    elif of.enum_type is not None and one.wire_type == 0:
        yield "InvalidEnum"
