"""Whether a writer's schema fits a contract, as the gate and `tidegate schema` say it."""

import json
from dataclasses import replace

import pytest

from platform_defs.contract.column_types import column_type
from platform_defs.contract.model import Contract, Field, Format, WireFormat
from platform_defs.formats.writer_schema import WriterSchema
from platform_defs.operations.writer_fit import AnotherRecord, why_not
from tests.unit.avro_messages import record


def contract_of(of: str, kind: Format = "json", *, required: bool = True, name: str = "") -> Contract:
    field = Field("f", column_type(of), required, (), physical_path=("a", "f"))
    return Contract("p", "1", "d", "", "t", kind, (field,), (), wire=WireFormat(record=name))


def json_schema(value: object) -> WriterSchema:
    inner = {"type": "object", "properties": {"f": value} if value is not None else {"other": {"type": "string"}}}
    return WriterSchema("7", "json", json.dumps({"type": "object", "properties": {"a": inner}}))


@pytest.mark.parametrize(
    ("of", "value"),
    [
        ("string", {"type": "string", "format": "date-time"}),
        ("timestamp", {"type": ["string", "null"]}),
        ("decimal(6,2)", {"type": "number"}),
        ("double", {"type": "integer"}),
        ("json", {"type": "array"}),
        ("integer", {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    ],
)
def test_json_fits_where_its_schema_allows_what_the_contract_reads(of: str, value: object) -> None:
    assert why_not(contract_of(of), json_schema(value)) is None


@pytest.mark.parametrize(
    ("of", "value", "why"),
    [
        ("integer", {"type": "string"}, "f (a.f) is string; the contract requires integer"),
        ("boolean", {"type": "number"}, "is double; the contract requires boolean"),
        ("string", None, "is required by the contract; the schema has no such field"),
    ],
)
def test_json_does_not_fit_where_its_schema_contradicts_the_contract(of: str, value: object, why: str) -> None:
    said = why_not(contract_of(of), json_schema(value))
    assert said is not None
    assert why in said


def test_another_format_encrypted_fields_and_what_is_no_schema_do_not_fit() -> None:
    contract, good = contract_of("string"), json_schema({"type": "string"})
    assert why_not(contract, replace(good, format="avro")) == "it is of type avro, and the contract reads json"
    assert "ciphertext" in (why_not(contract, replace(good, encrypted=True)) or "")
    assert "cannot be read" in (why_not(contract, replace(good, document="{")) or "")
    assert "cannot be read" in (why_not(contract_of("string", "avro"), WriterSchema("7", "avro", "{")) or "")
    assert "compile" in (why_not(contract_of("string", "protobuf"), WriterSchema("7", "protobuf", "message")) or "")


def test_another_record_is_no_fault() -> None:
    schema = WriterSchema("7", "avro", json.dumps(record("B", a=record("A", f="string"))))
    assert why_not(contract_of("string", "avro", name="B"), schema) is None
    with pytest.raises(AnotherRecord):
        why_not(contract_of("string", "avro", name="C"), schema)
