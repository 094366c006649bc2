"""Columns of arrays: in a contract, in each reader, in the text that COPY stages, and in verify's comparison."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from platform_defs.contract.evolution.changes import ChangeClass
from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.evolution.statements import Given, array_literal, fills
from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.odcs_writer import contract_digest, text
from platform_defs.contract.reader.odcs import load
from platform_defs.engine.task.task import array_texts, in_pieces
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.json.decode import decode
from platform_defs.formats.json.single import MessageReader
from platform_defs.verify.decoders.json_columns import array_text
from platform_defs.verify.validators.validator import NoRow, Validator
from tests.unit.contract.contract_mistakes import GOOD
from tests.unit.formats.json.test_decode_agreement import contract_of

TAGS = """\
      - name: tags
        logicalType: array
        items: {logicalType: string}
        examples: [[a, b], []]
      - name: prices
        physicalType: array<decimal(10,2)>
"""
COLUMNS = """\
      - {name: tags, logicalType: array, items: {logicalType: string}}
      - {name: prices, physicalType: "array<decimal(10,2)>"}
"""
WITH_ARRAYS = GOOD.replace("      - name: ordered_at\n", f"{TAGS}      - name: ordered_at\n").replace(
    "      - {name: kind, logicalType: string}\n", f"      - {{name: kind, logicalType: string}}\n{COLUMNS}"
)


def test_a_contract_says_what_the_items_are_in_either_way(tmp_path: Path) -> None:
    path = tmp_path / "orders.odcs.yaml"
    path.write_text(WITH_ARRAYS)
    contract = load(path)
    tags, prices = contract.row_table.columns[-2:]
    assert (tags.type, prices.type) == (column_type("array<string>"), column_type("array<decimal(10,2)>"))
    assert (prices.type.postgres, prices.type.spark) == ("numeric(10,2)[]", "array<decimal(10,2)>")
    assert next(item for item in contract.fields if item.name == "tags").examples == (("a", "b"), ())
    again = load(Path("ledger.odcs.yaml"), text(contract))
    assert (again.row_table, contract_digest(again)) == (contract.row_table, contract_digest(contract))


WRONG = [
    (b'{"a":["x",null]}', "NullItem", "a has an item, number 2, that is null"),
    (b'{"a":["x",5]}', "WrongType", "number 2, that is the number 5; the contract requires a string"),
    (b'{"a":[["x"]]}', "WrongType", "number 1, that is an array"),
    (b'{"a":"x"}', "WrongType", "the contract requires an array<string>"),
    (b'{"a":["\\u0000"]}', "NulCharacter", "number 1, that holds"),
    (b'{"a":[' + b'"x",' * 10_000 + b'"x"]}', "TooManyItems", "has 10,001 items; an array can have at most 10,000"),
    (b'{"a":[' + b'"x",' * 99_999 + b'"x"]}', "TooManyItems", "has 100,000 items"),
]


@pytest.mark.parametrize(("value", "error", "message"), WRONG, ids=[f"{of[1]}_{n}" for n, of in enumerate(WRONG)])
def test_an_array_of_anything_else_is_a_dead_letter_and_its_neighbours_are_rows(
    value: bytes, error: str, message: str
) -> None:
    contract = contract_of({"a": "array<string>"})
    decoded = decode(contract, pa.array([b'{"a":["b"]}', value, b'{"a":[]}', b"{}"], pa.binary()))
    assert decoded.rows.to_pylist() == [{"a": ["b"]}, {"a": []}, {"a": None}]
    (fault,) = decoded.faults
    assert (fault.index, fault.error_class, fault.field) == (1, error, "a")
    assert message in fault.message
    assert Validator(contract).value(value) == NoRow(error)
    alone = MessageReader(contract).read(value)
    assert isinstance(alone, Reason)
    assert alone.error_class == error


STAGED: list[tuple[str, list[Any], str]] = [
    ("string", ["a", 'q"\\{},', "", "NULL", None], r'{"a","q\"\\{},","","NULL",NULL}'),
    ("integer", [-(2**63), 1], '{"-9223372036854775808","1"}'),
    ("double", [1.5, 1e300], '{"1.5","1e+300"}'),
    ("decimal(38,10)", [Decimal("0.0000000001"), Decimal(-12)], '{"1E-10","-12.0000000000"}'),
    ("boolean", [True, False], '{"true","false"}'),
    ("date", [date(1, 1, 1)], '{"0001-01-01"}'),
    ("timestamp", [datetime(2026, 11, 1, 10, tzinfo=UTC)], '{"2026-11-01 10:00:00.000000Z"}'),
    ("bytes", [b"\0a"], r'{"\\x0061"}'),
    ("uuid", [], "{}"),
]


@pytest.mark.parametrize(("items", "values", "wanted"), STAGED, ids=[of[0] for of in STAGED])
def test_copy_gets_the_text_that_postgres_reads_as_the_array(items: str, values: list[Any], wanted: str) -> None:
    column = pa.array([None, values, None, []], column_type(f"array<{items}>").arrow)
    assert array_texts(column).to_pylist() == [None, wanted, None, "{}"]
    assert array_texts(column.slice(1, 2)).to_pylist() == [wanted, None]
    assert array_literal(["a", 'q"\\{},', ""]) == r'{"a","q\"\\{},",""}'


@pytest.mark.slow
@pytest.mark.long
def test_a_batch_is_staged_in_pieces_whose_arrays_stay_far_below_the_limit_of_arrow_strings() -> None:
    """One bit of a boolean becomes seven characters for COPY."""
    lists = pa.array([[True] * 10_000, None, [], [False]] * 1_000, pa.list_(pa.bool_()))
    batch = pa.record_batch([pa.array(range(4_000)), lists], names=["n", "a"])
    pieces = list(in_pieces(batch))
    assert len(pieces) == 2
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([batch]))
    texts = [array_texts(piece.column("a")) for piece in pieces]
    assert [len(text) for text in texts] == [2_000, 2_000]
    assert texts[1][:4].to_pylist() == ["{" + ",".join(['"true"'] * 10_000) + "}", None, "{}", '{"false"}']
    assert next(iter(in_pieces(batch.slice(0, 1)))).equals(batch.slice(0, 1))


SAME: list[tuple[str, list[Any], str, str]] = [
    ("string", ["a", 'é"', None], '["a", "é\\"",null]', '["a",null,"é"]'),
    ("decimal(6,2)", [Decimal("1.50")], "[1.5]", "[1.51]"),
    ("double", [1e20, float("nan")], '[1e+20,"NaN"]', "[1e+21]"),
    ("boolean", [True], "[true]", "[false]"),
    ("date", [date(2026, 11, 1)], '["2026-11-01"]', '["2026-11-02"]'),
    (
        "timestamp",
        [datetime(2026, 11, 1, 11, tzinfo=timezone(timedelta(hours=1)))],
        '["2026-11-01T05:00:00-05:00"]',
        '["infinity"]',
    ),
    ("uuid", ["6F1C0B9E-8d3a-4c55-9f0e-2b7a1d4e5f60"], '["6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60"]', '["x"]'),
    ("time", ["10:00:00.50"], '["10:00:00.5"]', '["10:00:00"]'),
    ("bytes", [b"\0a"], r'["\\x0061"]', '["\\\\x0062"]'),
]


@pytest.mark.parametrize(("items", "values", "equal", "other"), SAME, ids=[of[0] for of in SAME])
def test_verify_finds_a_messages_array_equal_to_what_postgres_prints(
    items: str, values: list[Any], equal: str, other: str
) -> None:
    of = column_type(f"array<{items}>")
    assert array_text(values, of) == array_text(equal, of)
    assert array_text(values, of) != array_text(other, of)
    assert array_text(None, of) is None
    assert array_text([], of) == array_text("[]", of) != array_text([None], of)
    assert json.loads(array_text(other, of) or "") == json.loads(other)


def test_rows_that_were_there_before_the_column_get_an_array() -> None:
    contract = contract_of({})
    table = replace(load(Path("x.odcs.yaml"), WITH_ARRAYS).row_table)
    filled = fills(replace(contract, tables=(table,)), ['tags=["a","b\'"]', "prices=[1.5]"])
    assert filled == {"tags": """'{"a","b''"}'""", "prices": """'{"1.5"}'"""}


@pytest.mark.parametrize(
    ("items", "kinds"),
    [
        ("decimal(12,2)", [ChangeClass.REPLAY]),
        ("decimal(8,2)", [ChangeClass.BREAKS_PRODUCERS, ChangeClass.REPLAY]),
        ("integer", [ChangeClass.BREAKS_PRODUCERS, ChangeClass.REPLAY]),
    ],
)
def test_other_items_have_all_rows_made_again(items: str, kinds: list[ChangeClass]) -> None:
    before = load(Path("x.odcs.yaml"), WITH_ARRAYS)
    after = load(Path("x.odcs.yaml"), WITH_ARRAYS.replace("array<decimal(10,2)>", f"array<{items}>"))
    found = plan(before, after, given=Given())
    assert [change.kind for change in found.changes] == kinds
    column = next(column for column in after.row_table.columns if column.name == "prices")
    assert [item.sql for item in found.statements] == [
        f'ALTER TABLE "shop"."orders" ALTER COLUMN "prices" TYPE {column.type.postgres}'
    ]
    assert "prices is numeric(10,2)[]" in found.refusals[0]


def test_a_new_column_of_arrays_is_a_free_change() -> None:
    good = load(Path("x.odcs.yaml"), GOOD)
    found = plan(good, load(Path("x.odcs.yaml"), WITH_ARRAYS), given=Given())
    assert {change.kind for change in found.changes} == {ChangeClass.FREE}
    assert [item.sql for item in found.statements] == [
        f'ALTER TABLE "shop"."orders" ADD COLUMN {column}' for column in ('"tags" text[]', '"prices" numeric(10,2)[]')
    ]


@pytest.mark.parametrize("logic", ["primaryKey: true", "transformLogic: max(tags)"])
def test_rows_are_not_grouped_by_arrays_nor_arrays_aggregated(logic: str) -> None:
    made = f"      - {{name: tags, physicalType: array<string>, required: true, {logic}}}\n"
    text_ = WITH_ARRAYS.replace("      - {name: total,", f"{made}      - {{name: total,")
    with pytest.raises(BadInput, match=r"tags is array<string>(, which cannot be grouped by|: it has no max)"):
        load(Path("x.odcs.yaml"), text_)
