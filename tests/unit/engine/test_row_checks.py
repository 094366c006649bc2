"""The contract's row rules: the rows that pass, and the faults of the others."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field, RowRule
from platform_defs.contract.reader.odcs import load
from platform_defs.engine.task.row_checks import check_rows
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.json.decode import decode

BANK = load(Path(__file__).parents[3] / "assets/bank/transfers.odcs.yaml")
SOUND = (
    b'{"transfer_id":"T1","debit_account":"A00001","credit_account":"A00002","amount":"12.34",'
    b'"currency":"EUR","occurred_at":"2026-11-01T10:00:00Z","memo":"payment"}'
)


def decode_block(contract: Contract, values: Sequence[bytes | None]) -> Decoded:
    return decode(contract, pa.array(values, pa.binary()))


def contract(*rules: RowRule, of: str) -> Contract:
    field = Field("a", column_type(of), required=False, rules=rules)
    return Contract("p", "1", "d", "", "t", "json", fields=(field,), tables=())


def check(kind: Any, argument: Any, of: str, values: list[Any]) -> Decoded:
    checked = contract(RowRule(f"a_{kind}", "a", kind, argument, ""), of=of)
    rows = pa.RecordBatch.from_arrays([pa.array(values, checked.fields[0].type.arrow)], schema=checked.arrow_schema)
    return check_rows(checked.fields, Decoded(rows, pa.array(range(len(values)), pa.int64()), [], 0))


@pytest.mark.parametrize(
    ("kind", "argument", "of", "keep", "broken"),
    [
        ("required", None, "string", [""], [None]),
        ("enum", ("x", "y"), "string", ["x", None], ["z", "X", "", "x "]),
        ("enum", (1, 2), "integer", [1, None], [3]),
        ("pattern", "A[0-9]{2}", "string", ["A12", None], ["A1", "A123", "xA12", "A12\n", "A\u0661\u0662", ""]),
        ("pattern", "^A[0-9]{2}$", "string", ["A12", None], ["A123", "A12\n", "x\nA12"]),
        ("pattern", "a|bc", "string", ["a", "bc"], ["ac", "abc", "ab"]),
        ("pattern", "(?i)a.b", "string", ["AxB"], ["a\nb"]),
        ("minimum", Decimal("0.01"), "decimal(18,2)", [Decimal("0.01"), None], [Decimal(0), Decimal(-5)]),
        ("maximum", 5, "integer", [5, None], [6]),
        ("minimum", 0.5, "double", [0.5, None], [0.4999]),
        ("maximum", date(2026, 1, 1), "date", [date(2026, 1, 1), None], [date(2026, 1, 2)]),
        (
            "minimum",
            datetime(2026, 1, 1, tzinfo=UTC),
            "timestamp",
            [datetime(2026, 1, 1, tzinfo=UTC)],
            [datetime(2025, 12, 31, 23, 59, tzinfo=UTC)],
        ),
        ("min_length", 2, "string", ["ab", "ßß", None], ["a", "", "😀"]),
        ("max_length", 2, "string", ["ab", "😀😀", "", None], ["abc"]),
    ],
)
def test_a_rule_keeps_and_breaks(kind: str, argument: Any, of: str, keep: list[Any], broken: list[Any]) -> None:
    checked = check(kind, argument, of, [*keep, *broken])
    assert checked.rows.column("a").to_pylist() == keep
    assert checked.indexes.to_pylist() == list(range(len(keep)))
    assert [fault.index for fault in checked.faults] == list(range(len(keep), len(keep) + len(broken)))
    assert {(fault.stage, fault.error_class, fault.field) for fault in checked.faults} == {("check", f"a_{kind}", "a")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((b'"12.34"', b'"-5.00"'), "amount is -5.00; the contract requires at least 0.01"),
        ((b'"12.34"', b"1000000.01"), "amount is 1000000.01; the contract requires at most 1000000"),
        ((b'"amount":"12.34",', b""), "amount is missing; the contract requires a value"),
        ((b'"12.34"', b"null"), "amount is missing; the contract requires a value"),
        ((b"EUR", b"DEM"), "currency is DEM; the contract requires one of CHF, EUR, GBP, USD"),
        ((b"A00001", b"A1"), "debit_account is A1; the contract requires a match of A[0-9]{5}"),
        ((b"payment", b"x" * 141), f"memo is {'x' * 80}…; the contract requires at most 140 characters"),
    ],
)
def test_a_fault_says_the_value_and_the_rule(change: tuple[bytes, bytes], message: str) -> None:
    checked = check_rows(BANK.fields, decode_block(BANK, [SOUND, SOUND.replace(*change)]))
    assert [fault.message for fault in checked.faults] == [message]
    assert checked.indexes.to_pylist() == [0]


def test_a_message_that_breaks_several_rules_is_one_fault_of_the_first() -> None:
    wrong = SOUND.replace(b"EUR", b"DEM").replace(b"12.34", b"-1").replace(b"A00002", b"")
    (fault,) = check_rows(BANK.fields, decode_block(BANK, [wrong])).faults
    assert fault.error_class == "credit_account_pattern"


def test_faults_of_both_stages_stand_in_the_order_of_the_block() -> None:
    values = [b"x", SOUND, SOUND.replace(b"EUR", b"DEM"), b'{"amount":"x"}', SOUND, b"{}"]
    checked = check_rows(BANK.fields, decode_block(BANK, values))
    assert [(fault.index, fault.stage) for fault in checked.faults] == [
        (0, "decode"),
        (2, "check"),
        (3, "decode"),
        (5, "check"),
    ]
    assert checked.indexes.to_pylist() == [1, 4]
    assert checked.rows.num_rows == 2


def test_a_block_without_rows_passes() -> None:
    checked = check_rows(BANK.fields, decode_block(BANK, [b"x"]))
    assert (checked.rows.num_rows, len(checked.faults)) == (0, 1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=6)), max_size=20), st.integers(0, 3), st.integers(2, 5))
def test_every_message_is_either_a_row_or_one_fault(values: list[str | None], low: int, high: int) -> None:
    rules = (
        RowRule("a_required", "a", "required", None, ""),
        RowRule("a_min_length", "a", "min_length", low, ""),
        RowRule("a_max_length", "a", "max_length", high, ""),
    )
    checked = contract(*rules, of="string")
    rows = pa.RecordBatch.from_arrays([pa.array(values, pa.string())], schema=checked.arrow_schema)
    result = check_rows(checked.fields, Decoded(rows, pa.array(range(len(values)), pa.int64()), [], 0))
    keeps = [index for index, value in enumerate(values) if value is not None and low <= len(value) <= high]
    assert result.indexes.to_pylist() == keeps
    assert result.rows.column("a").to_pylist() == [values[index] for index in keeps]
    assert sorted([*keeps, *(fault.index for fault in result.faults)]) == list(range(len(values)))
