"""All mistakes of a contract at once, types by Postgres' names, and `tidegate contract validate`."""

import json
import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

from platform_defs.cli.main import app
from platform_defs.contract.model.column_types import FIXED
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput, SeveralMistakes
from tests.unit.contract.contract_mistakes import GOOD
from tests.unit.contract.test_catalogue import add

WRONG = (
    GOOD.replace('pattern: "O[0-9]+"', 'pattern: "O[0-9"')
    .replace("validValues: [web, phone]", "validValues: [web, web]")
    .replace("      - name: weight\n        physicalType: double", "      - name: weight\n        physicalType: flaot")
    .replace("value: 1000}", "value: many}")
)


def write(folder: Path, text: str) -> Path:
    path = folder / "shop" / "orders.odcs.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_all_mistakes_are_reported_at_once_by_line(tmp_path: Path) -> None:
    with pytest.raises(SeveralMistakes) as refused:
        load(write(tmp_path, WRONG))
    assert [one.field for one in refused.value.mistakes] == [
        "batchMessages.value",
        "orders.order_id.logicalTypeOptions.pattern",
        "orders.kind.quality.0.arguments.validValues",
        "orders.weight.physicalType",
    ]
    lines = [one.line or 0 for one in refused.value.mistakes]
    assert lines == sorted(lines)
    assert str(refused.value).splitlines() == [str(one) for one in refused.value.mistakes]
    assert (refused.value.line, refused.value.problem) == (lines[0], refused.value.mistakes[0].problem)
    again = pickle.loads(pickle.dumps(refused.value))  # noqa: S301  our own
    assert [str(one) for one in again.mistakes] == [str(one) for one in refused.value.mistakes]


HEAD = (
    GOOD.replace("apiVersion: v3.1.0", "apiVersion: v2.0.0")
    .replace("id: shop_orders", "id: Shop Orders")
    .replace("version: 1.0.0\n", 'version: ""\n')
    .replace("domain: shop", "domain: Shop\nownr: me")  # a key that is missing may be this one
    .replace("physicalName: shop.orders", "physicalName: shop/orders", 1)
    .replace("physicalType: double", "physicalType: flaot", 1)
)


def test_mistakes_at_the_head_hide_none_in_a_column(tmp_path: Path) -> None:
    with pytest.raises(SeveralMistakes) as refused:
        load(write(tmp_path, HEAD))
    assert {one.field for one in refused.value.mistakes} == {
        "apiVersion",
        "id",
        "version",
        "domain",
        "ownr",
        "orders.physicalName",
        "orders.weight.physicalType",
    }


def test_all_values_of_a_wrong_type_are_reported(tmp_path: Path) -> None:
    wrong = GOOD.replace("required: true", "required: maybe").replace("version: 1.0.0", "version: 1.0")
    with pytest.raises(SeveralMistakes) as refused:
        load(write(tmp_path, wrong))
    assert len(refused.value.mistakes) == 1 + GOOD.count("required: true")


def test_an_unknown_format_hides_no_mistake_in_a_table(tmp_path: Path) -> None:
    wrong = GOOD.replace("format: json", "format: jsn").replace(
        "disposition, value: append", "disposition, value: apend"
    )
    with pytest.raises(SeveralMistakes) as refused:
        load(write(tmp_path, wrong))
    assert len(refused.value.mistakes) == 2


def test_parts_that_depend_on_a_mistake_are_not_reported_as_well(tmp_path: Path) -> None:
    """An accumulate or a batch rule on a column with a wrong type is not a mistake of its own."""
    text = (Path(__file__).parents[3] / "assets/bank/transfers.odcs.yaml").read_text()
    wrong = text.replace("physicalType: decimal(18,2)", "physicalType: decimal(99,2)")
    with pytest.raises(BadInput) as refused:
        load(write(tmp_path, wrong))
    problems = {one.problem.partition(":")[0] for one in refused.value.mistakes}
    assert problems == {"type 'decimal(99,2)' is not supported"}


