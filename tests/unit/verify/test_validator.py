"""verify's own validator: the rows that it accepts, and its agreement with the engine about every message."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field, RowRule
from platform_defs.engine.task.row_checks import check_rows
from platform_defs.formats.json import json_text, lines
from platform_defs.formats.json.decode import decode
from platform_defs.verify.decoders import documents
from platform_defs.verify.validators.key_validators import KeyValidator
from platform_defs.verify.validators.patterns import whole_match
from platform_defs.verify.validators.validator import NoRow, Validator
from tests.unit.formats.json.test_decode_agreement import CONTRACT, VALUES

pytestmark = pytest.mark.long


def field(name: str, kind: str, required: bool = False, path: tuple[str, ...] = (), **rules: Any) -> Field:
    kinds: list[tuple[Any, Any]] = [*([("required", None)] if required else []), *rules.items()]
    made = tuple(RowRule(f"{name}_{rule}", name, rule, argument, "") for rule, argument in kinds)
    return Field(name, column_type(kind), required, made, physical_path=path)


def contract(*fields: Field) -> Contract:
    return Contract("p", "1", "d", "", "t", "json", fields, ())


RULED = contract(
    field("s", "string", True, pattern=r"[ab\s]*|é+|\S{3}", min_length=1, max_length=4),
    field("i", "integer", enum=(0, 1, 7), maximum=5),
    field("f", "double", minimum=-1.5, maximum=1e10),
    field("d", "date", minimum=date(2000, 1, 1)),
    field("t", "timestamp", maximum=datetime(2026, 6, 1, tzinfo=UTC)),
    field("m", "decimal(6,2)", True, minimum=Decimal("0.01"), maximum=Decimal("1000")),
    field("b", "boolean", True),
)


def engine(contract: Contract, values: list[bytes | None]) -> list[Any]:
    """Return the engine's result for each value: a tuple, or the error class of the fault."""
    decoded = check_rows(contract.fields, decode(contract, pa.array(values, pa.binary())))
    outcome: dict[int, Any] = {fault.index: NoRow(fault.error_class) for fault in decoded.faults}
    rows = zip(*(column.to_pylist() for column in decoded.rows.columns), strict=True)
    indexes: list[Any] = decoded.indexes.to_pylist()
    outcome.update(zip(indexes, rows, strict=True))
    return [outcome[n] for n in range(len(values))]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=6))
@example(
    [
        b'{"m":1e99999999999}',
        b'{"m":"1e-99999999999"}',
        b'{"m":0e99}',
        b'{"m":0e999999999999999999}',
        b'{"m":"+.5"}',
        b'{"m":-0.00}',
    ]
)
@example([b'{"x":' + b"9" * 5000 + b"}", b"[" * 100_000, b'{"x":' + b"[" * 99 + b"]" * 99 + b"}"])
@example([b'{"x":' + b"[" * 100 + b"]" * 100 + b"}", b"\xef\xbb\xbf{}", b'{"x":1,"x":2}', b'{"s":"a","\\u0073":"b"}'])
def test_validator_and_engine_agree_about_every_value(values: list[bytes | None]) -> None:
    validator = Validator(CONTRACT)
    for value, theirs in zip(values, engine(CONTRACT, values), strict=True):
        ours = validator.value(value)
        if isinstance(ours, NoRow) or isinstance(theirs, NoRow):
            assert isinstance(ours, NoRow), (value, ours, theirs)
            assert isinstance(theirs, NoRow), (value, ours, theirs)
        else:
            assert ours == theirs, value


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "s": (
                st.text("abcé \n\v\x0c\x1c$", max_size=5)
                .map(lambda s: f'"{s.encode("unicode_escape").decode()}"')
                .filter(lambda s: "\\x" not in s)
            ),
            "i": st.integers(-2, 9).map(str),
            "f": st.floats(-3, 3).map(repr),
            "d": st.dates(date(1999, 1, 1), date(2001, 1, 1)).map(lambda d: f'"{d}"'),
            "t": st.datetimes(datetime(2026, 5, 31), datetime(2026, 6, 2)).map(  # noqa: DTZ001
                lambda t: f'"{t.isoformat()}+02:00"'
            ),
            "m": st.decimals(-1, 1001, places=2).map(lambda m: f'"{m}"'),
            "b": st.sampled_from(["true", "false", "null"]),
        },
    )
)
def test_validator_and_engine_agree_about_every_rule(fields: dict[str, str]) -> None:
    value = ("{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}").encode()
    assert engine(RULED, [value]) == [Validator(RULED).value(value)]


