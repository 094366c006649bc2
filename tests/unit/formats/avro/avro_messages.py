"""Avro for tests: random schemas and messages of them, written by an encoder of the tests' own, and all three readers.

A value is written raw: an int for a date, bytes for a decimal, (branch, value) for a union.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field, WireFormat
from platform_defs.contract.model.message_path import parse_path
from platform_defs.formats.avro.block import read_block
from platform_defs.formats.avro.decode import AvroReader
from platform_defs.formats.avro.resolve import resolve
from platform_defs.formats.avro.single import MessageReader
from platform_defs.formats.blocks.arrow import integers
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.decoded import Decoded, Row
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.verify.decoders.avro import AvroValidator
from platform_defs.verify.decoders.documents import NotTheType


def contract_of(types: dict[str, str], required: Sequence[str] = (), record: str = "", **paths: str) -> Contract:
    """Return a contract with a column of each type, by name; `paths` are physicalNames."""
    fields = tuple(
        Field(name, column_type(of), name in required, (), physical_path=parse_path(paths.get(name, name)))
        for name, of in types.items()
    )
    return Contract("p", "1", "d", "", "t", "avro", fields, tables=(), wire=WireFormat(record=record))


def writer(schema: Any, references: tuple[tuple[str, str], ...] = ()) -> WriterSchema:
    return WriterSchema("1", "avro", json.dumps(schema), references)


def record(name: str = "M", /, **fields: Any) -> dict[str, Any]:
    """Return a record's schema."""
    return {"type": "record", "name": name, "fields": [{"name": key, "type": of} for key, of in fields.items()]}


