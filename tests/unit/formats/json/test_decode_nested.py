r"""Fields inside objects, and json columns: their values are the same by block and one by one."""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Fault, Field, RowRule
from platform_defs.contract.model.message_path import parse_path
from platform_defs.engine.task.row_checks import check_rows
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.json.decode import decode
from tests.unit.formats.json.test_decode_agreement import NESTED, NUMBERS, STRINGS, assert_agreement


def contract(**fields: tuple[str, str]) -> Contract:
    """Return a contract of these fields: column name to (type, path as a physicalName)."""
    read = [
        Field(name, column_type(of), required=False, rules=(), physical_path=parse_path(path))
        for name, (of, path) in fields.items()
    ]
    return Contract("p", "1", "d", "", "t", "json", fields=tuple(read), tables=())


NESTING = {
    "device_id": ("string", "deviceId"),
    "city": ("string", "user.address.city"),
    "zip": ("integer", "user.address.zip"),
    "dotted": ("decimal(6,2)", r"a\.b.c d"),
    "at": ("timestamp", "user.at"),
    "umlaut": ("double", "größe.\\e"),
}
NESTED_ONLY = contract(**NESTING)
JSON_ONLY = contract(payload=("json", "payload"))
MIXED = contract(
    **NESTING,
    payload=("json", "payload"),
    tags=("json", "user.tags"),
    address=("json", "user.address"),
    x=("json", "x.y"),
)
CONTRACTS = [NESTED_ONLY, JSON_ONLY, MIXED]


def decoded(of: Contract, *values: bytes | None) -> Decoded:
    return decode(of, pa.array(values, pa.binary()))


def row(of: Contract, value: bytes) -> dict[str, Any]:
    """Return the row of `value` without nulls; it must be the same alone and in a block with others."""
    alone, between = decoded(of, value), decoded(of, b"{}", value, b"{}")
    assert alone.faults == between.faults == []
    assert alone.rows.to_pylist()[0] == between.rows.to_pylist()[1]
    return {name: got for name, got in alone.rows.to_pylist()[0].items() if got is not None}


def fault(of: Contract, value: bytes) -> Fault:
    (found,) = decoded(of, b"{}", value, b"{}").faults
    assert (found.index, found.stage) == (1, "decode")
    return found


# ── Paths ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (b'{"deviceId":"d1"}', {"device_id": "d1"}),
        (b'{"user":{"address":{"city":"Ulm","zip":89073}}}', {"city": "Ulm", "zip": 89073}),
        (b'{"user":{"address":{"city":null}}}', {}),
        (b'{"user":{"address":null}}', {}),
        (b'{"user":null}', {}),
        (b'{"user":{}}', {}),
        (b'{"a.b":{"c d":"1.25"},"a":{"b":{"c d":9}}}', {"dotted": Decimal("1.25")}),
        ('{"größe":{"":1.5}}'.encode(), {"umlaut": 1.5}),
        (b'{"gr\\u00f6\\u00dfe":{"":1.5}}', {"umlaut": 1.5}),
        (b'{"device_id":"the name is not the key","city":1}', {}),
    ],
)
def test_a_path_leads_to_the_value_or_to_null(value: bytes, wanted: dict[str, Any]) -> None:
    assert row(NESTED_ONLY, value) == wanted
    assert {k: v for k, v in row(MIXED, value).items() if k in NESTING} == wanted


@pytest.mark.parametrize("of", [NESTED_ONLY, MIXED])
@pytest.mark.parametrize(
    ("value", "error_class", "field", "message"),
    [
        (
            b'{"user":{"address":5}}',
            "WrongType",
            "city",
            "city (user.address.city) cannot be reached: user.address is the number 5; the contract requires an object",
        ),
        (b'{"user":[{"address":{}}]}', "WrongType", "city", "user is an array; the contract requires an object"),
        (b'{"user":"x"}', "WrongType", "city", 'user is the string "x"'),
        (b'{"user":false}', "WrongType", "city", "user is false"),
        (b'{"a.b":1}', "WrongType", "dotted", r"dotted (a\.b.c d) cannot be reached: a\.b is the number 1"),
        (
            b'{"user":{"address":{"zip":"1"}}}',
            "WrongType",
            "zip",
            'zip (user.address.zip) is the string "1"; the contract requires an integer',
        ),
        (b'{"a.b":{"c d":1.234}}', "TooManyDecimals", "dotted", r"dotted (a\.b.c d) is 1.234"),
        (b'{"user":{"at":"now"}}', "InvalidTimestamp", "at", "at (user.at) is"),
        (b'{"deviceId":"a","deviceId":"b"}', "DuplicateKey", "device_id", "deviceId appears twice in the message"),
        (b'{"user":{},"user":null}', "DuplicateKey", "city", "user appears twice"),
        (b'{"user":{"address":{"zip":1,"zip":1}}}', "DuplicateKey", "zip", "user.address.zip appears twice"),
        (b'{"a.b":{"c d":1,"c d":2}}', "DuplicateKey", "dotted", r"a\.b.c d appears twice"),
    ],
)
def test_a_fault_names_the_column_and_the_path(
    of: Contract, value: bytes, error_class: str, field: str, message: str
) -> None:
    found = fault(of, value)
    assert (found.error_class, found.field) == (error_class, field)
    assert message in found.message


