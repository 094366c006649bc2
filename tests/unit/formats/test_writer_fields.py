"""The fields of writers' schemas, and the lines with which a contract would read those it does not know."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import JSON as JSON_COLUMN
from platform_defs.contract.model.column_types import STRING, column_type
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.message_path import spell_path
from platform_defs.contract.reader.odcs import load
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterField, WriterSchema
from platform_defs.formats.writer_fields import MAX_FIELDS, difference, doubts, fields_of, line_to_add
from platform_defs.formats.writer_fit import why_not
from platform_defs.schemas.conversion.exporting import export_schema
from tests.unit.formats.avro.avro_messages import Case, cases
from tests.unit.formats.protobuf.test_protobuf_random_schemas import made_up

MICROS = {"type": "long", "logicalType": "timestamp-micros"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}
PARTY = {"type": "record", "name": "Party", "fields": [{"name": "iban", "type": "string"}]}
AVRO = {
    "type": "record",
    "name": "bank.Transfer",
    "fields": [
        {"name": "transfer_id", "type": "string"},
        {"name": "amount", "type": MONEY},
        {"name": "occurredAt", "type": MICROS},
        {"name": "payer", "type": ["null", PARTY]},
        {"name": "fee", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "channel", "type": {"type": "enum", "name": "Channel", "symbols": ["APP"]}},
        {"name": "request", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "cut_off", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "seal", "type": "bytes"},
    ],
}
PROTOBUF = """
syntax = "proto3";
package bank;
import "google/protobuf/timestamp.proto";
message Other { string x = 1; }
message Transfer {
  string transfer_id = 1;
  string amount = 2;
  google.protobuf.Timestamp occurred_at = 3;
  Party payer = 4;
  repeated string tags = 5;
  optional sint32 fee = 6;
  message Party { string home_iban = 1; }
}
"""
JSON = {
    "type": "object",
    "required": ["transfer_id", "payer"],
    "properties": {
        "transfer_id": {"type": "string"},
        "amount": {"type": "number"},
        "occurred_at": {"type": ["string", "null"], "format": "date-time"},
        "payer": {"type": "object", "properties": {"iban": {"type": "string"}}},
        "tags": {"type": "array"},
    },
}
CONTRACT = """
apiVersion: v3.1.0
kind: DataContract
id: bank_transfers
version: 1.0.0
domain: bank
servers: [{server: kafka, type: kafka, format: %s}]
schema:
  - physicalType: topic
    physicalName: bank.transfers
    properties:
      - {name: transfer_id, logicalType: string, required: true}
      - {name: amount, logicalType: number, physicalType: 'decimal(18,2)', required: true}
      - {name: memo, logicalType: string}
%s
  - physicalType: table
    physicalName: bank.t
    customProperties: [{property: disposition, value: append}]
    properties: [{name: transfer_id, logicalType: string}]
