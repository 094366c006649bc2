"""The engine and verify read a message's metadata alike, whatever is in it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.contract.model.contract import Contract, RowRule
from platform_defs.engine.task.decoding import BlockDecoder
from platform_defs.formats.blocks.block import message_blocks
from platform_defs.verify.compare.chunk_validator import ChunkValidator
from platform_defs.verify.compare.metadata import MetadataValidator
from platform_defs.verify.source.messages import Chunk
from platform_defs.verify.validators.framed import validator_of
from platform_defs.verify.validators.key_validators import KeyValidator
from platform_defs.verify.validators.known_schemas import KnownSchemas
from tests.unit.metadata.messages import CONTRACT, FIELDS, Sent, metadata_field, reading

Outcome = dict[int, Any]  # by offset, the row or the reason


def by_engine(contract: Contract, messages: Sequence[Sent]) -> Outcome:
    found = Outcome()
    decoder = BlockDecoder(contract, None)
    for block in message_blocks(messages):
        decoded = decoder.rows(3, block, None).decoded
        assert decoded.rows.schema == contract.message_schema
        for row, index in zip(decoded.rows.to_pylist(), decoded.indexes.to_pylist(), strict=True):
            found[messages[index or 0].at] = row
        found |= {messages[fault.index].at: fault.error_class for fault in decoded.faults}
    return found


def by_verify(contract: Contract, messages: Sequence[Sent]) -> Outcome:
    none: list[bytes | None] = [None] * len(messages)
    chunk = Chunk(
        3,
        0,
        len(messages),
        [one.at for one in messages],
        [one.key_ for one in messages],
        [one.value_ for one in messages],
        none,
        none,
        headers=[list(one.headers_) if one.named else None for one in messages],
        timestamps=[one.stamp for one in messages],
    )
    validator = ChunkValidator(
        contract, validator_of(contract, KnownSchemas), MetadataValidator(contract, KeyValidator())
    )
    validated = validator.validate(chunk)
    found = Outcome()
    for row, place in zip(validated.rows.to_pylist(), validated.places.tolist(), strict=True):
        found[chunk.offsets[place]] = row
    return found | {chunk.offsets[place]: no_row.reason for place, no_row in validated.others.items()}


NAMES = [source.removeprefix("header:") for source, _ in FIELDS.values() if source.startswith("header:")]
NUMBERS = "true false True 0 -0 7 -12 007 +1 1.5 1. .5 1e5 1E-2 1_0 9223372036854775807 9223372036854775808 1e400"
NUMBERS += " 1e9999999999999999999999 NaN Infinity 12.345 12345.67 1234.56 \uff11"
TIMES = "2026-02-29 2024-02-29 0000-01-01 9999-12-31 2026-11-01T10:00:00Z 2026-11-01T10:00:00.123456+01:00 2026-11-01"
TIMES += " 9999-12-31T23:59:59-01:00 10:00:00 10:00:00.500 24:00:00"
OTHERS = [
    "",
    "a",
    " 1",
    "1 ",
    "1\n",
    "2026-11-01 10:00:00Z",
    "6F1C0B9E-8d3a-4c55-9f0e-2b7a1d4e5f60",
    "é",
    "\ufffe",
    "🎉",
]
TEXTS = st.sampled_from([*NUMBERS.split(), *TIMES.split(), *OTHERS]).map(str.encode)
VALUES = st.one_of(
    st.none(), TEXTS, TEXTS, st.binary(max_size=6), st.sampled_from([b"\0", b"a\0b", b"\xff", b"\xed\xa0\x80"])
)
HEADERS = st.lists(st.tuples(st.sampled_from([*NAMES, "other", "", "é"]), VALUES), max_size=12).map(tuple)
STAMPS = st.tuples(
    st.sampled_from([0, 1, 2]),
    st.one_of(
        st.sampled_from([-1, 0, 253_402_300_799_999, 253_402_300_800_000, 2**63 - 1, -62_135_596_800_000]),
        st.integers(-62_135_596_800_001, 300_000_000_000_000),
    ),
)
KEYS = st.one_of(st.none(), TEXTS, st.binary(max_size=4))
BODIES = st.sampled_from([b'{"n":1}', b'{"n":2}', b"{}", b"x", None])


@pytest.mark.slow
@given(
    st.lists(st.tuples(HEADERS, KEYS, STAMPS, BODIES, st.integers(0, 9)), min_size=1, max_size=8),
    st.sampled_from([*FIELDS]),
)
def test_the_engine_and_verify_agree_about_metadata(sent: list[Any], name: str) -> None:
    messages = [Sent(10 + 2 * n, h, k, s, b, named=bool(odd)) for n, (h, k, s, b, odd) in enumerate(sent)]
    assert by_engine(CONTRACT, messages) == by_verify(CONTRACT, messages)
    alone = reading(metadata_field(name))  # a field that cannot be read hides the others
    assert by_engine(alone, messages) == by_verify(alone, messages)


def one(contract: Contract, message: Sent) -> Any:
    (found,) = by_engine(contract, [message]).values()
    assert by_verify(contract, [message]) == {message.at: found}
    return found


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("text", b"a", "a"),
        ("text", b"", ""),
        ("text", b"\xff", "InvalidUtf8"),
        ("text", b"a\0", "NulCharacter"),
        ("text", None, None),
        ("raw", b"\xff\0", b"\xff\0"),
        ("number", b"12", 12),
        ("number", b"12.0", "WrongType"),
        ("number", b"", "WrongType"),
        ("number", b"9223372036854775808", "OutOfRange"),
        ("amount", b"12.345", "TooManyDecimals"),
        ("flag", b"true", True),
        ("flag", b"TRUE", "WrongType"),
        ("day", b"2026-02-29", "InvalidDate"),
        ("id", b"6F1C0B9E-8D3A-4C55-9F0E-2B7A1D4E5F60", "6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60"),
    ],
)
def test_a_header_is_read_as_the_type_of_its_field(name: str, value: bytes | None, expected: Any) -> None:
    found = one(reading(metadata_field(name)), Sent(0, ((name, value),)))
    assert (found if isinstance(found, str) else found[name]) == expected


def test_of_headers_with_the_same_name_the_last_one_counts() -> None:
    contract = reading(metadata_field("text"))
    assert one(contract, Sent(0, (("text", b"\xff"), ("text", b"b"), ("other", b"c"))))["text"] == "b"
    assert one(contract, Sent(0, (("text", b"b"), ("text", None))))["text"] is None


def test_headers_become_a_list_and_a_value_that_is_no_text_is_base64_and_marked() -> None:
    sent = (("a", b"x"), ("a", b"\0"), ("b", b"\xff"), ("", None), ("e", b""))
    assert one(reading(metadata_field("all_headers")), Sent(0, sent))["all_headers"] == (
        '[{"name":"a","value":"x"},{"name":"a","value":"AA==","encoding":"base64"},'
        '{"name":"b","value":"/w==","encoding":"base64"},{"name":"","value":null},{"name":"e","value":""}]'
    )
    assert one(reading(metadata_field("all_headers")), Sent(0))["all_headers"] == "[]"


def test_a_thousand_headers_are_read() -> None:
    sent = tuple((f"h{number}", str(number).encode()) for number in range(1_000))
    found = one(reading(metadata_field("all_headers"), metadata_field("number")), Sent(0, (*sent, ("number", b"5"))))
    assert found["all_headers"].count('"name"') == 1_001
    assert found["number"] == 5


def test_headers_with_a_name_that_is_not_utf_8_make_a_dead_letter() -> None:
    assert one(reading(metadata_field("text")), Sent(0, named=False)) == "InvalidUtf8"
    assert one(reading(metadata_field("k")), Sent(0, named=False, key_=b"a"))["k"] == "a"


def test_a_missing_header_is_null_and_a_dead_letter_where_it_is_required() -> None:
    assert one(reading(metadata_field("text")), Sent(0))["text"] is None
    required = metadata_field("text", RowRule("text_required", "text", "required", None, ""))
    assert one(reading(required), Sent(0)) == "text_required"


def test_rules_hold_for_metadata_after_those_of_the_value() -> None:
    rule = RowRule("text_enum", "text", "enum", ("a",), "")
    contract = reading(metadata_field("text", rule), metadata_field("number"))
    assert one(contract, Sent(0, (("text", b"b"),))) == "text_enum"
    assert one(contract, Sent(0, (("text", b"b"), ("number", b"x")))) == "WrongType"  # a type before any rule
    assert one(contract, Sent(0, (("text", b"b"),), value_=b"{}")) == "n_required"


def test_a_key_that_is_missing_is_null_and_one_that_is_no_text_a_dead_letter() -> None:
    contract = reading(metadata_field("k"))
    assert one(contract, Sent(0))["k"] is None
    assert one(contract, Sent(0, key_=b""))["k"] == ""
    assert one(contract, Sent(0, key_=b"\xff")) == "InvalidUtf8"
    as_bytes = replace(metadata_field("raw"), source="key")
    assert one(reading(as_bytes), Sent(0, key_=b"\xff"))["raw"] == b"\xff"


def test_a_timestamp_is_exact_to_the_millisecond_and_null_where_there_is_none() -> None:
    contract = reading(metadata_field("sent_at"), metadata_field("stamp_kind"))
    assert str(one(contract, Sent(0, stamp=(1, 1_700_000_000_123)))["sent_at"]) == "2023-11-14 22:13:20.123000+00:00"
    assert one(contract, Sent(0, stamp=(2, 0)))["stamp_kind"] == "LogAppendTime"
    assert one(contract, Sent(0, stamp=(0, -1)))["sent_at"] is None
    assert one(contract, Sent(0, stamp=(1, 253_402_300_800_000))) == "OutOfRange"
