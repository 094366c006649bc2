"""Reading a block and reading its messages alone give the same rows and the same faults, whatever the messages hold."""

import json
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Fault, Field
from platform_defs.formats.blocks.decoded import Row
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.json.decode import decode
from platform_defs.formats.json.single import MessageReader

TYPES = {
    "s": "string",
    "i": "integer",
    "f": "double",
    "b": "boolean",
    "d": "date",
    "t": "timestamp",
    "m": "decimal(6,2)",
    "wide": "decimal(38,30)",
    "u": "uuid",
    "c": "time",
    "r": "bytes",
    "as": "array<string>",
    "ai": "array<integer>",
    "am": "array<decimal(6,2)>",
    "at": "array<timestamp>",
    "ar": "array<bytes>",
}
ARRAYS = {"as": "s", "ai": "i", "am": "m", "at": "t", "ar": "r"}


def contract_of(types: Mapping[str, str]) -> Contract:
    """Return a contract with a column of each type, by name."""
    fields = tuple(Field(name, column_type(of), required=False, rules=()) for name, of in types.items())
    return Contract("p", "1", "d", "", "t", "json", fields, tables=())


CONTRACT = contract_of(TYPES)

DIGITS = st.text("0123456789", min_size=1, max_size=40)
SIGNS, ENDS = st.sampled_from(["", "-", "+"]), st.sampled_from(["", ".", ".0", "e3"])
ODD_NUMBERS = """NaN Inf Infinity -Inf -Infinity -NaN 1e400 1e-400 -0 -0.0 .5 5. 01 1e 1E+2 0x10 1_0 - 0e99
    9999.99 10000 1e99999999999 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809"""
NUMBERS = st.one_of(
    st.builds(lambda sign, digits, end: sign + digits + end, SIGNS, DIGITS, ENDS),
    st.builds(lambda a, b: f"{a}.{b}", st.integers(-100_000, 100_000), DIGITS),
    st.builds(lambda a, b: f"{a}e{b}", st.floats(allow_nan=False, allow_infinity=False), st.integers(-400, 400)),
    st.sampled_from(ODD_NUMBERS.split()),
)
ESCAPES = [r"\u0000", r"\ud800", r"\udc00", r"\ud83d\ude00", r"\"", r"\\", r"\/", r"\x41", r"\u00e9", *"é😀\t\n"]
ODD_DAYS = "2026-02-29 2024-02-29 2000-02-29 1900-02-29 0000-01-01 0001-01-01 9999-12-31 2026-13-01 2026-04-31 1-1-1"
ODD_UUIDS = """6F1C0B9E-8d3a-4c55-9f0e-2b7a1d4e5f60 6f1c0b9e8d3a4c559f0e2b7a1d4e5f60 6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f6
    {6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60} 6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f6g 6f1c0b9-e8d3a-4c55-9f0e-2b7a1d4e5f60"""
ODD_TIMES = "10:00:00.100000 10:00:00.000Z 00:00:00 23:59:59.999999Z 24:00:00 10:00 10:00:60 10:00:00+01:00 10:00:00."
TEXTS = st.lists(st.one_of(st.text("ab}{[]:,\"'\\ -", max_size=3), st.sampled_from(ESCAPES)), max_size=4).map("".join)
TIMES = st.builds(
    lambda day, between, time, fraction, zone: day + between + time + fraction + zone,
    st.one_of(
        st.dates().map(str),
        st.sampled_from(
            ["2026-02-29", "2024-02-29", "2000-02-29", "1900-02-29", "0000-01-01", "2026-13-01", "2026-04-31", "1-1-1"]
        ),
    ),
    st.sampled_from(["T", "T", "T", " ", "t", ""]),
    st.sampled_from(["10:00:00", "23:59:59", "24:00:00", "10:00:60", "10:00", "10", "10:60:00", "100000"]),
    st.sampled_from(["", "", ".1", ".123456", ".1234567", ".", ".999999"]),
    st.sampled_from(["Z", "Z", "Z", "+01:00", "-23:59", "+24:00", "+0100", "+01", "", "z", " Z", "ZZ", "-00:00"]),
)
STRINGS = st.one_of(TEXTS, NUMBERS, TIMES, st.dates().map(str)).map(lambda text: f'"{text}"')
SCALARS = st.one_of(st.sampled_from(["null", "true", "false", "True", "nul", ""]), NUMBERS, STRINGS)
NESTED = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(STRINGS, inner), max_size=3).map(lambda pairs: f"{{{','.join(map(':'.join, pairs))}}}"),
    ),
    max_leaves=5,
)
GOOD = {
    "s": st.text(max_size=5).map(json.dumps),
    "i": st.integers(-(2**63), 2**63 - 1).map(str),
    "f": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "b": st.sampled_from(["true", "false"]),
    "d": st.dates().map(lambda day: f'"{day}"'),
    "t": st.datetimes().map(lambda time: f'"{time.isoformat()}Z"'),
    "m": st.decimals(-9999, 9999, places=2).map(lambda number: f'"{number}"'),
    "wide": st.decimals(-99, 99, places=20).map(lambda number: f"{number:f}"),
    "u": st.uuids().map(lambda one: f'"{one}"'),
    "c": st.times().map(lambda time: f'"{time.isoformat()}"'),
    "r": st.binary(max_size=8).map(lambda value: f'"{b64encode(value).decode()}"'),
}


