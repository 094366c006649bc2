"""Fields with a source in a contract: read, written back, compared with the contract before, classified, made up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from platform_defs.contract.evolution.changes import ChangeClass
from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.model.classified import classified
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.odcs_writer import contract_digest, text
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput
from platform_defs.samples.samples import Samples
from tests.unit.contract.contract_mistakes import GOOD
from tests.unit.metadata.messages import FIELDS, Sent, metadata_field
from tests.unit.metadata.test_agreement import by_engine

pytestmark = pytest.mark.long


HERE = Path("shop.odcs.yaml")
KIND = "      - name: kind\n"
TENANT = "{name: tenant, logicalType: string, customProperties: [{property: source, value: header:tenant}]}"


def contract(*fields: str) -> Contract:
    """Return GOOD with these fields before `kind`."""
    lines = "".join(f"      - {field}\n" for field in fields)
    return load(HERE, GOOD.replace(KIND, f"{lines}{KIND}", 1))


def field(source: str, **more: Any) -> str:
    keys = {"name": "f", "logicalType": "string", **more}
    written = ", ".join(f"{name}: {value}" for name, value in keys.items())
    return f"{{{written}, customProperties: [{{property: source, value: {source}}}]}}"


def test_a_field_with_a_source_is_read_beside_those_of_the_value() -> None:
    found = contract(TENANT)
    (tenant,) = found.metadata_fields
    assert (tenant.name, tenant.source, tenant.place) == ("tenant", "header:tenant", "tenant (header tenant)")
    assert "tenant" not in [item.name for item in found.fields]
    assert [item.name for item in found.message_fields][-1] == "tenant"


def test_every_source_is_written_and_read_back_as_it_is() -> None:
    found = replace(contract(), path=HERE, metadata_fields=tuple(map(metadata_field, FIELDS)))
    assert load(HERE, text(found)).metadata_fields == found.metadata_fields


@pytest.mark.parametrize(
    ("wrong", "place", "message"),
    [
        (field("headers:tenant"), "source.value", "unknown source 'headers:tenant'; did you mean 'headers'?"),
        (field("time"), "source.value", "did you mean 'timestamp'?"),
        (field("'header:'"), "source.value", "a header name has 1 to 1,000 printable characters"),
        (field("timestamp"), "source.value", "source timestamp requires type timestamp; this field is string"),
        (field("header:a", logicalType="object", physicalType="json"), "source.value", "this field is json"),
        (field("key", physicalName="key"), "physicalName", "Remove it"),
    ],
)
def test_a_mistake_in_a_source_is_named_with_its_place(wrong: str, place: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        contract(wrong)
    assert message in str(refused.value)
    assert place in str(refused.value)


def test_two_fields_of_one_source_are_refused() -> None:
    with pytest.raises(BadInput, match="f and tenant have the same source, header:tenant"):
        contract(TENANT, field("header:tenant"))


def test_a_message_needs_a_field_of_its_value() -> None:
    whole = (
        GOOD[: GOOD.index("      - name: order_id")]
        + f"      - {TENANT}\n"
        + GOOD[GOOD.index("  - name: orders\n    physicalType: table") :]
    )
    with pytest.raises(BadInput, match="at least one field of the message's value"):
        load(HERE, whole)


def test_a_field_with_a_source_is_part_of_the_digest() -> None:
    assert contract_digest(contract(TENANT)) != contract_digest(contract())


@pytest.mark.parametrize(
    "before",
    [contract(), contract(field("header:other", name="tenant")), contract("{name: tenant, logicalType: string}")],
)
def test_what_earlier_rows_do_not_have_needs_a_replay(before: Contract) -> None:
    found = plan(replace(before, version="1.0.0"), replace(contract(TENANT), version="2.0.0"))
    (change,) = found.found_otherwise
    assert (change.kind, change.column) == (ChangeClass.REPLAY, "tenant")
    assert found.version_mistake is None


def test_a_field_with_a_source_may_go() -> None:
    found = plan(contract(TENANT), replace(contract(), version="1.1.0"))
    assert [change.kind for change in found.changes] == [ChangeClass.FREE]


def test_a_classified_header_hides_the_column_of_all_headers() -> None:
    every = (
        "{name: every, logicalType: object, physicalType: json, customProperties: [{property: source, value: headers}]}"
    )
    secret = TENANT.replace("logicalType", "classification: secret, logicalType")
    assert classified(contract(secret, every)).fields == {"tenant", "every"}
    assert classified(contract(secret, field("key"))).fields == {"tenant"}


@pytest.mark.slow
def test_messages_are_made_up_with_headers_and_keys() -> None:
    rules = "required: true, logicalTypeOptions: {maxLength: 5}"
    made = contract(
        TENANT.replace("logicalType: string", f"logicalType: string, {rules}"),
        field("key", name="k", required="true"),
        field("header:n", name="n", logicalType="integer", required="true"),
        field("header:on", name="on_day", logicalType="date", required="true"),
    )
    samples = [*Samples(made, seed=1).good(50)]
    sent = [Sent(n, one.headers, one.key, value_=one.value) for n, one in enumerate(samples)]
    rows = by_engine(made, sent)
    assert len(rows) == 50
    assert all(isinstance(row, dict) for row in rows.values())
    bad = Samples(made, seed=1).bad(0, samples[0])
    assert bad.headers == samples[0].headers


@pytest.mark.parametrize(
    ("team", "owners"),
    [
        ("", ()),
        (
            "team: {name: payments, members: [{username: ada@example.org}, {username: ada}]}",
            ("team:payments", "ada@example.org"),
        ),
        ("team: [{username: ada@example.org}, {username: no email}]", ("ada@example.org",)),
    ],
)
def test_a_team_owns_the_tables(team: str, owners: tuple[str, ...]) -> None:
    assert load(HERE, GOOD.replace("status: active", team)).owners == owners