@pytest.mark.parametrize(("written", "name"), [(of.postgres, of.name) for of in FIXED.values()])
def test_a_type_may_have_the_name_that_postgres_gives_it(tmp_path: Path, written: str, name: str) -> None:
    text = GOOD.replace("physicalType: double", f"physicalType: {written}", 1)
    (field,) = (item for item in load(write(tmp_path, text)).fields if item.name == "weight")
    assert field.type.name == name


def test_numeric_is_decimal(tmp_path: Path) -> None:
    contract = load(write(tmp_path, GOOD.replace("physicalType: double", "physicalType: numeric(9,3)", 1)))
    assert [item.type.name for item in contract.fields if item.name == "weight"] == ["decimal(9,3)"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("varchar(20)", "write string, with logicalTypeOptions: {maxLength: 20}"),
        ("varchar", "write string, with logicalTypeOptions: {maxLength: N}"),
        ("float", "write double, or decimal(precision,scale)"),
        ("int4", "write integer, which has 64 bits"),
        ("numeric", "write decimal(precision,scale)"),
        ("numeric(50,2)", "precision is 1 to 38"),
        ("stirng", "did you mean 'string'?"),
        ("datetime", "write timestamp"),
        ("date-time", "write timestamp"),
        ("guid", "write uuid"),
        ("interval", "write string"),
        ("list", "write array<type>"),
    ],
)
def test_a_type_that_a_column_cannot_have_is_answered_with_the_one_to_write(
    tmp_path: Path, written: str, meant: str
) -> None:
    with pytest.raises(BadInput) as refused:
        load(write(tmp_path, GOOD.replace("physicalType: double", f"physicalType: {written}", 1)))
    assert meant in refused.value.problem


def validate(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["contract", "validate", *arguments])
    return result.exit_code, result.stdout


def test_a_file_is_validated_for_people_and_programs(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    code, shown = validate(str(path))
    assert (code, shown.splitlines()[0]) == (0, f"{path}: shop_orders is valid")
    write(tmp_path, WRONG)
    code, shown = validate(str(path))
    assert code == 1
    assert [line.split(" ")[0].rpartition(":")[0] for line in shown.splitlines()] == [str(path)] * 4
    code, answer = validate(str(path), "-o", "json")
    found = json.loads(answer)
    assert (code, found["valid"], found["contracts"][0]["pipeline"]) == (1, False, None)
    assert [sorted(one) for one in found["contracts"][0]["mistakes"]] == [["field", "file", "line", "message"]] * 4


def test_all_contracts_are_validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path))
    write(tmp_path, GOOD)
    code, answer = validate("-o", "json")
    assert (code, json.loads(answer)["valid"]) == (0, True)
    write(tmp_path, GOOD.replace("domain: shop", "domain: shop\nowner: me"))
    code, answer = validate("-o", "json")
    assert (code, [one["pipeline"] for one in json.loads(answer)["contracts"]]) == (1, [None])


def test_a_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    code, shown = validate(str(tmp_path / "none.odcs.yaml"))
    assert code == 1
    assert "cannot be read: No such file or directory" in shown


def test_whatever_the_file_of_a_transform_raises_is_a_mistake_of_that_file(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    path.with_name("orders.py").write_text("raise RuntimeError('no such table')\n")
    code, shown = validate(str(path))
    assert code == 1
    assert "orders.py" in shown


@pytest.mark.parametrize(
    ("kind", "schema", "message"),
    [
        ("avro", "{", "the schema cannot be read"),
        ("avro", '"string"', "the contract requires a record"),
        ("avro", '{"type": "record", "name": "R", "fields": []}', "order_id is required by the contract"),
        ("protobuf", 'syntax = "proto3"; message M { Other o = 1; }', '"Other" is not defined'),
    ],
)
def test_a_schema_file_that_no_run_could_use_is_a_mistake_of_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, schema: str, message: str
) -> None:
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path))
    named = "customProperties: [{property: framing, value: none}, {property: schemaFile, value: order.schema}]"
    path = write(tmp_path, GOOD.replace("format: json}", f"format: {kind}, {named}}}"))
    path.with_name("order.schema").write_text(schema)
    for arguments in ((), (str(path),)):
        code, shown = validate(*arguments)
        assert (code, "order.schema" in shown, message in shown) == (1, True, True), shown
    refused = CliRunner().invoke(app, ["contract", "diff", "shop_orders"])
    assert message in str(refused.exception or refused.output)