def arrays(items: Mapping[str, st.SearchStrategy[str]]) -> dict[str, st.SearchStrategy[str]]:
    """Return arrays of the same items that the columns of single values have."""
    return {
        name: st.lists(items[of], max_size=4).map(lambda found: f"[{','.join(found)}]") for name, of in ARRAYS.items()
    }


GOOD |= arrays(GOOD)
ODD = {  # values that look right, and that readers tend to read differently
    "s": TEXTS.map(lambda text: f'"{text}"'),
    "i": NUMBERS,
    "f": NUMBERS,
    "b": SCALARS,
    "d": st.sampled_from(ODD_DAYS.split()).map(lambda day: f'"{day}"'),
    "t": TIMES.map(lambda time: f'"{time}"'),
    "m": st.one_of(NUMBERS, NUMBERS.map(lambda number: f'"{number}"')),
    "wide": st.one_of(NUMBERS, NUMBERS.map(lambda number: f'"{number}"')),
    "u": st.sampled_from(ODD_UUIDS.split()).map(lambda text: f'"{text}"'),
    "c": st.sampled_from(ODD_TIMES.split()).map(lambda text: f'"{text}"'),
    "r": st.text("AQRgw+/=-_ ", max_size=9).map(lambda text: f'"{text}"'),
}
ODD |= arrays({name: st.one_of(GOOD[name], ODD[name], st.just("null")) for name in ARRAYS.values()})
SPACES = st.sampled_from(["", "", " ", "\n", "\x0b"])
KNOWN_KEYS = st.sampled_from(list(TYPES))
KEYS = st.one_of(KNOWN_KEYS, st.sampled_from(["x", "", r"\u0073", r"s\u0000", "sx", "wid", "é", r"\ud800"]))
GOOD_PAIRS = KNOWN_KEYS.flatmap(lambda key: GOOD[key].map(lambda value: f'"{key}":{value}'))
ODD_PAIRS = KNOWN_KEYS.flatmap(lambda key: ODD[key].map(lambda value: f'"{key}":{value}'))
UNKNOWN_PAIRS = NESTED.map(lambda value: f'"x":{value}')
ANY_PAIRS = st.builds(lambda key, space, value: f'"{key}"{space}:{space}{value}', KEYS, SPACES, NESTED)


def message(pairs: list[str]) -> bytes:
    return f"{{{','.join(pairs)}}}".encode("utf-8", "surrogatepass")


def key_of(pair: str) -> str:
    return pair.split(":")[0]


