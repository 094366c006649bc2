"""Whether a writer's schema fits a contract, as the gate and `tidegate schema` say it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from platform_defs.contract.column_types import column_type
from platform_defs.contract.model import Contract, Field, Format, WireFormat
from platform_defs.formats.fit import Refused, reader_or_refusal
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.operations.writer_fit import doubts_of, misfit, why_not
from tests.unit.avro_messages import record


def contract_of(of: str, kind: Format = "json", *, required: bool = True, name: str = "") -> Contract:
    field = Field("f", column_type(of), required, (), physical_path=("a", "f"))
    return Contract("p", "1", "d", "", "t", kind, (field,), (), wire=WireFormat(record=name))


OPEN: dict[str, object] = {"patternProperties": {"^f": {"type": "string"}}}


def json_schema(value: object, *, always: bool = True) -> WriterSchema:
    """Of an object with the field a.f, or without it where `value` is None."""
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
        ("string", None, "f (a.f) is required by the contract, and the schema does not name it"),
        ("timestamp", {"type": ["string", "null"]}, "f (a.f) is required by the contract, and may be missing"),
        (
            "integer",
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "is integer or string; the contract requires",
        ),
        ("integer", {"type": "number"}, "is number; the contract requires integer"),
        (
            "array<integer>",
            {"type": "array", "items": {"type": ["integer", "null"]}},
            "f (a.f) is array of integer or null; the contract requires array<integer>",
        ),
    ],
)
def test_json_that_may_become_rows_is_doubted_and_no_misfit(of: str, value: object, doubt: str) -> None:
    """The reader makes the row of such a message."""
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
    assert why_not(optional, json_schema(value, always=False)) is None  # of a message that lacks it


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
    assert said(contract, replace(good, format="avro")) == "it is of type avro, and the contract reads json"
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
    assert why_not(other, schema) == Refused("OtherRecord", "it is of B, and the contract reads C")
    assert misfit(other, schema) == "it is of B, and the contract reads C"
    assert misfit(replace(other, wire=replace(other.wire, other_records="skip")), schema) is None
