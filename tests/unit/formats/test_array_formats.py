"""Arrays of Avro and Protobuf in columns of arrays, and contracts with arrays as schemas and back."""

import json
import random
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.contract import Column, Contract, Table
from platform_defs.contract.reader.odcs import load
from platform_defs.formats.avro.decode import AvroReader
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema
from platform_defs.formats.encoding.messages import MessageSchemas
from platform_defs.formats.json.decode import decode
from platform_defs.formats.json.schema_fit import json_fit
from platform_defs.formats.protobuf.decode import ProtobufReader
from platform_defs.samples.encoded import EncodedSamples
from platform_defs.samples.samples import Samples
from platform_defs.schemas.conversion.avro import avro_schema
from platform_defs.schemas.conversion.exporting import json_schema
from platform_defs.schemas.conversion.importing import Wanted, import_schema, read_message
from platform_defs.schemas.conversion.protobuf import proto_text
from platform_defs.verify.decoders.avro import AvroValidator
from platform_defs.verify.decoders.documents import NotTheType
from platform_defs.verify.decoders.protobuf import ProtobufValidator
from tests.unit.formats.avro.avro_messages import Readers, encode, fixed, logical, record, writer
from tests.unit.formats.avro.avro_messages import contract_of as avro_contract
from tests.unit.formats.avro.test_avro_agreement import agree, mutated
from tests.unit.formats.json.test_decode_agreement import contract_of
from tests.unit.formats.protobuf.protobuf_messages import contract_of as protobuf_contract
from tests.unit.formats.protobuf.protobuf_messages import decoded as protobuf_decoded
from tests.unit.formats.protobuf.protobuf_messages import new as protobuf_new
from tests.unit.formats.protobuf.protobuf_messages import schema as protobuf_schema

ITEMS = [
    ("string", "string", [b"a", b""], ["a", ""]),
    ("integer", "int", [1, -5], [1, -5]),
    ("decimal(6,2)", "long", [12], [Decimal(12)]),
    ("timestamp", logical("long", "timestamp-millis"), [1_000], [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]),
    ("uuid", fixed(16, "U", logicalType="uuid"), [bytes(16)], ["00000000-0000-0000-0000-000000000000"]),
    ("boolean", ["null", "boolean"], [(1, True), (1, False)], [True, False]),
]


@pytest.mark.parametrize(("column", "items", "written", "wanted"), ITEMS, ids=[of[0] for of in ITEMS])
def test_an_array_of_avro_is_read_at_once_and_alone(column: str, items: Any, written: list[Any], wanted: Any) -> None:
    schema = record(a=["null", {"type": "array", "items": items}], z="int")
    readers = Readers(avro_contract({"a": f"array<{column}>", "z": "integer"}), schema)
    values: list[Any] = [{"a": (1, value), "z": 7} for value in (written, [], written * 3)] + [{"a": (0, None), "z": 7}]
    messages = [encode(schema, value) for value in values]
    assert agree(readers, messages) == 4
    assert readers.block(messages) == [(wanted, 7), ([], 7), (wanted * 3, 7), (None, 7)]


def test_an_item_of_avro_that_is_null_or_beyond_its_column_is_named() -> None:
    schema = record(a={"type": "array", "items": ["null", "long"]})
    readers = Readers(avro_contract({"a": "array<decimal(3,1)>"}), schema)
    outcomes = readers.single([encode(schema, {"a": items}) for items in ([(0, None)], [(1, 7), (1, 123)])])
    assert outcomes == ["NullItem", "OutOfRange"]
    many = encode(schema, {"a": [(1, 1)] * 10_001})
    assert readers.single([many]) == readers.verification([many]) == ["TooManyItems"]


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        ("string", "is a string; the contract's array<integer> is read from an array"),
        ({"type": "array", "items": "string"}, "is an array in which each item is a string; the contract's integer"),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, "is an array in which each item is an array"),
        ({"type": "array", "items": "null"}, "is an array whose items have no bytes"),
    ],
)
def test_another_type_of_avro_does_not_fit_an_array(of: Any, reason: str) -> None:
    schema = record(a=of)
    with pytest.raises(SchemaNotCompatible, match=re.escape(reason)):
        AvroReader(avro_contract({"a": "array<integer>"}), writer(schema))
    with pytest.raises(NotTheType, match="SchemaNotCompatible"):
        AvroValidator(avro_contract({"a": "array<integer>"}), json.dumps(schema))