PATTERN = st.lists(
    st.sampled_from(
        [
            "a",
            "é",
            ".",
            r"\d",
            r"\w",
            r"\s",
            r"\S",
            "[a-c]",
            r"[^\s@]",
            r"[\d_]",
            "a|b",
            "(?:ab)",
            "(a)",
            "^",
            "$",
            r"\.",
            "b{2}",
            "a{1,2}",
            "{,2}",
            "(?i)A",
            r"\pL",
            "[[:alpha:]]",
            r"\bb",
            "[]a]",
            r"\v",
        ]
    ),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(PATTERN, st.sampled_from(["", "*", "+", "?", "*?"]), st.text("abéA1_ @.\n\v\r{},2K\x1c٣", max_size=4))
def test_a_pattern_means_what_it_means_to_the_engine(parts: list[str], repeat: str, text: str) -> None:
    pattern = "".join(parts) + (repeat if parts and parts[-1][-1] not in "^$" else "")
    assert_means_the_same(pattern, text)


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("abé中😀\\.*+?()[]{}|^$1,-:PpLdwsSbBzAQECx0Ki"), max_size=8), st.text(max_size=4))
@example("(", "")
@example("a**", "a")
@example("(?=a)", "")
@example(r"\1", "")
@example("a{1001}", "a")
@example(r"\Qa", "a")
@example("(?i)é", "É")
@example("[^a]", "😀")
@example(".", "\U0010ffff")
@example("(?s).", "\n")
@example(r"\pL+", "éß")
@example(r"\C", "é")
def test_any_text_is_a_pattern_to_both_or_to_neither(pattern: str, text: str) -> None:
    assert_means_the_same(pattern, text)


def assert_means_the_same(pattern: str, text: str) -> None:
    """Assert that both match `text` alike. Patterns must be RE2's, alone and anchored (contract/reader/rules.py)."""
    value = '{"s":' + json.dumps(text) + "}"
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
        theirs = engine(contract(field("s", "string", pattern=pattern)), [value.encode()])[0]
    except pa.ArrowInvalid:
        if not pattern.rpartition(r"\Q")[1]:  # \Q without \E is a pattern, but not once it is anchored
            with pytest.raises(re2.error):
                whole_match(pattern)
        return
    if "\0" not in text:
        assert whole_match(pattern)(text) == (theirs == (text,)), (pattern, text)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "NullValue"),
        (b"", "EmptyValue"),
        (b" \n", "EmptyValue"),
        (b"{", "InvalidJson"),
        (b"{}{}", "InvalidJson"),
        (b"[]", "NotAnObject"),
        (b"\xff", "InvalidUtf8"),
        (b'{"m":12.345}', "TooManyDecimals"),
        (b'{"m":NaN}', "InvalidJson"),
        (b'{"d":"2026-02-30"}', "InvalidDate"),
        (b'{"s":"\\u0000"}', "NulCharacter"),
        (b'{"s":"a","s":"a"}', "DuplicateKey"),
        (b"{}", "s_required"),
    ],
)
def test_it_says_why_a_message_is_no_row(value: bytes | None, reason: str) -> None:
    assert Validator(RULED).value(value) == NoRow(reason)


def test_a_fault_of_decoding_is_named_before_a_broken_rule() -> None:
    assert Validator(RULED).value(b'{"i":9,"m":"x"}') == NoRow("WrongType")


