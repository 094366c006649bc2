"""A contract with a mistake is refused with file, line, field and what would be right."""

import pickle
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from platform_defs.contract.model.contract import Aggregate
from platform_defs.contract.odcs_writer import contract_digest
from platform_defs.contract.reader.odcs import check_fits_without_transform, load
from platform_defs.errors import BadInput
from tests.unit.contract.contract_mistakes import GOOD, MISTAKES

ASSETS = Path(__file__).parents[3] / "assets"
SHIPPED = sorted(ASSETS.glob("*/*.odcs.yaml"))
KEY = re.compile(r"^( *(?:- )?)([A-Za-z]{4,}):", re.MULTILINE)


def write(folder: Path, text: str) -> Path:
    path = folder / "orders.odcs.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(folder: Path, text: str) -> BadInput:
    with pytest.raises(BadInput) as refused:
        load(write(folder, text))
    return refused.value


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_the_contracts_that_ship_are_sound(path: Path) -> None:
    contract = load(path)
    assert contract.domain == path.parent.name
    assert pickle.loads(pickle.dumps(contract)) == contract  # noqa: S301  it travels to Spark's workers
    if contract.transform_path and not contract.transform_path.exists():
        check_fits_without_transform(contract)


def test_a_contract_is_read_into_fields_rules_tables_and_limits(tmp_path: Path) -> None:
    contract = load(write(tmp_path, GOOD))
    assert (contract.pipeline, contract.topic, contract.version) == ("shop_orders", "shop.orders", "1.0.0")
    assert [rule.name for rule in contract.row_rules] == [
        "order_id_required",
        "order_id_pattern",
        "order_id_min_length",
        "order_id_max_length",
        "kind_enum",
        "price_required",
        "price_minimum",
        "price_maximum",
    ]
    assert [rule.argument for rule in contract.row_rules][4:] == [
        ("web", "phone"),
        None,
        Decimal("0.01"),
        Decimal(1000),
    ]
    assert contract.fields[-1].examples == (datetime(2026, 11, 1, 9, tzinfo=UTC),)
    assert (contract.row_table.name, contract.row_table.disposition) == ("shop.orders", "append")
    assert contract.accumulates[0].group_by == ("order_id",)
    assert contract.accumulates[0].aggregates == (
        Aggregate("total", "sum", "price"),
        Aggregate("orders", "count", None),
    )
    assert contract.batch_rules[0].arguments == {"column": "price", "min_value": 1}
    limits = contract.limits
    assert (limits.batch_messages, limits.freshness_seconds, limits.lag_seconds) == (1000, 7200.0, 5.0)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_a_misspelled_key_is_one_mistake_at_any_depth(tmp_path: Path, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for found in KEY.finditer(text):
        refused = refusal(tmp_path, f"{text[: found.end(2)]}x{text[found.end(2) :]}")
        assert len(refused.mistakes) == 1, refused


@pytest.mark.parametrize(
    "unknown",
    [{"logicaltype": "number", "physicaltype": "double"}, {"logicalType": "array", "itmes": "{logicalType: string}"}],
)
def test_each_unknown_key_is_one_mistake(tmp_path: Path, unknown: dict[str, str]) -> None:
    """Two that resemble each other are two mistakes; a missing key that one resembles is no further mistake."""
    lines = "".join(f"        {key}: {value}\n" for key, value in unknown.items())
    refused = refusal(tmp_path, GOOD.replace("        physicalType: double\n", lines, 1))
    wrong = [key for key in unknown if key != "logicalType"]
    assert [(one.field or "").rpartition(".")[2] for one in refused.mistakes] == wrong, refused


@pytest.mark.parametrize(("right", "wrong", "field", "message"), MISTAKES, ids=lambda part: str(part)[:40])
def test_a_mistake_is_refused_where_it_stands(tmp_path: Path, right: str, wrong: str, field: str, message: str) -> None:
    assert right in GOOD
    refused = refusal(tmp_path, GOOD.replace(right, wrong, 1))
    assert refused.file == str(tmp_path / "orders.odcs.yaml")
    assert refused.line is not None
    assert any(field in (one.field or "") for one in refused.mistakes)
    assert message in str(refused)


def test_a_field_may_have_any_name_that_a_column_may_have(tmp_path: Path) -> None:
    for name in ("class_", "null_", "a__", "order__id", "x1_"):
        contract = load(
            write(tmp_path, GOOD.replace("name: kind\n", f"name: {name}\n").replace("name: kind,", f"name: {name},"))
        )
        assert (contract.fields[1].path, contract.row_table.columns[3].name) == ((name,), name)


def test_a_field_is_anywhere_in_the_message_and_may_be_any_json(tmp_path: Path) -> None:
    text = GOOD.replace(
        "      - name: kind\n",
        r"""      - {name: city, logicalType: string, physicalName: 'user.homeAddress.city'}
      - {name: dotted, logicalType: string, physicalName: 'a\.b.c d.é\\'}
      - {name: user_object, physicalType: json, logicalType: object, physicalName: user, examples: [{a: [1, 2.5]}]}
      - name: kind
""",
    )
    city, dotted, whole = load(write(tmp_path, text)).fields[1:4]
    assert city.path == ("user", "homeAddress", "city")
    assert dotted.path == ("a.b", "c d", "é\\")
    assert (whole.type.name, whole.type.postgres, whole.examples) == ("json", "jsonb", ('{"a":[1,2.5]}',))


def test_json_is_neither_grouped_by_nor_summed(tmp_path: Path) -> None:
    text = GOOD.replace("physicalType: double", "physicalType: json")
    assert load(write(tmp_path, text)).row_table.columns[2].type.name == "json"
    summed = refusal(tmp_path, text.replace("transformLogic: sum(price)", "transformLogic: max(weight)"))
    assert "weight is json, which cannot be aggregated" in str(summed)
    grouped = "name: weight, physicalType: json, required: true, primaryKey: true}"
    text = text.replace("name: order_id, logicalType: string, required: true, primaryKey: true}", grouped)
    assert "which cannot be grouped by" in str(refusal(tmp_path, text))


def test_delivery_is_refused_in_a_file_and_ignored_in_the_ledger(tmp_path: Path) -> None:
    for value in ("at_least_once", "exactly_once"):
        text = GOOD.replace("property: batchMessages, value: 1000", f"property: delivery, value: {value}")
        assert "every pipeline delivers exactly once. Remove this entry" in str(refusal(tmp_path, text))
        kept = load(write(tmp_path, text), accepted=True)
        assert contract_digest(kept) == contract_digest(load(write(tmp_path, GOOD)))


def test_the_line_is_the_one_of_the_mistake(tmp_path: Path) -> None:
    text = GOOD.replace("maximum: 1000}", "maximun: 1000}")
    wanted = 1 + text.split("maximun")[0].count("\n")
    refused = refusal(tmp_path, text)
    assert (refused.line, refused.field) == (wanted, "orders.price.logicalTypeOptions.maximun")
    assert str(refused).startswith(f"{tmp_path}/orders.odcs.yaml:{wanted} (orders.price.logicalTypeOptions.maximun): ")


@pytest.mark.parametrize("text", ["", "[]", "a: [", "id: a\nid: b\n", "\t- x", "a: &x [*x]", "\0"])
def test_what_is_no_contract_at_all_is_refused(tmp_path: Path, text: str) -> None:
    assert refusal(tmp_path, text).file == str(tmp_path / "orders.odcs.yaml")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        load(tmp_path / "orders.odcs.yaml")


@pytest.mark.parametrize(
    ("right", "wrong", "field", "message"),
    [
        ("{name: weight, physicalType: double}", "{name: wieght, physicalType: double}", "orders.wieght", "weight"),
        (
            "{name: weight, physicalType: double}",
            "{name: weight, logicalType: string}",
            "orders.weight",
            "is double in",
        ),
        ("{name: kind, logicalType: string}", "{name: kind, logicalType: string, required: true}", "kind", "required"),
    ],
)
def test_without_a_transform_the_rows_must_be_the_messages(
    tmp_path: Path, right: str, wrong: str, field: str, message: str
) -> None:
    check_fits_without_transform(load(write(tmp_path, GOOD)))
    contract = load(write(tmp_path, GOOD.replace(right, wrong)))
    with pytest.raises(BadInput, match=message) as refused:
        check_fits_without_transform(contract)
    assert field in (refused.value.field or "")
    assert refused.value.line is not None
