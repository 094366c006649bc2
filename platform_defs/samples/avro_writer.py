"""Writes messages that are given as JSON documents in Avro, by any schema that fits their contract.

https://avro.apache.org/docs/1.12.0/specification/#data-serialization-and-deserialization
"""

import base64
import binascii
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from platform_defs.contract.message_path import MessagePath
from platform_defs.formats.avro.parse_schema import parse_schema
from platform_defs.formats.avro.schema import (
    Array,
    AvroType,
    Definite,
    Enum,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    Schema,
    Union,
    spelled,
)
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.samples.values_at import MISSING, CannotWriteError, ValuesAt

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_EMPTY: tuple[Any, ...] = (None, [], {}, "", 0, False)
_LIMITS = {"int": 2**31, "long": 2**63}


@dataclass(frozen=True)
class AvroWriter:
    """Writes messages of one schema."""

    schema: Schema
    root: Record
    branch: int | None  # of the root, where it is a union

    def payload(self, values: ValuesAt) -> bytes:
        """The message. Raises CannotWriteError where a value does not fit the schema."""
        body = b"".join(self._fields(self.root, (), values))
        return body if self.branch is None else _long(self.branch) + body

    def _fields(self, record: Record, path: MessagePath, values: ValuesAt) -> Iterator[bytes]:
        for item in record.fields:
            here = (*path, item.name)
            yield self._field(item.type, here, values)

    def _field(self, of: AvroType, path: MessagePath, values: ValuesAt) -> bytes:
        found = values.at(path)
        if found is not MISSING:
            return self._value_or_empty(of, found, values.is_json(path))
        inner = self._record_in(of)
        if inner is None or (inner[1] is not None and not values.has_below(path)):
            return self.value(of, None)
        body = b"".join(self._fields(inner[0], path, values))
        return body if inner[1] is None else _long(inner[1]) + body

    def _record_in(self, of: AvroType) -> tuple[Record, int | None] | None:
        """The record that the type is, and which branch of a union."""
        found = self.schema.definite(of)
        branches = found.branches if isinstance(found, Union) else (found,)
        for number, branch in enumerate(branches):
            if isinstance(record := self.schema.definite(branch), Record):
                return record, number if isinstance(found, Union) else None
        return None

    def _value_or_empty(self, of: AvroType, value: Any, is_json: bool) -> bytes:
        """Of what a json column holds, any value will do: one that the schema does not take becomes an empty one."""
        try:
            return self.value(of, value)
        except CannotWriteError:
            if not is_json or value is None:
                raise
        for empty in _EMPTY:
            try:
                return self.value(of, empty)
            except CannotWriteError:
                continue
        raise CannotWriteError(f"{value!r} is not {spelled(self.schema.definite(of))}")

    def value(self, of: AvroType, value: Any) -> bytes:
        """One value. Raises CannotWriteError."""
        found = self.schema.definite(of)
        match found:
            case Union():
                return self._branch(found, value)
            case Record() if isinstance(value, dict):
                inner = cast("Mapping[str, Any]", value)
                return b"".join(self.value(item.type, inner.get(item.name)) for item in found.fields)
            case Array() if isinstance(value, list):
                return _blocks([self.value(found.items, one) for one in cast("list[Any]", value)])
            case Map() if isinstance(value, dict):
                pairs = cast("Mapping[str, Any]", value).items()
                return _blocks([_bytes(key.encode()) + self.value(found.values, one) for key, one in pairs])
            case Enum() if value in found.symbols:
                return _long(found.symbols.index(value))
            case Primitive() | Fixed():
                return _scalar(found, value)
            case _:
                raise CannotWriteError(f"{value!r} is not {spelled(found)}")

    def _branch(self, of: Union, value: Any) -> bytes:
        for number, branch in enumerate(of.branches):
            try:
                return _long(number) + self.value(branch, value)
            except CannotWriteError:
                continue
        raise CannotWriteError(f"{value!r} is none of {spelled(of)}")


