"""The fit of a writer's schema and a contract, as the gate and `tidegate schema` report it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from platform_defs.contract.evolution.changes import ChangeClass
from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field, Format, WireFormat
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.fit import Refused, reader_or_refusal
from platform_defs.formats.writer_fit import doubts_of, misfit, why_not, writer_changes
from tests.unit.formats.avro.avro_messages import record


def contract_of(of: str, kind: Format = "json", *, required: bool = True, name: str = "") -> Contract:
    field = Field("f", column_type(of), required, (), physical_path=("a", "f"))
    return Contract("p", "1", "d", "", "t", kind, (field,), (), wire=WireFormat(record=name))


OPEN: dict[str, object] = {"patternProperties": {"^f": {"type": "string"}}}


def json_schema(value: object, *, always: bool = True) -> WriterSchema:
    """Return the schema of an object with the field a.f, or without it if `value` is None."""
    needed = {"required": ["f"]} if always else {}
    inner = {"type": "object", "properties": {"f": value} if value is not None else {}, **(needed if value else {})}
    document = {"type": "object", "properties": {"a": inner}, "required": ["a"]}
    return WriterSchema("7", "json", json.dumps({**document, "definitions": {"text": {"type": "string"}}}))


def said(contract: Contract, schema: WriterSchema) -> str | None:
    refused = why_not(contract, schema)
    return refused and refused.reason


@pytest.mark.parametrize(
    ("of", "value"),
    [
        ("string", {"type": "string", "format": "date-time"}),
        ("timestamp", {"type": "string"}),
        ("decimal(6,2)", {"type": "number"}),
        ("double", {"type": "integer"}),
        ("json", {"type": "array"}),
        ("array<integer>", {"type": "array", "items": {"type": "integer"}}),
        ("array<date>", {"type": "array", "items": {"$ref": "#/definitions/text"}}),
        ("array<date>", {"type": "array"}),
        ("array<string>", {"type": "array", "prefixItems": [{"type": "string"}], "items": False}),
        ("string", {"$ref": "#/definitions/text"}),
        ("boolean", {"allOf": [{"type": "boolean"}]}),
    ],
)
def test_json_fits_where_its_schema_allows_only_what_the_contract_reads(of: str, value: object) -> None:
    assert why_not(contract_of(of), json_schema(value)) is None
    assert doubts_of(contract_of(of), json_schema(value)) == ()


@pytest.mark.parametrize(
    ("of", "value", "doubt"),
    [
        ("string", None, "f (a.f) is required by the contract, but the schema does not name it"),
        ("timestamp", {"type": ["string", "null"]}, "f (a.f) is required by the contract, but may be missing"),
        (
            "integer",
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "is integer or string; the contract requires",
        ),
        ("integer", {"type": "number"}, "is number; the contract requires integer"),
        (
            "array<integer>",
            {"type": "array", "items": {"type": ["integer", "null"]}},
            "f (a.f) is an array of integer or null; the contract requires array<integer>",
        ),
        (
            "array<string>",
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "string"}},
            "f (a.f) is an array of integer or string; the contract requires array<string>",
        ),
        (
            "array<string>",
            {"type": "array", "prefixItems": [{"type": "integer"}]},
            "f (a.f) is an array of integer; the contract requires array<string>",
        ),
        (
            "array<string>",
            {"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "boolean"}},
            "f (a.f) is an array of boolean or string; the contract requires array<string>",
        ),
    ],
)
def test_json_that_may_become_rows_is_doubted_and_no_misfit(of: str, value: object, doubt: str) -> None:
    """The reader makes a row of such a message."""
    assert why_not(contract_of(of), json_schema(value)) is None
    (found,) = doubts_of(contract_of(of), json_schema(value))
    assert doubt in found


def test_a_message_with_a_field_that_an_open_schema_does_not_name_is_a_row_and_its_schema_fits() -> None:
    contract = replace(contract_of("string"), fields=(Field("b", column_type("string"), True, ()),))
    schema = json_schema({"type": "string"})
    reader = reader_or_refusal(contract, schema, indexed=False)
    assert not isinstance(reader, Refused)
    message = b'{"a": {"f": "x"}, "b": "y"}'
    found = reader.read(np.frombuffer(message, np.uint8), np.array([0]), np.array([len(message)]))
    assert found.rows.to_pylist() == [{"b": "y"}]
    assert why_not(contract, schema) is None


@pytest.mark.parametrize(
    ("of", "value", "why"),
    [
        ("integer", {"type": "string"}, "f (a.f) is string; the contract requires integer"),
        ("boolean", {"type": "number"}, "is number; the contract requires boolean"),
        ("string", {"type": "null"}, "is null; the contract requires string"),
        ("date", {"type": "array"}, "is array; the contract requires date"),
        ("array<date>", {"type": "string"}, "is string; the contract requires array<date>"),
    ],
)
def test_json_does_not_fit_where_no_value_of_its_schema_can_be_read(of: str, value: object, why: str) -> None:
    assert why in (said(contract_of(of), json_schema(value)) or "")
    optional = contract_of(of, required=False)
    assert (why_not(optional, json_schema(value)) is None) is (value == {"type": "null"})
    assert why_not(optional, json_schema(value, always=False)) is None  # a message may lack it


@pytest.mark.parametrize(("required", "more", "fits"), [(True, {}, False), (False, {}, True), (True, OPEN, True)])
def test_json_lacks_what_the_contract_requires_only_where_its_schema_is_closed(
    required: bool, more: dict[str, object], fits: bool
) -> None:
    inner = {"type": "object", "properties": {"g": {}}, "additionalProperties": False, **more}
    document = json.dumps({"type": "object", "properties": {"a": inner}})
    assert (said(contract_of("string", required=required), WriterSchema("7", "json", document)) is None) is fits


def test_what_is_no_object_hides_what_the_contract_reads_within_it() -> None:
    document = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    for required in (True, False):
        found = said(contract_of("string", required=required), WriterSchema("7", "json", document))
        assert found == "f (a.f) cannot be reached: a is string"


def test_a_json_field_that_the_schema_names_by_its_alias_is_there() -> None:
    field = Field("f", column_type("string"), True, (), aliases=(("g",),))
    document = {"type": "object", "properties": {"g": {"type": "string"}}, "additionalProperties": False}
    schema = WriterSchema("7", "json", json.dumps({**document, "required": ["g"]}))
    contract = replace(contract_of("string"), fields=(field,))
    assert why_not(contract, schema) is None
    assert doubts_of(contract, schema) == ()


def test_another_format_encrypted_fields_and_what_is_no_schema_do_not_fit() -> None:
    contract, good = contract_of("string"), json_schema({"type": "string"})
    assert said(contract, replace(good, format="avro")) == "it is of type avro, but the contract reads json"
    assert "ciphertext" in (said(contract, replace(good, encrypted=True)) or "")
    assert "cannot be read" in (said(contract_of("string", "avro"), WriterSchema("7", "avro", "{")) or "")
    assert "compile" in (said(contract_of("string", "protobuf"), WriterSchema("7", "protobuf", "message")) or "")


@pytest.mark.parametrize("document", ["{", "[" * 100_000, '{"$ref": "#"}', '{"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}'])
def test_a_json_schema_that_says_nothing_is_no_misfit(document: str) -> None:
    schema = WriterSchema("7", "json", document)
    assert why_not(contract_of("string"), schema) is None
    assert len(doubts_of(contract_of("string"), schema)) == 1


def test_another_record_is_told_from_one_that_does_not_fit() -> None:
    schema = WriterSchema("7", "avro", json.dumps(record("B", a=record("A", f="string"))))
    assert why_not(contract_of("string", "avro", name="B"), schema) is None
    other = contract_of("string", "avro", name="C")
    assert why_not(other, schema) == Refused("OtherRecord", "it describes B, but the contract reads C")
    assert misfit(other, schema) == "it describes B, but the contract reads C"
    assert misfit(replace(other, wire=replace(other.wire, other_records="skip")), schema) is None


@pytest.mark.parametrize("package", ["shop", "bank"])
def test_a_protobuf_schema_without_the_contracts_message_is_of_another_record(package: str) -> None:
    """Its reader takes payloads that name any message by index, so it does not refuse the schema itself."""
    body = "message First {} message B { A a = 1; } message A { string f = 1; }"
    text = f'syntax = "proto3"; package {package}; {body}'
    schema, contract = WriterSchema("7", "protobuf", text), contract_of("string", "protobuf", name="bank.M")
    reason = f"it describes {package}.First, {package}.B, {package}.A, but the contract reads bank.M"
    assert why_not(contract, schema) == Refused("OtherRecord", reason)
    assert misfit(contract, schema) == reason
    assert misfit(replace(contract, wire=replace(contract.wire, other_records="skip")), schema) is None
    assert (why_not(contract_of("string", "protobuf", name="bank.B"), schema) is None) is (package == "bank")


def avro_schema(kind: object, name: str = "shop.Order") -> WriterSchema:
    document = {"type": "record", "name": name, "fields": [{"name": "f", "type": kind}, {"name": "g", "type": "long"}]}
    return WriterSchema("7", "avro", json.dumps(document))


def reads(*fields: Field, kind: Format = "avro", record: str = "") -> Contract:
    """Return a contract that reads g, and these fields."""
    given = Field("g", column_type("integer"), True, ())
    return Contract("p", "1", "d", "", "t", kind, (given, *fields), (), wire=WireFormat(record=record))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (avro_schema("int"), "become dead letters from now on: f "),
        (avro_schema("string"), None),
        (
            WriterSchema("7", "json", '{"properties": {"f": {"type": "integer"}}}'),
            "may become dead letters from now on: f ",
        ),
        (WriterSchema("7", "json", '{"properties": {"f": {"type": "string"}}}'), None),
    ],
)
def test_a_field_that_writers_have_with_another_type_is_not_free_to_add(
    schema: WriterSchema, message: str | None
) -> None:
    added = Field("f", column_type("string"), False, ())
    changes = writer_changes(reads(kind=schema.format), reads(added, kind=schema.format), [schema])
    assert [change.kind for change in changes] == ([ChangeClass.BREAKS_PRODUCERS] if message else [])
    assert all(message in change.sentence for change in changes if message)


def test_messages_that_were_dead_letters_already_break_nothing() -> None:
    other = avro_schema("int", name="shop.Return")
    before, after = reads(record="shop.Order"), reads(Field("f", column_type("string"), False, ()), record="shop.Order")
    assert writer_changes(before, after, [other]) == ()
    assert "shop.Return" not in "".join(change.what for change in writer_changes(before, reads(), [other]))
