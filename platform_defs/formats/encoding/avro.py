"""JSON documents as Avro messages, by a schema: each member of an object is the field of that name.

https://avro.apache.org/docs/1.12.0/specification/#data-serialization-and-deserialization
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from typing_extensions import override

from platform_defs.formats.avro import schema as avro
from platform_defs.formats.avro.parse_schema import parse_schema
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.encoding.avro_scalars import blocks, long_bytes, of_default, scalar
from platform_defs.formats.encoding.documents import CannotEncode, shown

_MAX_SYMBOLS = 10  # that an error lists
_NUMBERS = ("int", "long", "float", "double")


@dataclass(frozen=True)
class AvroEncoder:
    """Encodes documents by one schema. `root`: the record of a message; `branch`: its place in a union of records."""

    schema: avro.Schema
    root: avro.Record
    branch: int | None = None

    def encode(self, document: Any) -> bytes:
        """Return the message. Raises CannotEncode if a value does not fit, a field is missing that has neither a
        default nor null, or the schema has no field of a member's name.
        """
        try:
            body = self.value(self.root, document)
        except RecursionError:
            raise CannotEncode("it is nested too deeply", quotes=False) from None
        return body if self.branch is None else long_bytes(self.branch) + body

    def value(self, of: avro.AvroType, value: Any) -> bytes:
        """Return a value of any type. Raises CannotEncode."""
        found = self.schema.definite(of)
        match found:
            case avro.Union():
                return self.of_union(found, value)
            case avro.Record() if isinstance(value, dict):
                return self.of_record(found, cast("Mapping[str, Any]", value))
            case avro.Array() if isinstance(value, list):
                items = enumerate(cast("list[Any]", value))
                return blocks([self._within(place, found.items, item) for place, item in items])
            case avro.Map() if isinstance(value, dict):
                pairs = cast("Mapping[str, Any]", value).items()
                return blocks([_key(key) + self._within(key, found.values, item) for key, item in pairs])
            case avro.Enum() if value in found.symbols:
                return long_bytes(found.symbols.index(value))
            case avro.Primitive() | avro.Fixed():
                return self.scalar(found, value)
            case _:
                raise CannotEncode(f"{shown(value)} is not {_described(found)}")

    def _within(self, key: str | int, of: avro.AvroType, value: Any) -> bytes:
        try:
            return self.value(of, value)
        except CannotEncode as wrong:
            raise wrong.within(key) from None

    def of_record(self, of: avro.Record, members: Mapping[str, Any]) -> bytes:
        """Return a record. Raises CannotEncode for a member that is no field, or a field without value and default."""
        if unknown := sorted(members.keys() - of.types.keys()):
            fields = ", ".join(of.types) or "none"
            raise CannotEncode(f"{avro.spelled(of)} has no such field; its fields are: {fields}", quotes=False).within(
                unknown[0]
            )
        return b"".join(
            self._within(item.name, item.type, members[item.name]) if item.name in members else self.missing(item)
            for item in of.fields
        )

    def scalar(self, of: avro.Primitive | avro.Fixed, value: Any) -> bytes:
        """Return one value that has no parts. Raises CannotEncode."""
        return scalar(of, value)

    def missing(self, item: avro.RecordField) -> bytes:
        """Return a field that is not given: its default, else null. Raises CannotEncode if it has neither."""
        if item.default is not None:
            default = json.loads(item.default, parse_float=Decimal)
            return _Defaults(self.schema, self.root)._within(item.name, item.type, default)
        try:
            return self.value(item.type, None)
        except CannotEncode:
            wanted = avro.spelled(self.schema.definite(item.type))
            raise CannotEncode(f"it is missing; the schema requires {wanted}", quotes=False).within(item.name) from None

    def of_union(self, of: avro.Union, value: Any) -> bytes:
        """Return the value after the place of its branch.

        {"BRANCH": value} names the branch, as in Avro's JSON encoding. Any other value belongs to the one branch that
        takes it; a number to the first, or to double rather than float. Raises CannotEncode if several take it.
        """
        branches = [self.schema.definite(branch) for branch in of.branches]
        named = _by_name(value, branches)
        if named is not None:
            place, inner = named
            try:
                return long_bytes(place) + self._within(avro.name_of(branches[place]), branches[place], inner)
            except CannotEncode:
                if not any(isinstance(branch, avro.Map | avro.Record) for branch in branches):
                    raise  # else it may be a map or a record whose one member has that name
        others = [place for place, branch in enumerate(branches) if branch != avro.NULL]
        if value is not None and len(others) == 1:  # optional: the error is that of the type itself
            return long_bytes(others[0]) + self.value(branches[others[0]], value)
        found = dict[int, bytes]()
        for place, branch in enumerate(branches):
            with suppress(CannotEncode):
                found[place] = self.value(branch, value)
        if not found:
            raise CannotEncode(f"{shown(value)} does not fit any of {', '.join(map(avro.name_of, branches))}")
        place = _only({place: branches[place] for place in found})
        if place is None:
            several = [avro.name_of(branches[place]) for place in found]
            example = shown({several[0]: value})
            raise CannotEncode(f"{shown(value)} could be any of {', '.join(several)}: name the type, as in {example}")
        return long_bytes(place) + found[place]


class _Defaults(AvroEncoder):
    """Encodes defaults of the schema; for a union, as its first branch that takes it."""

    @override
    def of_record(self, of: avro.Record, members: Mapping[str, Any]) -> bytes:
        return super().of_record(of, {name: value for name, value in members.items() if name in of.types})

    @override
    def of_union(self, of: avro.Union, value: Any) -> bytes:
        for place, branch in enumerate(of.branches):
            with suppress(CannotEncode):
                return long_bytes(place) + self.value(branch, value)
        raise CannotEncode(f"the default {shown(value)} does not fit {avro.spelled(of)}")

    @override
    def scalar(self, of: avro.Primitive | avro.Fixed, value: Any) -> bytes:
        return of_default(of, value)


def avro_encoder(writer: WriterSchema, record: str) -> AvroEncoder:
    """Return the encoder of the schema's record `record`; of its first record if that is empty.

    Raises ValueError for a schema without it, NotAvro for one that cannot be read.
    """
    schema = parse_schema(writer.document, writer.references)
    for branch, found in schema.records(schema.root):
        if record in ("", found.name):
            return AvroEncoder(schema, found, branch)
    raise ValueError(f"the schema has no record {record}")


def avro_text(writer: WriterSchema, text: str) -> bytes:
    """Return a text by a schema that is a string. Raises CannotEncode if it is something else."""
    schema = parse_schema(writer.document, writer.references)
    return AvroEncoder(schema, avro.Record("", ())).value(schema.root, text)


def _by_name(value: Any, branches: list[avro.Definite]) -> tuple[int, Any] | None:
    """Return the place of the branch that {"BRANCH": value} names, and the value; None for any other value."""
    if not isinstance(value, dict):
        return None
    members = cast("Mapping[str, Any]", value)
    if len(members) != 1:
        return None
    ((name, inner),) = members.items()
    return next(((place, inner) for place, branch in enumerate(branches) if avro.name_of(branch) == name), None)


def _only(branches: Mapping[int, avro.Definite]) -> int | None:
    """Return the place of the branch to use, if several take a value; None if that is ambiguous."""
    numbers = {
        branch.name: place
        for place, branch in branches.items()
        if isinstance(branch, avro.Primitive) and branch.name in _NUMBERS and branch.logical is None
    }
    if len(branches) == 1 or len(numbers) == len(branches):
        first = min(branches)
        return numbers.get("double", first) if first == numbers.get("float") else first
    return None


def _key(key: str) -> bytes:
    return scalar(avro.Primitive("string"), key)


def _described(of: avro.Definite) -> str:
    if not isinstance(of, avro.Enum):
        return avro.spelled(of)
    more = ", ..." if len(of.symbols) > _MAX_SYMBOLS else ""
    return f"one of {', '.join(of.symbols[:_MAX_SYMBOLS])}{more} ({avro.spelled(of)})"