def avro_writer(writer: WriterSchema, record: str) -> AvroWriter:
    """What writes the record of the schema, which is known to fit a contract."""
    schema = parse_schema(writer.document, writer.references)
    root = schema.definite(schema.root)
    branches = root.branches if isinstance(root, Union) else (root,)
    for number, branch in enumerate(branches):
        if isinstance(found := schema.definite(branch), Record) and record in ("", found.name):
            return AvroWriter(schema, found, number if isinstance(root, Union) else None)
    raise ValueError(f"the schema has no record {record}")


def text_key(writer: WriterSchema, key: str) -> bytes:
    """A key that is a text. Raises CannotWriteError where the schema is of something else."""
    schema = parse_schema(writer.document, writer.references)
    return AvroWriter(schema, Record("", ()), None).value(schema.root, key)


def _scalar(of: Definite, value: Any) -> bytes:
    logical = of.logical if isinstance(of, Primitive | Fixed) else None
    try:
        return _logical(logical, of, value) if logical else _plain(of, value)
    except (ValueError, TypeError, OverflowError, AttributeError, ArithmeticError, binascii.Error) as wrong:
        raise CannotWriteError(f"{value!r} is not {spelled(of)}") from wrong


def _plain(of: Definite, value: Any) -> bytes:
    name = of.name if isinstance(of, Primitive) else "fixed"
    match name:
        case "null" if value is None:
            return b""
        case "boolean" if isinstance(value, bool):
            return bytes([value])
        case "int" | "long" if isinstance(value, int | Decimal) and not isinstance(value, bool) and _is_whole(value):
            return _long(int(value), _LIMITS[name])
        case "float" | "double" if isinstance(value, int | Decimal) and not isinstance(value, bool):
            return struct.pack("<f" if name == "float" else "<d", float(value))
        case "string" if isinstance(value, str):
            return _bytes(value.encode())
        case "bytes" if isinstance(value, str):
            return _bytes(base64.b64decode(value, validate=True))
        case "fixed" if isinstance(of, Fixed) and isinstance(value, str):
            return _sized(base64.b64decode(value, validate=True), of.size)
        case _:
            raise TypeError(name)


def _is_whole(value: int | Decimal) -> bool:
    """Whether it is a whole number that a long may hold: to write out 1e1000000 takes seconds."""
    return abs(value) <= 2**63 and value == int(value)


def _logical(logical: Logical, of: Definite, value: Any) -> bytes:
    kind, _, unit = logical.name.rpartition("-")
    if logical.name == "decimal":
        number = int(Decimal(value).scaleb(logical.scale).to_integral_exact())
        if abs(number) >= 10**logical.precision or Decimal(number).scaleb(-logical.scale) != Decimal(value):
            raise ValueError(value)
        size = of.size if isinstance(of, Fixed) else (number.bit_length() + 8) // 8
        written = number.to_bytes(size, "big", signed=True)
        return written if isinstance(of, Fixed) else _bytes(written)
    if logical.name == "date":
        return _long(date.fromisoformat(value).toordinal() - _EPOCH_DAY)
    if logical.name == "uuid":
        return UUID(value).bytes if isinstance(of, Fixed) else _bytes(str(UUID(value)).encode())
    return _long(_ticks(kind, value, _PER_SECOND[unit]))


def _ticks(kind: str, value: str, per_second: int) -> int:
    """Of a timestamp since 1970, or of a time since midnight."""
    if kind == "time":
        at = time.fromisoformat(value)
        return (at.hour * 3600 + at.minute * 60 + at.second) * per_second + at.microsecond * per_second // 1_000_000
    since = datetime.fromisoformat(value).astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * per_second + since.microseconds * per_second // 1_000_000


def _long(number: int, limit: int = 2**63) -> bytes:
    if not -limit <= number < limit:
        raise ValueError(number)
    value, written = (number << 1) ^ (number >> 63), bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _sized(value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise ValueError(size)
    return value


def _blocks(items: list[bytes]) -> bytes:
    return (_long(len(items)) + b"".join(items) if items else b"") + b"\0"
