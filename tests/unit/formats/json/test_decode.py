"""Messages that become rows, and the reason why each other message is refused."""

import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.json.decode import decode
from tests.unit.formats.json.test_decode_agreement import contract_of

TYPES = {
    "text": "string",
    "whole": "integer",
    "ratio": "double",
    "flag": "boolean",
    "day": "date",
    "at": "timestamp",
    "money": "decimal(18,2)",
}
CONTRACT = contract_of(TYPES)
GOOD = b'{"text":"a","money":1}'


def decode_block(contract: Contract, values: Sequence[bytes | None]) -> Decoded:
    return decode(contract, pa.array(values, pa.binary()))


def row(value: bytes) -> dict[str, Any]:
    decoded = decode_block(CONTRACT, [GOOD, value, GOOD])
    assert decoded.faults == []
    assert decoded.indexes.to_pylist() == [0, 1, 2]
    return {name: got for name, got in decoded.rows.to_pylist()[1].items() if got is not None}


def fault(value: bytes | None) -> Fault:
    decoded = decode_block(CONTRACT, [GOOD, value, GOOD])
    assert decoded.indexes.to_pylist() == [0, 2]
    (found,) = decoded.faults
    assert (found.index, found.stage) == (1, "decode")
    return found


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (b"{}", {}),
        (b'{"text":null,"money":null}', {}),
        (b' {"text":"a"}\r\n', {"text": "a"}),
        (b'{\n  "text": "a",\n  "flag": true\n}', {"text": "a", "flag": True}),
        (b'{"te\\u0078t":"a"}', {"text": "a"}),
        (b'{"text":"\\ud83d\\ude00"}', {"text": "😀"}),
        ('{"text":"ß"}'.encode(), {"text": "ß"}),
        (b'{"whole":-9223372036854775808}', {"whole": -(2**63)}),
        (b'{"ratio":1}', {"ratio": 1.0}),
        (b'{"ratio":1.5e-3}', {"ratio": 0.0015}),
        (b'{"day":"2024-02-29"}', {"day": date(2024, 2, 29)}),
        (b'{"at":"2026-11-01T10:00:00Z"}', {"at": datetime(2026, 11, 1, 10, tzinfo=UTC)}),
        (b'{"at":"2026-11-01 10:00:00.25+02:30"}', {"at": datetime(2026, 11, 1, 7, 30, 0, 250_000, UTC)}),
        (b'{"money":12.34}', {"money": Decimal("12.34")}),
        (b'{"money":"12.34"}', {"money": Decimal("12.34")}),
        (b'{"money":12.34000000000000000000000000}', {"money": Decimal("12.34")}),
        (b'{"money":1e3}', {"money": Decimal(1000)}),
        (b'{"money":-9999999999999999.99}', {"money": Decimal("-9999999999999999.99")}),
    ],
)
def test_a_message_is_a_row_in_every_spelling_of_json(value: bytes, wanted: dict[str, Any]) -> None:
    assert row(value) == wanted


@pytest.mark.parametrize(
    ("value", "error_class", "field", "message"),
    [
        (None, "NullValue", None, "no value"),
        (b"", "EmptyValue", None, "empty"),
        (b" \n", "EmptyValue", None, "blank: 2 bytes"),
        (b" ", "EmptyValue", None, "blank: 1 byte of whitespace"),
        (b"hello", "InvalidJson", None, "not JSON: expecting value at character 0: hello"),
        (b'{"text":"a', "InvalidJson", None, 'ends in the middle: {"text":"a'),
        (b'{"text":"a"', "InvalidJson", None, "ends in the middle"),
        (
            b'{"text":"a"}{"text":"b"}',
            "InvalidJson",
            None,
            'unexpected text after the end of the value, at character 12: {"te',
        ),
        (b'{"text":"a"}\n{"text":"b"}', "InvalidJson", None, "unexpected text"),
        (b'{"text":"a"}\0', "InvalidJson", None, r"unexpected text after the end of the value, at character 12: \x00"),
        (b'{"ratio":NaN}', "InvalidJson", None, "NaN is not valid JSON"),
        (b'{"other":-Infinity}', "InvalidJson", None, "-Infinity is not valid JSON"),
        (b'{"text":"a\nb"}', "InvalidJson", None, "control character"),
        (b"\xef\xbb\xbf{}", "InvalidJson", None, "byte-order mark"),
        (b'["a"]', "NotAnObject", None, 'not an object: ["a"]'),
        (b'"a"', "NotAnObject", None, "not an object"),
        (b"null", "NotAnObject", None, "not an object"),
        (b'{"text":"a\xff"}', "InvalidUtf8", None, r'byte 10 is not UTF-8 (invalid start byte), near {"text":"a\xff"}'),
        (b'{"other":"\xed\xa0\x80"}', "InvalidUtf8", None, "byte 10"),
        (b'{"text":"a\\u0000b"}', "NulCharacter", "text", r"holds \u0000, which Postgres' text cannot store: a\x00b"),
        (b'{"text":"\\ud800"}', "InvalidUnicode", "text", r"half a surrogate pair, which is not a character: \ud800"),
        (b'{"text":"a","text":"b"}', "DuplicateKey", "text", "text appears twice"),
        (b'{"text":null,"te\\u0078t":"b"}', "DuplicateKey", "text", "text appears twice"),
        (b'{"text":1}', "WrongType", "text", "text is the number 1; the contract requires a string"),
        (b'{"text":{}}', "WrongType", "text", "text is an object"),
        (b'{"text":[]}', "WrongType", "text", "text is an array"),
        (b'{"whole":"1"}', "WrongType", "whole", 'the string "1"; the contract requires an integer'),
        (b'{"whole":1.0}', "WrongType", "whole", "digits only"),
        (b'{"whole":9223372036854775808}', "OutOfRange", "whole", "64 bits"),
        (b'{"ratio":1e999}', "OutOfRange", "ratio", "1e999"),
        (b'{"ratio":true}', "WrongType", "ratio", "is true"),
        (b'{"flag":"true"}', "WrongType", "flag", "true or false"),
        (b'{"day":"2026-02-29"}', "InvalidDate", "day", "not a date"),
        (b'{"day":20000}', "WrongType", "day", "the contract requires a date"),
        (b'{"day":"0000-01-01"}', "OutOfRange", "day", "0001"),
        (b'{"at":"2026-11-01T10:00:00"}', "InvalidTimestamp", "at", "not a timestamp with a zone"),
        (b'{"at":"2026-11-31T10:00:00Z"}', "InvalidTimestamp", "at", "2026-11-31"),
        (b'{"at":"2026-11-01T10:00:00.1234567Z"}', "InvalidTimestamp", "at", ".1234567Z"),
        (
            b'{"at":"2026-11-01T10:00:00.123456789+01:00"}',
            "InvalidTimestamp",
            "at",
            "has 9 decimals; at most six",
        ),
        (b'{"at":"2026-11-01T10:00:00.1234567"}', "InvalidTimestamp", "at", "not a timestamp with a zone"),
        (b'{"at":"9999-12-31T23:59:59-01:00"}', "OutOfRange", "at", "9999"),
        (b'{"money":12.345}', "TooManyDecimals", "money", "12.345; decimal(18,2) keeps 2 and nothing is rounded"),
        (b'{"money":12345678901234567}', "OutOfRange", "money", "16 digits before the point"),
        (b'{"money":1e999999999999999999999}', "OutOfRange", "money", "has 16 digits before the point"),
        (b'{"money":"12,34"}', "WrongType", "money", "such as 12.34"),
        (b'{"money":"NaN"}', "WrongType", "money", "NaN"),
    ],
)
def test_a_message_that_is_no_row_says_why(value: bytes | None, error_class: str, field: str, message: str) -> None:
    found = fault(value)
    assert (found.error_class, found.field) == (error_class, field)
    assert message in found.message
    assert "\0" not in found.message