SCALARS = ["string", "integer", "double", "boolean", "date", "timestamp", "uuid", "bytes", "decimal(9,2)"]


@pytest.mark.parametrize("items", SCALARS)
def test_a_contract_with_arrays_is_an_avro_and_a_json_schema_and_of_them_the_same_again(items: str) -> None:
    contract = avro_contract({"a": f"array<{items}>"})
    for written in (
        WriterSchema("1", "avro", avro_schema(contract), ()),
        WriterSchema("1", "json", json_schema(contract), ()),
    ):
        found = read_message(written, "").fields
        assert [item.type for item in found] == [f"array<{items}>"]


def test_arrays_whose_items_may_be_null_or_are_no_single_values_are_imported_as_json() -> None:
    for items in (["null", "string"], {"type": "array", "items": "int"}, record("R", b="int"), "null"):
        schema = json.dumps(record(a={"type": "array", "items": items}))
        assert [item.type for item in read_message(WriterSchema("1", "avro", schema, ()), "").fields] == ["json"]
    for items in ({"type": ["string", "null"]}, {"type": "object"}, {"type": "array"}, {"$ref": "#/a"}, True, None):
        given = json.dumps({"type": "object", "properties": {"a": {"type": "array", "items": items}}})
        assert [item.type for item in read_message(WriterSchema("1", "json", given, ()), "").fields] == ["json"]


def test_a_json_schema_of_something_else_than_an_array_never_fits() -> None:
    schema = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    fit = json_fit(contract_of({"a": "array<string>"}), WriterSchema("1", "json", schema, ()))
    assert fit.misfits == ("a is string; the contract requires array<string>",)


def test_made_up_arrays_are_rows_in_json_and_in_avro() -> None:
    types = {f"a{n}": f"array<{items}>" for n, items in enumerate([*SCALARS, "time"])}
    plain = contract_of(types)
    values = [sample.value for sample in Samples(with_table(plain), 1).good(40)]
    assert len(decode(plain, pa.array(values, pa.binary())).rows) == 40
    contract = replace(avro_contract(types), tables=with_table(plain).tables)
    made = EncodedSamples(contract, MessageSchemas(WriterSchema("1", "avro", avro_schema(contract), ())), 1)
    payloads = [(sample.value or b"")[5:] for sample in made.good(40)]
    readers = Readers(contract, json.loads(avro_schema(contract)))
    assert agree(readers, payloads) == 40


def test_made_up_arrays_are_rows_in_protobuf() -> None:
    plain = protobuf_contract({f"a{n}": f"array<{items}>" for n, items in enumerate([*SCALARS, "time"])})
    fields = tuple(replace(item, number=place) for place, item in enumerate(plain.fields, 1))
    contract = with_table(replace(plain, fields=fields))
    text = proto_text(contract)
    made = EncodedSamples(contract, MessageSchemas(WriterSchema("1", "protobuf", text, ())), 1)
    payloads = [(sample.value or b"")[6:] for sample in made.good(40)]
    assert len(protobuf_decoded(ProtobufReader(contract, protobuf_schema(text)), payloads).rows) == 40


def with_table(contract: Contract) -> Contract:
    columns = tuple(Column(item.name, item.type, required=False) for item in contract.fields)
    return replace(contract, tables=(Table("t.t", "append", columns, (), (), ()),))