def test_a_file_among_the_contracts_is_compared_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path))
    path = write(tmp_path, GOOD)
    (tmp_path / "shop" / "again.odcs.yaml").write_text(GOOD)
    code, shown = validate(str(path))
    assert code == 1
    assert "pipeline shop_orders is also defined in" in shown


def test_a_file_with_another_ending_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD)
    code, shown = validate(str(path))
    assert code == 1
    assert "a contract is called <name>.odcs.yaml" in shown


def test_what_a_transform_prints_does_not_come_before_the_document(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    path.with_name("orders.py").write_text("print('hello')\n\n\ndef transform(messages):\n    return messages\n")
    code, answer = validate(str(path), "-o", "json")
    assert (code, json.loads(answer)["valid"]) == (0, True)


def test_several_files_folders_and_pipelines_are_validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contracts, elsewhere = tmp_path / "contracts", tmp_path / "elsewhere"
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(contracts))
    for folder, name in ((contracts, "orders"), (contracts, "refunds"), (contracts, "returns"), (elsewhere, "gifts")):
        folder.mkdir(exist_ok=True)
        add(folder, name, id=f"shop_{name}")
    (elsewhere / "shop" / "empty").mkdir()

    def validated(*names: str) -> list[str]:
        code, answer = validate(*names, "-o", "json")
        assert code == 0, answer
        return [one["pipeline"] for one in json.loads(answer)["contracts"]]

    every = ["shop_orders", "shop_refunds", "shop_returns"]
    orders, gifts = contracts / "shop" / "orders.odcs.yaml", elsewhere / "shop" / "gifts.odcs.yaml"
    assert validated() == validated(str(contracts)) == validated(str(contracts / "shop")) == every
    assert validated("shop_orders", "shop_returns") == validated(str(orders), "shop_returns") == [every[0], every[2]]
    assert validated(str(elsewhere), str(gifts), str(orders), "shop_orders") == ["shop_orders", "shop_gifts"]
    assert validate(str(elsewhere / "shop" / "empty"))[0] == 1
    assert validate("shop_order")[0] == 1
    gifts.with_name("again.odcs.yaml").write_text(gifts.read_text())
    assert validate(str(elsewhere))[1].count("pipeline shop_gifts is also defined in") == 2


def test_a_contract_with_another_name_in_the_contracts_folder_is_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path))
    path = write(tmp_path, GOOD)
    (tmp_path / "topics.yaml").write_text("topics: []\n")
    path.with_name("table.yaml").write_text("physicalType: table\n")
    assert validate()[0] == 0
    for name in ("orders.yaml", "orders.yml", "orders.ODCS.YAML", "orders.odcs.yml"):
        misplaced = path.rename(path.with_name(name))
        code, shown = validate()
        assert (code, shown.count("rename or move this file")) == (1, 1), name
        assert str(misplaced) in shown
        misplaced.rename(path)


def test_a_field_without_a_column_is_a_notice(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    line = 1 + GOOD[: GOOD.index("name: ordered_at")].count("\n")
    code, shown = validate(str(path))
    assert code == 0
    assert f"{path}:{line} (orders.ordered_at): ordered_at has no column in shop.orders" in shown
    (notice,) = json.loads(validate(str(path), "-o", "json")[1])["contracts"][0]["notices"]
    assert (notice["line"], notice["field"]) == (line, "orders.ordered_at")
    path.with_name("orders.py").write_text("def transform(messages):\n    return messages\n")
    assert validate(str(path)) == (0, f"{path}: shop_orders is valid\n")