def test_keys_are_text_that_postgres_can_hold() -> None:
    keys = KeyValidator()
    assert keys.at(0, 0, b"C1", None) == "C1"
    assert [keys.at(0, 0, key, None) for key in (None, b"\xff", b"a\0")] == [
        NoRow("MissingKey"),
        NoRow("InvalidUtf8"),
        NoRow("NulCharacter"),
    ]


def assert_same_verdict(kind: str, text: str) -> Any:
    """Return the result for `text` in a column of type `kind`; both must have the same."""
    of = contract(field("c", kind))
    value = f'{{"c":{text}}}'.encode()
    ours = Validator(of).value(value)
    assert engine(of, [value, value]) == [ours, ours]
    return ours


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("1" + "0" * 1_000_000, NoRow("OutOfRange")),
        ("1." + "0" * 1_000_000, (Decimal(1),)),
        ("1" + "0" * 1_000_000 + "e-1000000", (Decimal(1),)),
        ("0." + "0" * 1_000_000, (Decimal(0),)),
        ("1e" + "0" * 1_000_000 + "1", (Decimal(10),)),
        ('"' + "1" * 1_000_000 + 'x"', NoRow("WrongType")),
        ('"1e' + "0" * 1_000_000 + 'x"', NoRow("WrongType")),
        ("0e99999999999999999999", (Decimal(0),)),
        ("1e99999999999999999999", NoRow("OutOfRange")),
        ("1e-99999999999999999999", NoRow("TooManyDecimals")),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_decimal_of_any_length_takes_no_time_worth_the_name(text: str, verdict: Any) -> None:
    assert assert_same_verdict("decimal(6,2)", text) == verdict


@pytest.mark.parametrize("digits", [28, 29, 30, 38])
@pytest.mark.parametrize("sign", ["", "-"])
def test_the_largest_decimal_is_a_row(digits: int, sign: str) -> None:
    nines = sign + "9" * digits
    assert assert_same_verdict(f"decimal({digits},0)", nines) == (Decimal(nines),)
    assert assert_same_verdict(f"decimal({digits},0)", nines + "9") == NoRow("OutOfRange")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("0e131073", ("0e131073",)),
        ("0.0e131074", ("0.0e131074",)),
        ("-0e99999999", ("-0e99999999",)),
        ("0e1073741822", ("0e1073741822",)),
        ("0e1073741823", NoRow("OutOfRange")),
        ("0e-16384", NoRow("OutOfRange")),
        ("1e" + "0" * 5000 + "1", ("1e" + "0" * 5000 + "1",)),
        ("[" + ",".join(["1e131071"] * 9000) + "]", NoRow("TooLarge")),
        ("[" + ",".join(["1e-16383"] * 9000) + "]", NoRow("TooLarge")),
        ("[" + ",".join(["1e308"] * 110_000) + "]", NoRow("TooLarge")),
    ],
    ids=lambda value: str(value)[:20],
)
def test_numbers_in_json_are_judged_as_jsonb_prints_them(text: str, verdict: Any) -> None:
    assert assert_same_verdict("json", text) == verdict


@pytest.mark.parametrize(
    ("number", "size"), [("1e131071", 131_072), ("-1.50e3", 5), ("-12e-3", 6), ("0e9", 1), ("1.5e-1", 4)]
)
def test_both_write_a_number_out_alike(number: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, is_row in ((size, True), (size - 1, False)):
        monkeypatch.setattr(documents, "JSONB_BYTES", limit)
        for module in (json_text, lines):
            monkeypatch.setattr(module, "MAX_BYTES", limit)
        monkeypatch.setattr(lines, "_NO_LARGER_WRITTEN_OUT", 0)
        assert assert_same_verdict("json", number) == ((number,) if is_row else NoRow("TooLarge"))


def test_both_count_levels_on_the_way_to_a_field() -> None:
    for levels in (100, 101):
        of = contract(field("c", "string", path=("k",) * levels))
        value = b'{"k":' * levels + b'"a"' + b"}" * levels
        ours = Validator(of).value(value)
        assert ours == (("a",) if levels == 100 else NoRow("TooDeep"))
        assert engine(of, [value, value]) == [ours, ours]