REPEATED = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/type/date.proto";
enum State { NEW = 0; DONE = 1; }
message In { repeated int32 deep = 1; }
message M {
  repeated string text = 1;
  repeated sint64 number = 2;
  repeated string amount = 3;
  repeated google.protobuf.Timestamp at = 4;
  repeated google.type.Date day = 5;
  repeated State state = 6;
  repeated bool yes = 7 [packed = false];
  repeated bytes raw = 8;
  In inner = 9;
  map<string, int32> pairs = 10;
  string single = 11;
}
"""
REPEATED_COLUMNS = {
    "text": "array<string>",
    "number": "array<integer>",
    "amount": "array<decimal(6,2)>",
    "at": "array<timestamp>",
    "day": "array<date>",
    "state": "array<string>",
    "yes": "array<boolean>",
    "raw": "array<bytes>",
    "inner.deep": "array<double>",
}


def read_each_way(payloads: list[bytes]) -> list[Any]:
    """Return rows and error classes; all readers must agree about them."""
    contract = protobuf_contract(REPEATED_COLUMNS, "M")
    found: Any = protobuf_decoded(ProtobufReader(contract, protobuf_schema(REPEATED)), payloads)
    outcomes: dict[int, Any] = {fault.index: fault.error_class for fault in found.faults}
    rows = [tuple(row.values()) for row in found.rows.to_pylist()]
    outcomes |= dict(zip(found.indexes.to_pylist(), rows, strict=True))
    in_order = [outcomes[number] for number in range(len(payloads))]
    validator = ProtobufValidator(contract, REPEATED)
    assert [validated(validator, payload) for payload in payloads] == in_order
    return in_order


def validated(validator: ProtobufValidator, payload: bytes) -> Any:
    try:
        return tuple(validator.values(payload))
    except NotTheType as wrong:
        return str(wrong)


def repeated_message() -> Any:
    message = protobuf_new(REPEATED, "M", text=["a", ""], number=[1, -5], amount=["1.50"], state=[1, 0], yes=[True])
    message.at.add(seconds=1)
    message.day.add(year=2026, month=11, day=1)
    message.raw.append(b"x")
    message.inner.deep.extend([1, 2])
    return message


def test_repeated_fields_of_protobuf_are_arrays() -> None:
    good = repeated_message().SerializeToString()
    at, day = [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], [date(2026, 11, 1)]
    row = (["a", ""], [1, -5], [Decimal("1.50")], at, day, ["DONE", "NEW"], [True], [b"x"], [1.0, 2.0])
    assert read_each_way([good, b"", good]) == [row, (*[[]] * 8, None), row]


def test_an_item_of_protobuf_that_is_no_value_makes_a_dead_letter() -> None:
    wrong = {
        "NulCharacter": {"text": ["a", "\0"]},
        "TooManyDecimals": {"amount": ["1", "1.555"]},
        "WrongType": {"amount": [""]},
        "InvalidEnum": {"state": [7]},
        "TooManyItems": {"yes": [True] * 10_001},
    }
    payloads = [protobuf_new(REPEATED, "M", **values).SerializeToString() for values in wrong.values()]
    assert read_each_way([*payloads, b""])[:-1] == list(wrong)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_damaged_arrays_of_protobuf_are_the_same_to_all_readers(seed: int) -> None:
    rng, good = random.Random(seed), repeated_message().SerializeToString()
    read_each_way([mutated(good, rng) for _ in range(20)])


@pytest.mark.parametrize("path", ["single", "pairs", "number", "inner"])
def test_another_field_of_protobuf_does_not_fit_an_array(path: str) -> None:
    contract = protobuf_contract({path: "array<string>"}, "M")
    with pytest.raises(SchemaNotCompatible, match="which cannot be read as array<string>"):
        ProtobufReader(contract, protobuf_schema(REPEATED))
    with pytest.raises(NotTheType, match="SchemaNotCompatible"):
        ProtobufValidator(contract, REPEATED)


def test_a_contract_with_arrays_is_a_protobuf_schema_and_of_it_the_same_again() -> None:
    types = {"text": "array<string>", "n": "array<integer>", "r": "array<double>", "at": "array<timestamp>"}
    contract = protobuf_contract(types)
    numbered = tuple(replace(item, number=place) for place, item in enumerate(contract.fields, 1))
    written = proto_text(replace(contract, fields=numbered))
    assert "repeated google.protobuf.Timestamp at = 4;" in written
    found = read_message(WriterSchema("1", "protobuf", written, ()), "").fields
    assert [item.type for item in found] == list(types.values())


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_a_contract_that_is_imported_with_arrays_loads(kind: Any) -> None:
    types = {"a": "array<decimal(9,2)>", "b": "array<timestamp>"}
    written = (avro_schema if kind == "avro" else json_schema)(avro_contract(types))
    made = import_schema(WriterSchema("1", kind, written), Wanted(subject="shop.orders-value"))
    contract = load(Path("shop.odcs.yaml"), made.text)
    assert {item.name: item.type.name for item in contract.fields} == types
    assert contract.row_table.columns[0].type.postgres == "numeric(9,2)[]"