def logical(kind: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def varint(value: int) -> bytes:
    """Return the value as a zigzag varint."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def encode(schema: Any, value: Any, named: dict[str, Any] | None = None) -> bytes:
    """Return the value as Avro writes it."""
    named = {} if named is None else named
    of: Any = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(of, list):
        branch, inner = value
        return varint(branch) + encode(of[branch], inner, named)
    kind = of["type"] if isinstance(of, dict) else of
    if isinstance(of, dict) and "name" in of:
        named[of["name"]] = of
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long" | "enum":
            return varint(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "string":
            return encode("bytes", value.encode() if isinstance(value, str) else value)
        case "bytes":
            return varint(len(value)) + value
        case "fixed":
            return value
        case "array":
            return _blocks([encode(of["items"], item, named) for item in value])
        case "map":
            return _blocks([encode("string", key) + encode(of["values"], item, named) for key, item in value])
        case _:
            return b"".join(encode(item["type"], value[item["name"]], named) for item in of["fields"])


def _blocks(items: list[bytes]) -> bytes:
    """Return the items in one block; of four or more, the first two in a block of their own that gives its size."""
    first = b"".join(items[:2])
    sized = varint(-2) + varint(len(first)) + first if len(items) > 3 else b""
    rest = items[2:] if sized else items
    return sized + (varint(len(rest)) + b"".join(rest) if rest else b"") + b"\0"


# Random schemas

TEXT = st.text(max_size=5) | st.text("\0aé", max_size=2)
UUIDS = st.uuids().map(str) | st.uuids().map(lambda one: str(one).upper())
INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
DAYS, MICROS = st.integers(-719_200, 2_932_900), st.integers(-63_000_000_000_000_000, 254_000_000_000_000_000)
FLOATS = st.floats(width=32)
SMALL_BYTES = st.binary(max_size=6) | st.binary(max_size=20)


def fixed(size: int, name: str, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


DECIMAL = {"logicalType": "decimal", "precision": 12, "scale": 2}
SCALARS: list[tuple[Any, st.SearchStrategy[Any], list[str]]] = [
    ("string", TEXT, ["string"]),
    (logical("string", "uuid"), TEXT | UUIDS, ["string", "uuid"]),
    ("string", UUIDS | TEXT, ["uuid", "string"]),
    (fixed(16, "U16", logicalType="uuid"), st.binary(min_size=16, max_size=16), ["uuid"]),
    (logical("int", "time-millis"), st.integers(-1, 86_400_001) | INT, ["time"]),
    (logical("long", "time-micros"), st.integers(-1, 86_400_000_001) | LONG, ["time"]),
    ("bytes", SMALL_BYTES, ["bytes"]),
    (fixed(3, "B3"), st.binary(min_size=3, max_size=3), ["bytes"]),
    (fixed(0, "B0"), st.just(b""), ["bytes"]),
    ("int", INT, ["integer", "double", "decimal(12,2)", "decimal(38,0)"]),
    ("long", LONG | INT, ["integer", "decimal(12,2)", "decimal(38,19)", "decimal(3,3)"]),
    ("float", FLOATS, ["double"]),
    ("double", st.floats(), ["double"]),
    ("boolean", st.booleans(), ["boolean"]),
    (logical("int", "date"), DAYS | INT, ["date"]),
    (logical("long", "timestamp-micros"), MICROS | LONG, ["timestamp"]),
    (logical("long", "timestamp-millis"), st.integers(-(10**14), 10**15) | LONG, ["timestamp"]),
    (logical("long", "timestamp-nanos"), INT.map(lambda n: n * 1000) | LONG, ["timestamp"]),
    ({"type": "bytes", **DECIMAL}, SMALL_BYTES, ["decimal(12,2)", "decimal(14,0)", "decimal(38,38)", "decimal(38,4)"]),
    ({"type": "bytes", **DECIMAL, "scale": 0}, SMALL_BYTES, ["decimal(38,0)", "decimal(1,0)", "decimal(38,20)"]),
    (fixed(5, "F5", **DECIMAL), st.binary(min_size=5, max_size=5), ["decimal(12,2)", "decimal(5,1)"]),
    (fixed(16, "F16", **DECIMAL), st.binary(min_size=16, max_size=16), ["decimal(38,2)", "decimal(38,1)"]),
    ({"type": "enum", "name": "E", "symbols": ["A", "é", "C"]}, st.integers(0, 2), ["string"]),
]
OTHERS: list[tuple[Any, st.SearchStrategy[Any], list[str]]] = [
    ("null", st.none(), ["json"]),
    ("bytes", SMALL_BYTES, ["json"]),
    (fixed(3, "F3"), st.binary(min_size=3, max_size=3), ["json"]),
    (fixed(0, "F0"), st.just(b""), ["json"]),
    (fixed(16, "U", logicalType="uuid"), st.binary(min_size=16, max_size=16), ["json"]),
    (logical("int", "time-millis"), st.integers(-1, 86_400_001), ["json"]),
    (logical("long", "time-micros"), st.integers(-1, 86_400_000_001), ["json"]),
    (logical("long", "local-timestamp-micros"), MICROS, ["json"]),
    (record("Nothing"), st.just({}), ["json"]),
]


@dataclass(frozen=True)
class Typed:
    """A type with values of it, and the contract's types that can be read from it."""

    schema: Any
    values: st.SearchStrategy[Any]
    columns: list[str]
    inner: Mapping[str, "Typed"] = field(default_factory=dict)  # the fields of a record, nullable or not


def _renamed(schema: Any, number: int) -> Any:
    """Return the schema under a name of its own, if it has one: a name is defined once."""
    return {**schema, "name": f"{schema['name']}_{number}"} if isinstance(schema, dict) and "name" in schema else schema


@st.composite
def types(draw: st.DrawFn, names: list[int], depth: int = 0) -> Typed:
    """Return a type of any kind."""
    kind = draw(st.sampled_from(["scalar", "scalar", "scalar", "other", "null", "array", "map", "union", "record"]))
    if depth > 2 or kind in ("scalar", "other"):
        schema, values, columns = draw(st.sampled_from(SCALARS if kind == "scalar" else OTHERS))
        names.append(len(names))
        return Typed(_renamed(schema, len(names)), values, [*columns, "json"])
    if kind == "record":
        fields = [draw(types(names, depth + 1)) for _ in range(draw(st.integers(1, 3)))]
        names.append(len(names))
        named = {f"f{n}": item for n, item in enumerate(fields)}
        schema = record(f"R{len(names)}", **{name: item.schema for name, item in named.items()})
        values = st.fixed_dictionaries({name: item.values for name, item in named.items()})
        return Typed(schema, values, ["json"], named)
    inner = draw(types(names, depth + 1).filter(lambda item: not isinstance(item.schema, list)))
    if kind == "array":
        return _array(draw, inner)
    if kind == "map":
        pairs = st.lists(st.tuples(TEXT, inner.values), max_size=5)
        return Typed({"type": "map", "values": inner.schema}, pairs, ["json"])
    return _union(draw, inner, names, depth, kind)


def _array(draw: st.DrawFn, inner: Typed) -> Typed:
    """Return an array, sometimes of items that may be null; its columns are arrays of the items' columns, or json."""
    columns = [f"array<{of}>" for of in inner.columns if of != "json" and "array" not in of]
    if isinstance(inner.schema, dict) and inner.schema.get("size") == 0:
        columns = []  # items without a byte: not known to be few
    schema, values = inner.schema, inner.values
    if columns and draw(st.booleans()):
        schema, values = ["null", schema], st.just((0, None)) | values.map(lambda value: (1, value))
    return Typed({"type": "array", "items": schema}, st.lists(values, max_size=5), [*columns, *columns, "json"])


def _union(draw: st.DrawFn, inner: Typed, names: list[int], depth: int, kind: str) -> Typed:
    branches = [inner] if inner.schema == "null" else [inner, Typed("null", st.none(), [])]
    if kind == "union":
        branches.append(draw(types(names, depth + 1).filter(lambda item: not isinstance(item.schema, list))))
    branches = draw(st.permutations(branches))
    values = st.one_of([st.tuples(st.just(n), item.values) for n, item in enumerate(branches)])
    columns = inner.columns if kind == "null" and inner.schema != "null" else ["json"]
    return Typed([item.schema for item in branches], values, columns, inner.inner if kind == "null" else {})


@dataclass(frozen=True)
class Case:
    """A writer's schema, a contract that it resolves to, and values of the record."""

    schema: Any
    contract: Contract
    values: st.SearchStrategy[Any]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return a case: some fields go into columns, some are passed; fields within records may go into columns too."""
    names = list[int]()
    fields = {f"c{n}": draw(types(names)) for n in range(draw(st.integers(1, 5)))}
    kinds, paths = dict[str, str](), dict[str, str]()
    for name, item in fields.items():
        if draw(st.integers(0, 3)):
            kinds[name] = draw(st.sampled_from(item.columns))
        if draw(st.booleans()):
            for key, inner in item.inner.items():
                kinds[f"{name}_{key}"] = draw(st.sampled_from(inner.columns))
                paths[f"{name}_{key}"] = f"{name}.{key}"
    schema = record("Message", **{name: item.schema for name, item in fields.items()})
    kinds = kinds or {"missing": "string"}
    return Case(schema, contract_of(kinds, **paths), st.fixed_dictionaries({n: i.values for n, i in fields.items()}))


# The readers


def laid_out(messages: Sequence[bytes], gap: int = 0) -> tuple[Any, Any, Any]:
    """Return data, starts and stops: each message is behind `gap` bytes, as behind a frame."""
    data = b"".join(b"\xff" * gap + message for message in messages)
    lengths = np.array([len(message) for message in messages], np.int64)
    stops = np.cumsum(lengths + gap, dtype=np.int64)
    return data, stops - lengths, stops


def decode(contract: Contract, schema: Any, messages: Sequence[bytes], **more: Any) -> Decoded:
    """Return the block reader's result for the messages."""
    return AvroReader(contract, writer(schema, **more)).read(*laid_out(messages))


Outcome = tuple[Any, ...] | str  # a row, or the class of the reason


class Readers:
    """All readers of one schema into one contract."""

    def __init__(self, contract: Contract, schema: Any) -> None:
        self.contract, self.writer = contract, writer(schema)
        self.plan = resolve(contract, self.writer)
        self.single_reader = MessageReader(self.plan)
        self.validator = AvroValidator(contract, self.writer.document)

    def single(self, messages: Sequence[bytes]) -> list[Outcome]:
        found = [self.single_reader.read(message) for message in messages]
        return self._outcomes(found)

    def _outcomes(self, found: list[Row | Reason]) -> list[Outcome]:
        rows = [item.values for item in found if isinstance(item, Row)]
        columns: list[Any] = [
            pa.array([row[n] for row in rows], item.type.arrow) for n, item in enumerate(self.contract.fields)
        ]
        values = iter(zip(*(column.to_pylist() for column in columns), strict=True))
        return [item.error_class if isinstance(item, Reason) else next(values) for item in found]

    def verification(self, messages: Sequence[bytes]) -> list[Outcome]:
        return [self._validated(message) for message in messages]

    def _validated(self, message: bytes) -> Outcome:
        try:
            return tuple(self.validator.values(message))
        except NotTheType as wrong:
            return str(wrong)

    def block(self, messages: Sequence[bytes], gap: int = 0) -> list[Outcome | None]:
        """Return the outcomes; None for a message in doubt."""
        data, starts, stops = laid_out(messages, gap)
        columns, doubtful = read_block(self.plan, data, starts, stops, Budget(len(starts)))
        sure: Any = pa.array(~doubtful)
        rows = zip(*(column.filter(sure).to_pylist() for column in columns), strict=True)
        return [None if doubt else next(rows) for doubt in doubtful]

    def decoded(self, messages: Sequence[bytes]) -> list[Outcome]:
        decoded = AvroReader(self.contract, self.writer).read(*laid_out(messages))
        outcomes: dict[int, Outcome] = {fault.index: fault.error_class for fault in decoded.faults}
        rows = zip(*(column.to_pylist() for column in decoded.rows.columns), strict=True)
        outcomes |= dict(zip(integers(decoded.indexes), rows, strict=True))
        return [outcomes[n] for n in range(len(messages))]