GOOD_OBJECTS = st.lists(GOOD_PAIRS, max_size=8, unique_by=key_of).map(message)
ODD_OBJECTS = st.lists(st.one_of(ODD_PAIRS, UNKNOWN_PAIRS), min_size=1, max_size=2, unique_by=key_of).map(message)
ANY_OBJECTS = st.lists(st.one_of(GOOD_PAIRS, ANY_PAIRS), max_size=5).map(message)
PIECES = [b"", b"\0", b"\n", b"\r", b"\xff", b"\xed\xa0\x80", b"{}", b"}{", b"}\n{", b'"', b","]
NEARLY = [
    b"",
    b" ",
    b"{",
    b"}",
    b"{}",
    b"{}{}",
    b"{}\n{}",
    b"{}\0}",
    b"\xef\xbb\xbf{}",
    b" {} ",
    b'{"x":{}',
    b'{"x":"}',
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a message with a piece cut out or something put in."""
    whole = draw(st.one_of(GOOD_OBJECTS, ANY_OBJECTS))
    start, length = draw(st.integers(0, len(whole))), draw(st.integers(0, 3))
    return whole[:start] + draw(st.sampled_from(PIECES)) + whole[start + length :]


LINES = st.one_of(GOOD_OBJECTS, ODD_OBJECTS)  # most are read as a block
VALUES = st.one_of(
    LINES,
    ANY_OBJECTS,
    damaged(),
    NESTED.map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=6),
    st.none(),
    st.sampled_from(NEARLY),
)


def one_by_one(contract: Contract, values: Sequence[bytes | None]) -> tuple[dict[int, Row], dict[int, Reason]]:
    reader = MessageReader(contract)
    found = {index: reader.read(value) for index, value in enumerate(values)}
    return (
        {index: row for index, row in found.items() if isinstance(row, Row)},
        {index: reason for index, reason in found.items() if isinstance(reason, Reason)},
    )


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return one == other


def assert_agreement(values: Sequence[bytes | None], contract: Contract = CONTRACT) -> None:
    rows, faults = one_by_one(contract, values)
    decoded = decode(contract, pa.array(values, pa.binary()))
    assert decoded.indexes.to_pylist() == list(rows)
    for got, row in zip(decoded.rows.to_pylist(), rows.values(), strict=True):
        for item, wanted in zip(contract.fields, row.values, strict=True):
            assert same(got[item.name], wanted), (item.name, got[item.name], wanted)
    assert [fault.index for fault in decoded.faults] == list(faults)
    assert [(fault.error_class, fault.message, fault.field) for fault in decoded.faults] == [
        (reason.error_class, reason.message, reason.field) for reason in faults.values()
    ]
    assert decoded.unknown_fields == sum(row.unknown for row in rows.values())
    assert_storable(contract, decoded.rows, decoded.faults)


def assert_storable(contract: Contract, rows: pa.RecordBatch, faults: Sequence[Fault]) -> None:
    assert rows.schema == contract.arrow_schema
    rows.validate(full=True)
    texts = [item.name for item in contract.fields if item.type.arrow == pa.string()]
    assert not any("\0" in text for name in texts for text in rows.column(name).to_pylist() if text)
    for fault in faults:
        assert "\0" not in fault.message
        assert fault.message.encode("utf-8")


@pytest.mark.longest
@settings(max_examples=100, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=12))
@example([b'{"s":"a"}{"s":"c"}\0}', b'{"s":"b"}'])
@example([b'{"wide":4484316898769}'])  # pyarrow shifts it by 30 digits in 128 bits and reads 75867484.87...
@example([b'{"\\u0073":"a"}', b'{"\\u0073":"a","x":1}', b'{"x":1}'])
@example([b'{"x":"\xff"}', b"{}"])
@example([b'{"x":Inf}', b"{}"])
def test_a_block_is_read_as_its_messages_are(values: list[bytes | None]) -> None:
    assert_agreement(values)


@pytest.mark.longest
@settings(max_examples=120, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=3))
@example([b'{"f":NaN}'])
@example([b'{"s":"\xff"}'])
@example([b'{"s":"\\u0000"}'])
@example([b'{"s":"\\u0000","x":1}', b'{"s":"a"}', b'{"x":2}'])
@example([b'{"m":1.0e-230}'])  # pyarrow reads past the end of a table: 0.00
@example([b'{"m":"1.05E-0040"}', b'{"m":1}'])
@example([b'{"m":1e-99999999}'])  # and crashes the process
@example([b'{"m":"1e+-1"}', b'{"m":"1e0x2"}'])  # no exponents, but pyarrow takes them
@example([b'{"m":"1e+-99999999"}'])
@example([b'{"m":"1e0xF0000001"}', b'{"wide":"7E0X4"}'])
@example([b'{"m":"1e-0x1"}', b'{"m":"1e++1"}', b'{"m":"1e--1"}', b'{"m":"1e+0x1"}'])
@example([b'{"m":"1\\u0065-99999999"}'])
@example([b'{"\\u006d":1e-99999999}', b'{"m": "+1e-99999999" }'])
@example([b'{"m":0.' + b"0" * 40 + b"1}"])
@example([b'{"wide":1e-99999999}', b'{"wide":0.' + b"0" * 80 + b"1}"])
@example([b'{"t":"2026-11-01T10Z"}'])
@example([b'{"t":"9999-12-31T23:59:59-00:01"}'])
def test_what_a_few_lines_hold_is_read_as_it_is_alone(values: list[bytes]) -> None:
    assert_agreement(values)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(TIMES)
def test_the_calendar_is_the_same_for_a_column_and_for_one_value(time: str) -> None:
    assert_agreement([f'{{"t":"{time}"}}'.encode(), b'{"t":"2026-11-01T10:00:00Z"}'])


@settings(max_examples=10, deadline=None)
@given(st.lists(GOOD_OBJECTS, min_size=1, max_size=5), st.lists(VALUES, min_size=1, max_size=5), st.randoms())
def test_a_long_block_keeps_rows_beside_their_positions(good: list[bytes], bad: list[bytes | None], random) -> None:
    values = [*good * 100, *bad * 3]
    random.shuffle(values)
    assert_agreement(values)