def test_an_object_on_the_way_that_appears_twice_is_a_fault_of_the_first_column_that_needs_it() -> None:
    value = b'{"user":{"address":{},"address":{}}}'
    assert fault(NESTED_ONLY, value).field == "city"
    assert fault(MIXED, value).field == "address"
    assert fault(MIXED, value).message.startswith("user.address appears twice in the message")


def test_a_rule_on_a_nested_field_goes_by_its_name_and_shows_its_path() -> None:
    rule = RowRule("city_min_length", "city", "min_length", 2, "")
    city = Field("city", column_type("string"), required=False, rules=(rule,), physical_path=("user", "city"))
    checked = Contract("p", "1", "d", "", "t", "json", fields=(city,), tables=())
    found = check_rows(checked.fields, decoded(checked, b'{"user":{"city":"Ulm"}}', b'{"user":{"city":"U"}}'))
    assert [(f.index, f.error_class, f.field) for f in found.faults] == [(1, "city_min_length", "city")]
    assert found.faults[0].message.startswith("city (user.city) is U; the contract requires")


def test_required_goes_for_json_columns_too() -> None:
    rule = RowRule("payload_required", "payload", "required", None, "")
    payload = Field("payload", column_type("json"), required=True, rules=(rule,))
    checked = Contract("p", "1", "d", "", "t", "json", fields=(payload,), tables=())
    found = check_rows(checked.fields, decoded(checked, b'{"payload":[null]}', b'{"payload":null}', b"{}"))
    assert [(f.index, f.error_class) for f in found.faults] == [(1, "payload_required"), (2, "payload_required")]


@pytest.mark.parametrize(
    ("of", "value", "unknown"),
    [
        (NESTED_ONLY, b'{"user":{"address":{"street":"x"}}}', 1),
        (NESTED_ONLY, b'{"user":{"name":"x","address":{"city":"Ulm"}}}', 1),
        (NESTED_ONLY, b'{"user":{"address":{"city":"Ulm"}}}', 0),
        (NESTED_ONLY, b'{"x":1,"user":{"y":1}}', 1),
        (MIXED, b'{"payload":{"anything":1}}', 0),
        (MIXED, b'{"user":{"address":{"street":"x"}}}', 0),  # user.address is kept whole besides
        (MIXED, b'{"user":{"name":"x"}}', 1),
        (MIXED, b'{"x":{"z":1}}', 1),
        (JSON_ONLY, b'{"payload":1,"other":1}', 1),
    ],
)
def test_unknown_fields_are_counted_in_each_object_that_is_taken_apart(
    of: Contract, value: bytes, unknown: int
) -> None:
    assert decoded(of, b"{}", value).unknown_fields == unknown
    assert decoded(of, value).unknown_fields == unknown


# ── By block and one by one ──────────────────────────────────────────────────────────────────────────────────────────

KNOWN = [
    "user",
    "user",
    "address",
    "city",
    "zip",
    "at",
    "tags",
    "deviceId",
    "payload",
    "a.b",
    "c d",
    "größe",
    "",
    "x",
    "y",
]
KEYS = st.sampled_from([*KNOWN, "\\u0075ser", "cit\\u0079", "\\u0000", "\\ud800", "z"])
LEAVES = st.one_of(
    st.sampled_from(["null", "{}", "[]", '"Ulm"', "89073", '"1.25"', "1.5", '"2026-11-01T10:00:00Z"', "true"]),
    NUMBERS,
    STRINGS,
)
SPACES = st.sampled_from(["", "", "", " ", "\n"])