"""


def contract(tmp_path: Path, kind: str = "avro", lines: str = "") -> Contract:
    path = tmp_path / "t.odcs.yaml"
    path.write_text(CONTRACT % (kind, "".join(f"      {line}\n" for line in lines.splitlines())))
    return load(path)


def avro(fields: object = None, name: str = "bank.Transfer") -> WriterSchema:
    document = AVRO if fields is None else {"type": "record", "name": name, "fields": fields}
    return WriterSchema("1", "avro", json.dumps(document))


WRITERS = {
    "avro": avro(),
    "protobuf": WriterSchema("1", "protobuf", PROTOBUF),
    "json": WriterSchema("1", "json", json.dumps(JSON)),
}
SHOWN = {
    "avro": [
        ("transfer_id", "string", False),
        ("amount", "bytes (decimal(20,3))", False),
        ("occurredAt", "long (timestamp-micros)", False),
        ("payer.iban", "string", True),
        ("fee", "bytes (decimal(9,2))", True),
        ("tags", "array of string", False),
        ("channel", "enum bank.Channel", False),
        ("request", "string (uuid)", False),
        ("cut_off", "int (time-millis)", False),
        ("seal", "bytes", False),
    ],
    "protobuf": [
        ("transfer_id", "string", False),
        ("amount", "string", False),
        ("occurred_at", "google.protobuf.Timestamp", True),
        ("payer.home_iban", "string", True),
        ("tags", "repeated string", False),
        ("fee", "sint32", True),
    ],
    "json": [
        ("transfer_id", "string", False),
        ("amount", "number", True),
        ("occurred_at", "string (date-time)", True),
        ("payer.iban", "string", True),
        ("tags", "array", True),
    ],
}


@pytest.mark.parametrize("kind", list(WRITERS))
def test_the_fields_of_a_schema_are_named_by_their_paths(kind: str) -> None:
    found = fields_of(WRITERS[kind], "" if kind == "json" else "bank.Transfer")
    assert [(spell_path(item.path), item.type, item.optional) for item in found] == SHOWN[kind]


@pytest.mark.parametrize("kind", list(WRITERS))
def test_the_lines_to_add_make_a_contract_that_knows_every_field(kind: str, tmp_path: Path) -> None:
    fields = fields_of(WRITERS[kind], "" if kind == "json" else "bank.Transfer")
    found = difference(contract(tmp_path, kind), fields)
    assert [item.name for item in found.missing] == ["memo"]
    lines = [line_to_add(item) for item in found.unknown]
    assert len(lines) == len(fields) - 2
    assert None not in lines
    complete = contract(tmp_path, kind, "\n".join(map(str, lines)))
    assert difference(complete, fields).unknown == ()


def test_a_line_to_add_names_the_type_that_takes_every_value(tmp_path: Path) -> None:
    unknown = difference(contract(tmp_path), fields_of(avro())).unknown
    assert [line_to_add(item) for item in unknown] == [
        "- {name: occurred_at, physicalName: occurredAt, logicalType: timestamp}",
        "- {name: payer_iban, physicalName: payer.iban, logicalType: string}",
        '- {name: fee, logicalType: number, physicalType: "decimal(9,2)"}',
        '- {name: tags, logicalType: array, physicalType: "array<string>"}',
        "- {name: channel, logicalType: string}",
        "- {name: request, logicalType: string, physicalType: uuid}",
        "- {name: cut_off, logicalType: time}",
        "- {name: seal, logicalType: string, physicalType: bytes}",
    ]


def test_a_union_of_one_type_is_shown_as_that_type() -> None:
    fields = [{"name": "when", "type": [MICROS]}, {"name": "tags", "type": {"type": "array", "items": ["string"]}}]
    schema = {"type": "record", "name": "R", "fields": fields}
    when, tags = fields_of(WriterSchema("1", "avro", json.dumps(schema)))
    assert (when.type, when.reads_as, when.optional) == ("long (timestamp-micros)", column_type("timestamp"), False)
    assert tags.reads_as == column_type("array<string>")


@pytest.mark.parametrize("name", ["no", "on", "y", "null", "Off"])
def test_a_line_to_add_is_read_alike_by_every_yaml(name: str) -> None:
    line = line_to_add(WriterField((name,), "string", False, column_type("string")))
    assert line is not None
    (read,) = yaml.safe_load(line)
    assert (read["name"], read.get("physicalName", name)) == (name.lower(), name)


def test_a_field_is_known_by_alias_by_number_by_its_name_in_json_and_within_a_json_column(tmp_path: Path) -> None:
    lines = """- {name: who, physicalName: payer.homeIban, logicalType: string}
- {name: labels, physicalName: labels, logicalType: object, physicalType: json, customProperties: [
    {property: aliases, value: [tags]}]}