def test_a_long_value_is_cut_in_the_message() -> None:
    found = fault(b'{"whole":"' + b"x" * 1_000_000 + b'"}')
    assert len(found.message) < 200


@pytest.mark.slow
@pytest.mark.long
def test_deep_nesting_neither_crashes_nor_passes() -> None:
    """The test has a process of its own, since a failure would end the process."""
    code = """
from tests.unit.formats.json.test_decode import CONTRACT, GOOD, decode_block
depth = 100_000
for opened, closed in (("[", "]"), ('{"x":', "}")):
    for end in ("1" + closed * depth + "}", ""):
        value = ('{"x":' + opened * depth + end).encode()
        for block in ([value], [GOOD, value, GOOD], [GOOD] * 300 + [value]):
            decoded = decode_block(CONTRACT, block)
            assert [fault.error_class for fault in decoded.faults] == ['TooDeep'], (opened, end[:1], decoded.faults)
            assert decoded.rows.num_rows == len(block) - 1
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_hundred_levels_pass_and_brackets_in_strings_do_not_count() -> None:
    deep = b'{"x":' + b"[" * 99 + b"]" * 99 + b"}"
    assert row(deep) == {}
    assert fault(deep.replace(b"[", b"[[", 1).replace(b"]", b"]]", 1)).error_class == "TooDeep"
    assert row(b'{"text":"' + b"[{" * 500 + b'"}') == {"text": "[{" * 500}


def test_unknown_fields_are_counted_by_message_and_are_no_fault() -> None:
    values = [GOOD, b'{"x":1,"y":[{"text":5}]}', b'{"text":"b","x":{"x":1},"x":2}', b'{"te\\u0078t":"c"}', b'{"x":1']
    decoded = decode_block(CONTRACT, values)
    assert decoded.rows.column("text").to_pylist() == ["a", None, "b", "c"]
    assert (decoded.unknown_fields, [found.index for found in decoded.faults]) == (2, [4])


def test_ever_new_unknown_fields_do_not_fill_the_memory() -> None:
    values: list[bytes | None] = [b'{"text":"a","%d_%s":1}' % (n, b"x" * 200) for n in range(20_000)]
    tracemalloc.start()
    decoded = decode_block(CONTRACT, values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoded.unknown_fields == 20_000
    assert peak < 30_000_000


def test_an_empty_block_has_no_rows() -> None:
    decoded = decode_block(CONTRACT, [])
    assert (decoded.rows.num_rows, decoded.rows.schema) == (0, CONTRACT.arrow_schema)
    assert (decoded.indexes.to_pylist(), decoded.faults, decoded.unknown_fields) == ([], [], 0)


def test_a_block_of_faults_alone_has_no_rows() -> None:
    decoded = decode_block(CONTRACT, [b"x", None] * 300)
    assert (decoded.rows.num_rows, decoded.rows.schema, len(decoded.faults)) == (0, CONTRACT.arrow_schema, 600)


def test_values_larger_than_a_block_may_be_are_rows_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform_defs.formats.json.lines._MAX_BYTES", 2_000)
    decoded = decode_block(CONTRACT, [GOOD] * 500)
    assert decoded.rows.num_rows == 500
