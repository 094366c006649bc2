"""A contract written as a document is read back as the same contract."""

from dataclasses import fields, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.keys.contract_keys import SETTINGS
from platform_defs.contract.model.column_types import FIXED, column_type
from platform_defs.contract.model.contract import (
    Aggregate,
    BatchRule,
    Column,
    Contract,
    Field,
    Limits,
    RowRule,
    Table,
    WireFormat,
)
from platform_defs.contract.model.row_rules import wanted
from platform_defs.contract.odcs_writer import contract_digest, text
from platform_defs.contract.reader.odcs import load
from platform_defs.settings.contracts import read_contracts
from tests.unit.contract.contract_mistakes import GOOD

KEPT = {
    Contract: "pipeline version domain description topic format fields tables limits path evolution wire"
    " publication metadata_fields",
    Field: "name type required rules description classification examples physical_path aliases number path_numbers"
    " source unit",
    RowRule: "name field kind argument description",
    Table: "name disposition columns batch_rules group_by aggregates description",
    Column: "name type required description classification renamed_from",
    Aggregate: "column function source",
    BatchRule: "name table expectation arguments severity description",
    WireFormat: "framing subject record key_format other_records compatibility schema_file schema_text"
    " schema_imports keys_subject",
}
HERE = Path("ledger.odcs.yaml")
SHIPPED = read_contracts().good


def _read_back(contract: Contract) -> Contract:
    return load(HERE, text(contract))


def _kept(contract: Contract) -> Contract:
    """Return the contract as a document keeps it: without its path and its examples."""
    return replace(contract, path=HERE, fields=tuple(replace(item, examples=()) for item in contract.fields))


def _rule(field: str, kind: str, argument: object) -> RowRule:
    rule = RowRule(f"{field}_{kind}", field, kind, argument, "")  # type: ignore[arg-type]
    return replace(rule, description=f"{field}: {wanted(rule)}")


@pytest.mark.parametrize("contract", SHIPPED, ids=lambda contract: contract.pipeline)
def test_a_shipped_contract_is_read_back_as_it_is(contract: Contract) -> None:
    assert _read_back(contract) == _kept(contract)
    assert contract_digest(_read_back(contract)) == contract_digest(contract)


def test_the_contract_of_every_key_is_read_back_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.odcs.yaml").write_text(GOOD)
    contract = load(tmp_path / "a.odcs.yaml")
    assert _read_back(contract) == _kept(contract)


def test_a_batch_rule_may_have_keys_of_every_type_in_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "a.odcs.yaml").write_text(GOOD)
    contract = load(tmp_path / "a.odcs.yaml")
    table = contract.row_table

    def ruled(arguments: dict[Any, Any]) -> Contract:
        rule = BatchRule("odd", table.name, "ExpectTableRowCountToBeBetween", arguments, "warning", "")
        return replace(contract, tables=(replace(table, batch_rules=(rule,)), *contract.accumulates))

    odd = ruled({"a": [{1: "x", "y": False}], 2: None, True: 1.5, None: "d"})
    assert len({contract_digest(odd), contract_digest(contract), contract_digest(ruled({"a": 1}))}) == 3
    assert contract_digest(_read_back(odd)) == contract_digest(odd)


def test_values_of_every_type_are_read_back_as_they_are() -> None:
    shipped = SHIPPED[0]
    odd = 'no: "#\\ \u0085\x7f\U0001f600 1e3'
    values = {
        "string": _rule("f_string", "enum", (odd, "yes", "12:30", "1e3", "~")),
        "integer": _rule("f_integer", "enum", (2**63 - 1, -(2**63))),
        "double": _rule("f_double", "minimum", 1e300),
        "date": _rule("f_date", "maximum", date(2026, 11, 22)),
        "timestamp": _rule("f_timestamp", "minimum", datetime(2026, 11, 22, 1, 2, 3, 456, UTC)),
    }
    made = [
        Field(f"f_{kind}", of, False, (values[kind],) if kind in values else (), description=odd)
        for kind, of in FIXED.items()
    ]
    decimal = _rule("f_decimal", "minimum", Decimal("0.0100"))
    made.append(Field("f_decimal", column_type("decimal(38,10)"), False, (decimal,), physical_path=("a.b", "", "c\\d")))
    made.append(
        Field("f_pattern", column_type("string"), True, (_rule("f_pattern", "required", None),), examples=(odd,))
    )
    contract = replace(shipped, fields=(*shipped.fields, *made), limits=Limits(batch_messages=7, lag_seconds=0.25))
    assert _read_back(contract) == _kept(contract)


AVRO = """{server: kafka, type: kafka, format: avro, customProperties: [{property: framing, value: both},
  {property: record, value: shop.Order}, {property: otherRecords, value: skip}, {property: keyFormat, value: avro},
  {property: subject, value: orders}, {property: compatibility, value: NONE}]}"""
FROM_FILE = """{server: kafka, type: kafka, format: protobuf, customProperties: [{property: framing, value: none},
  {property: schemaFile, value: order.proto}]}"""
JSON = '{server: kafka, type: kafka, host: "kafka:9092", format: json}'
NAMED = "      - name: kind\n        customProperties: [{property: %s}]\n"


@pytest.mark.parametrize(
    ("server", "names"),
    [
        (JSON.replace("json", "avro"), ""),
        (AVRO, "aliases, value: [sort, a.b]"),
        (FROM_FILE, "fieldNumber, value: 7"),
        (JSON.replace("json", "json, customProperties: [{property: framing, value: prefix}]"), ""),
    ],
)
def test_how_messages_name_their_schema_is_read_back_as_it_is(server: str, names: str) -> None:
    changed = GOOD.replace(JSON, server).replace(
        "      - name: kind\n", NAMED % names if names else "      - name: kind\n"
    )
    contract = load(HERE, changed, lambda name: f"syntax of {name}")
    again = load(HERE, text(contract), lambda _: contract.wire.schema_text)
    assert again == _kept(contract)
    assert contract_digest(again) == contract_digest(contract) != contract_digest(load(HERE, GOOD))


def test_a_schema_file_is_a_part_of_what_judges() -> None:
    changed = GOOD.replace(JSON, FROM_FILE)
    assert contract_digest(load(HERE, changed, lambda _: "one")) != contract_digest(
        load(HERE, changed, lambda _: "other")
    )


def test_every_part_of_a_contract_is_in_its_document() -> None:
    """If you add a field to the model, add it to contract/odcs_writer.py, then here."""
    assert {kind: " ".join(item.name for item in fields(kind) if item.compare) for kind in KEPT} == KEPT


def test_the_digest_is_that_of_what_judges_messages_and_of_the_version() -> None:
    one = SHIPPED[0]
    words = replace(one, description="other", limits=Limits(lag_messages=1), domain="x", evolution="additive")
    assert contract_digest(words) == contract_digest(one)
    others = (
        replace(one, version="1.0.1"),
        replace(one, topic="other"),
        replace(one, publication="direct"),
        replace(one, fields=one.fields[::-1]),
        replace(one, fields=(*one.fields[:-1], replace(one.fields[-1], required=not one.fields[-1].required))),
        replace(one, tables=one.tables[:1]),
    )
    assert len({contract_digest(one), *map(contract_digest, others)}) == 1 + len(others)


def test_a_changed_setting_is_never_reported_as_an_order_of_fields() -> None:
    for key in SETTINGS:
        changes = plan(SHIPPED[0], replace(SHIPPED[0], **{key.attribute: key.example})).changes
        assert changes, key.name
        assert all("order of fields" not in change.what for change in changes), key.name