- {name: cost, logicalType: integer, customProperties: [{property: fieldNumber, value: 6}]}"""
    known = contract(tmp_path, "protobuf", lines)
    unknown = difference(known, fields_of(WRITERS["protobuf"], "bank.Transfer")).unknown
    assert [item.path for item in unknown] == [("occurred_at",)]
    whole = contract(tmp_path, "avro", "- {name: payer, logicalType: object, physicalType: json}")
    assert ("payer", "iban") not in [item.path for item in difference(whole, fields_of(avro())).unknown]


def test_values_that_may_not_fit_are_told(tmp_path: Path) -> None:
    lines = "- {name: occurred_at, logicalType: timestamp}"
    nullable = [{"name": "transfer_id", "type": ["null", "string"]}, {"name": "amount", "type": MONEY}]
    nanos = [{"name": "occurred_at", "type": {"type": "long", "logicalType": "timestamp-nanos"}}]
    assert doubts(contract(tmp_path, lines=lines), fields_of(avro([*nullable, *nanos]))) == (
        "transfer_id is required by the contract, but string may be missing in a message",
        "amount is bytes (decimal(20,3)), and the contract's decimal(18,2) cannot hold all of its values",
        "occurred_at is long (timestamp-nanos), but a timestamp keeps only microseconds",
    )
    items = [{"name": "tags", "type": {"type": "array", "items": ["null", "string"]}}]
    lines = '- {name: tags, physicalType: "array<string>"}'
    assert doubts(contract(tmp_path, lines=lines), fields_of(avro(items))) == (
        "tags is array of null or string, but the contract's array<string> does not allow null",
    )
    money = [{"name": "fees", "type": {"type": "array", "items": MONEY}}]
    lines = '- {name: fees, physicalType: "array<decimal(9,2)>"}'
    assert doubts(contract(tmp_path, lines=lines), fields_of(avro(money))) == (
        "fees is array of bytes, and the contract's array<decimal(9,2)> cannot hold all of its values",
    )
    exact = {"type": "bytes", "logicalType": "decimal", "precision": 17, "scale": 1}
    good = [{"name": "transfer_id", "type": "string"}, {"name": "amount", "type": exact}]
    assert doubts(contract(tmp_path), fields_of(avro(good))) == ()


def test_records_that_hold_each_other_many_times_over_are_shown_in_part() -> None:
    def record(level: int) -> object:
        of = "string" if level == 20 else record(level + 1)
        first = {"name": "f0", "type": of}
        again = [{"name": f"f{n}", "type": "string" if level == 20 else f"R{level + 1}"} for n in (1, 2, 3)]
        return {"type": "record", "name": f"R{level}", "fields": [first, *again]}

    assert len(fields_of(WriterSchema("1", "avro", json.dumps(record(0))))) == MAX_FIELDS
    empty = {"type": "record", "name": "E", "fields": []}
    assert [item.type for item in fields_of(avro([{"name": "e", "type": empty}]))] == ["record bank.E"]


@pytest.mark.parametrize(
    "writer",
    [
        WriterSchema("1", "avro", '"nothing"'),
        WriterSchema("1", "avro", json.dumps({**AVRO, "name": "bank.Refund"})),
        WriterSchema("1", "protobuf", "message"),
        WriterSchema("1", "protobuf", 'syntax = "proto3"; message Refund {}'),
        WriterSchema("1", "json", "{"),
    ],
)
def test_a_schema_that_cannot_be_read_says_so(writer: WriterSchema) -> None:
    with pytest.raises(SchemaNotCompatible):
        fields_of(writer, "bank.Transfer")


SLOW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
OPTIONAL = CONTRACT.replace(", required: true", "")  # so that the line decides


def suggested(kind: str, line: str, record: str = "") -> Contract:
    """Return a contract that has this line, and otherwise only what a schema may lack."""
    found = load(Path("t.odcs.yaml"), OPTIONAL % (kind, f"      {line}\n"))
    return replace(found, wire=replace(found.wire, record=record))


@SLOW
@given(cases())
def test_each_line_to_add_makes_a_contract_that_reads_the_avro_schema(case: Case) -> None:
    schema = WriterSchema("1", "avro", json.dumps(case.schema))
    for field in fields_of(schema):
        line = line_to_add(field)
        assert line is not None
        assert why_not(suggested("avro", line), schema) is None


@pytest.mark.slow
@pytest.mark.long
@SLOW
@given(st.integers(0, 2**32))
def test_each_line_to_add_makes_a_contract_that_reads_the_protobuf_schema(seed: int) -> None:
    schema = WriterSchema("1", "protobuf", made_up(Random(seed))[0])
    for field in fields_of(schema, "A"):
        line = line_to_add(field)
        assert line is not None
        assert why_not(suggested("protobuf", line, "A"), schema) is None


@SLOW
@given(cases())
def test_a_json_schema_that_a_contract_exports_suggests_the_contracts_own_types(case: Case) -> None:
    typed = {item.path: item.type for item in case.contract.fields}
    wanted = {path: of for path, of in typed.items() if (of.item or of).kind != "time"}
    document = WriterSchema("1", "json", export_schema(replace(case.contract, format="json"), "json"))
    found = {item.path: item.reads_as for item in fields_of(document) if item.path in wanted}
    whole = {path for path in wanted if any(other[: len(path)] == path != other for other in wanted)}
    assert found == {path: of for path, of in wanted.items() if path not in whole}


NAMES = st.text(alphabet="aB1 .\\'\"\n\t:#é{}[],~", max_size=6)
ODD = ("null", "true", "No", "1e3", "0x1", "a'b", "a\nb", "ä b", "a: b", "a #b", "{a", "x.y", "x\\y", " a", "")


@settings(deadline=None)
@given(st.lists(st.sampled_from(ODD) | NAMES, min_size=1, max_size=3))
def test_a_line_to_add_reads_the_field_whatever_its_name_is(path: list[str]) -> None:
    line = line_to_add(WriterField(tuple(path), "string", optional=True, reads_as=STRING))
    if line is not None:
        assert tuple(path) in [item.path for item in suggested("json", line).fields]


def test_a_column_that_the_contract_has_is_not_suggested_again() -> None:
    field = WriterField(("b", "amount"), "string", optional=True, reads_as=STRING)
    assert line_to_add(field) is not None
    assert line_to_add(field, {"b_amount"}) is None


def test_a_field_of_null_alone_is_always_missing() -> None:
    (field,) = fields_of(avro([{"name": "nothing", "type": "null"}]))
    assert (field.optional, field.reads_as) == (True, JSON_COLUMN)


def test_references_and_choices_of_a_json_schema_are_followed() -> None:
    document = {
        "$ref": "#/definitions/T",
        "definitions": {
            "Party": {"type": "object", "required": ["iban"], "properties": {"iban": {"type": "string"}}},
            "T": {
                "type": "object",
                "required": ["payer", "amount", "either"],
                "properties": {
                    "payer": {"$ref": "#/definitions/Party"},
                    "payee": {"anyOf": [{"$ref": "#/definitions/Party"}, {"type": "null"}]},
                    "amount": {"type": "string", "pattern": r"^-?[0-9]{1,16}([.][0-9]{1,2})?$"},
                    "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                },
            },
        },
    }
    found = fields_of(WriterSchema("1", "json", json.dumps(document)))
    assert [(spell_path(item.path), item.type, item.optional, item.reads_as.name) for item in found] == [
        ("payer.iban", "string", False, "string"),
        ("payee.iban", "string", True, "string"),
        ("amount", "string", False, "decimal(18,2)"),
        ("either", "integer or string", False, "json"),
    ]


def test_a_protobuf_message_that_is_not_what_its_name_says_is_suggested_whole() -> None:
    date = 'syntax = "proto3"; package google.type; message Date { string day = 1; }'
    document = 'syntax = "proto3"; import "google/type/date.proto"; message A { google.type.Date day = 1; }'
    (field,) = fields_of(WriterSchema("1", "protobuf", document, (("google/type/date.proto", date),)), "A")
    assert field.reads_as == JSON_COLUMN