def spelt_objects(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.builds(lambda key, space, value: f'"{key}":{space}{value}', KEYS, SPACES, inner)
    return st.lists(pair, max_size=4).map(lambda pairs: f"{{{','.join(pairs)}}}")


VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(spelt_objects(inner), st.lists(inner, max_size=2).map(lambda v: f"[{','.join(v)}]")),
    max_leaves=8,
)
ADDRESSES = st.sampled_from(['{"city":"a"}', '{"city":"b","zip":1}', "null"])
ROUND_NUMBERS = st.one_of(st.integers(-(2**63), 2**64), st.floats(allow_nan=False, allow_infinity=False)).map(repr)
PAYLOADS = st.recursive(
    st.one_of(ROUND_NUMBERS, STRINGS),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
    max_leaves=4,
)
GOOD = st.builds(
    lambda address, payload: f'{{"deviceId":"d","user":{{"address":{address}}},"payload":{payload}}}',
    ADDRESSES,
    PAYLOADS,
)
ANY = spelt_objects(st.one_of(VALUES, NESTED))
MESSAGES = st.one_of(GOOD, ANY).map(lambda text: text.encode("utf-8", "surrogatepass"))


@pytest.mark.slow
@pytest.mark.parametrize("of", CONTRACTS, ids=["nested", "json", "mixed"])
@settings(max_examples=100, deadline=None)
@given(values=st.lists(MESSAGES, min_size=1, max_size=6))
@example([b'{"user":{"address":{"city":"a"}}}', b'{"user":{"address":{"city":"a","city":"b"}}}', b'{"payload":1.00}'])
@example([b'{"payload":[]}', b'{"user":{"user": {}}}', b'{"payload":[]}', b'{"user":{"":1e+16e50}}'])
@example([b'{"payload":1e400}', b'{"payload":12345678901234567890123}', b'{"payload":-0.0}'])
@example([b'{"user":1,"payload":1}', b'{"user":{"tags":1},"payload":{"a":1,"a":2}}'])
def test_a_block_is_read_as_its_messages_are(of: Contract, values: list[bytes | None]) -> None:
    assert_agreement(values, of)


@settings(max_examples=10, deadline=None)
@given(st.lists(GOOD, min_size=1, max_size=4), st.lists(MESSAGES, min_size=1, max_size=4), st.randoms())
def test_a_long_block_keeps_rows_beside_their_positions(good: list[str], bad: list[bytes], random: Any) -> None:
    values: list[bytes | None] = [*(text.encode() for text in good * 60), *bad * 3]
    random.shuffle(values)
    assert_agreement(values, MIXED)


def parsed(text: str | bytes) -> Any:
    return json.loads(text, parse_float=Decimal)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(GOOD)
def test_the_text_of_a_json_column_means_what_the_message_says(text: str) -> None:
    for found in decoded(JSON_ONLY, text.encode(), text.encode() + b"\n").rows.column("payload").to_pylist():
        assert found is not None
        assert parsed(found) == parsed(text)["payload"]


@pytest.mark.parametrize("depth", [1, 8, 30])
def test_odd_keys_at_any_depth(depth: int) -> None:
    """Keys that are syntax to RE2, JSON or paths, each on the way to a column, must cause no error."""
    odd = ['"', "\\", "]", "^", "-", ".", "(", "\n", "\0", " ", "é", "[a-z]", "{2}", "*", "$", "|", "null"]
    fields = [
        Field(f"f{n}", column_type("integer"), required=False, rules=(), physical_path=(key, *["k"] * depth))
        for n, key in enumerate(odd)
    ]
    of = Contract("p", "1", "d", "", "t", "json", fields=tuple(fields), tables=())

    def message(value: Any) -> bytes:
        for _ in range(depth):
            value = {"k": value}
        return json.dumps(dict.fromkeys(odd, value), ensure_ascii=False).encode()

    assert_agreement([message(1), message(2)], of)
    assert_agreement([message(1), message("x"), b"{}", message(3)], of)
    assert decoded(of, message(1)).rows.to_pylist() == [{f"f{n}": 1 for n in range(len(odd))}]


@pytest.mark.parametrize("length", [200, 201, 1_000])
def test_one_malformed_message_beside_a_long_key(length: int) -> None:
    key = "k" * length
    of = contract(c=("string", key))
    found = decoded(of, b'{"%s":"a"}' % key.encode(), b'{"x":}', b'{"%s":"b"}' % key[:-1].encode())
    assert found.rows.to_pylist() == [{"c": "a"}, {"c": None}]
    assert [fault.error_class for fault in found.faults] == ["InvalidJson"]
