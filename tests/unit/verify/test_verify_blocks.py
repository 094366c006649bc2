"""verify reads blocks as it reads messages one by one: a message accepted in columns is the same row there, and a
message that surely is a row is accepted.
"""

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.contract import Contract
from platform_defs.verify.validators.json_blocks import BlockReader
from platform_defs.verify.validators.patterns import whole_match, whole_matches
from platform_defs.verify.validators.validator import NoRow, Validator
from tests.support.mutations import MESSAGES
from tests.unit.formats.avro.test_avro_agreement import mutated
from tests.unit.formats.json.test_decode_agreement import (
    ANY_OBJECTS,
    GOOD_OBJECTS,
    LINES,
    NESTED,
    TYPES,
    VALUES,
    contract_of,
)
from tests.unit.formats.json.test_json_mutations import CONTRACT as MUTATED
from tests.unit.formats.json.test_json_mutations import good
from tests.unit.verify.test_validator import RULED as OF_EACH_RULE
from tests.unit.verify.test_validator import contract, field

pytestmark = pytest.mark.long


READ = contract_of({name: of for name, of in TYPES.items() if of != "bytes" and not of.startswith("array")})
RULED = contract(
    *OF_EACH_RULE.fields,
    field("u", "uuid", enum=("6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60",)),
    field("c", "time", minimum="09:00:00", maximum="10:00:00.5"),
)
INSIDE = contract(
    field("a", "integer", path=("o", "a")),
    field("b", "string", True, path=("o", "p", "b")),
    field("c", "timestamp", path=("o", "p", "c")),
    field("s", "string"),
)
INNER = st.recursive(
    st.sampled_from(["null", "1", '"x"', '"2026-11-01T10:00:00+14:00"', "{}", "[]"]),
    lambda inner: st.lists(st.tuples(st.sampled_from("oopabcsx"), inner), max_size=4).map(
        lambda pairs: "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return type(one) is type(other) and one == other


def accepted(contract: Contract, values: Sequence[bytes | None]) -> int:
    """Return the number of messages that are read as a block; each must be the row that `Validator` makes of it."""
    reader, validator = BlockReader.of(contract), Validator(contract)
    assert reader is not None
    rows, places = reader.read(values)
    assert rows.schema.equals(pa.schema([(item.name, item.type.arrow) for item in contract.fields]))
    assert sorted({*places.tolist()}) == places.tolist()
    for place, row in zip(places.tolist(), rows.to_pylist(), strict=True):
        wanted = validator.value(values[place])
        assert not isinstance(wanted, NoRow), (values[place], wanted)
        assert all(same(got, want) for got, want in zip(row.values(), wanted, strict=True)), (values[place], row)
    return len(places)


@settings(max_examples=120, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=6))
@example([b'{"zz":[ NaN ]}', b'{"zz":[1,-Inf\t]}', b'{"zz": Infinity ,"s":"x"}', b'{"zz":Inf}'])
@example([b'{"zz":NaN}', b'{"zz":"NaN"}', b'{"f":-Infinity}', b'{"s":"x"}'])
@example([b'{"s":"a"}{"s":"b"}', b'{"s":"c"}\0}', b'{"s":"d"}'])
@example([b'{"x":[', b"{}]}", b'{"s":"a"}{"s":"b"}'])
@example([b'{"s":"a"} null', b'{"s":"c"}'])
@example([b'{"\\u0069":1}', b'{"i":1,"i":2}'])  # the key is there as often as it has values
@example([b'{"i":null}', b'{"i":1,"i":2}', b'{"i":null,"i":2}', b'{"i":2,"i":null}', b'{"s":"i","i":1,"i":null}'])
@example([b'{"i":1,"\\u0069":2,"x":"\\u0022\\u0022"}', b'{"f":-0}', b'{"f":0}', b'{"f":-0.0}', b'{"x":-0}'])
@example([b'{"m":-0.00}', b'{"m":"-0"}', b'{"m":null}', b'{"m":"null"}', b'{"m":"1.5""}', b'{"m":[1]}', b'{"m":{}}'])
@example([b'{"x":1e400}', b'{"x":' + b"9" * 5_000 + b"}", b'{"i":' + b"9" * 5_000 + b"}"])
@example([b'{"m":"99999"}', b'{"m":9999.99}', b'{"m":"1.234"}', b'{"wide":1e8}'])
@example([b'{"s":"\\ud83d\\ude00"}', b'{"s":"\\udc00"}', b'{"s":"\\u0000"}', b'{"s":"\xff"}', b'{"x":"\xff"}'])
@example([b'{"x":' + b"[" * 100 + b"]" * 100 + b"}", b'{"x":' + b"[" * 99 + b"]" * 99 + b"}"])
@example([b'{"t":"0001-01-01T00:00:00+00:01"}', b'{"t":"9999-12-31T23:59:59-00:01"}', b'{"d":"0000-01-01"}'])
@example([b'{"d":"1900-02-29"}', b'{"d":"2000-02-29"}', b'{"t":"2100-02-29T10:00:00Z"}', b'{"d":"2024-02-30"}'])
def test_a_value_that_a_block_has_is_the_row_that_it_is_by_itself(values: list[bytes | None]) -> None:
    accepted(READ, values)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(VALUES, LINES, GOOD_OBJECTS), min_size=1, max_size=6))
@example([b'{"s":"abc","m":1,"b":true}', b'{"s":"","m":1,"b":true}', b'{"m":1,"b":true}', b'{"s":"ab","m":1}'])
def test_a_row_of_a_block_keeps_every_rule(values: list[bytes | None]) -> None:
    accepted(RULED, values)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(INNER.map(str.encode), ANY_OBJECTS, NESTED.map(repr).map(str.encode)), max_size=4))
@example([b'{"o":null}', b'{"o":{"p":null}}', b'{"o":{"a":1,"p":{"b":"x"}}}', b'{"o":{"a":1,"a":2}}', b'{"o":3}'])
def test_fields_inside_of_objects_are_found_as_they_are_one_by_one(values: list[bytes | None]) -> None:
    accepted(INSIDE, values)


@settings(max_examples=20, deadline=None)
@given(st.lists(GOOD_OBJECTS, min_size=1, max_size=20))
def test_what_is_right_in_every_way_is_read_as_a_block(values: list[bytes]) -> None:
    right = [value for value in values if json.loads(value).keys() <= {item.name for item in READ.fields}]
    plain = [value for value in right if b"\\u" not in value]
    assert accepted(READ, right) >= len(plain)


def test_texts_that_look_like_numbers_that_json_has_not_are_read_as_a_block() -> None:
    assert accepted(READ, [b'{"s":"Info: Information, NaN"}', b'{"s":"[-Infinity]","x":"a\\nb"}']) == 2


def test_a_message_that_is_refused_takes_no_other_with_it() -> None:
    values = [b'{"i":%d}' % n for n in range(2_000)]
    for n in range(7, 2_000, 100):
        values[n] = [b'{"i":"x"}', b'{"m":"1.234"}', b"no JSON", b'{"i":1}{"i":2}', b'{"i":1,"i":2}', b"{,}"][
            n // 100 % 6
        ]
    assert accepted(READ, values) == 2_000 - 20


def test_a_key_that_is_elsewhere_in_the_message_too_is_no_repetition() -> None:
    others = [
        b'{"s":"i","x":{"i":1,"s":"s"},"i":null}',
        b'{"x":{"i":1}}',
        b'{"s":"\\u00e9 \\"i\\"","i":1}',
        b'{"\\u0069":1}',
        b'{"s" : "s",\n"i"\t:1}',
    ]
    assert accepted(READ, others) == 5
    assert (
        accepted(INSIDE, [b'{"o":{"a":1,"p":{"b":"a"},"x":{"a":2}},"s":"o"}', b'{"o":{"p":{"b":"x"}},"a":[{"a":1}]}'])
        == 2
    )


def wrong_bytes(number: int, seed: int) -> None:
    """Apply `accepted` to so many messages, half of them with wrong bytes, the others good."""
    fields = [item for item in MUTATED.fields if item.type.kind not in ("bytes", "array", "json")]
    rng, of = random.Random(seed), contract(*fields)
    for _ in range(0, number, 1_000):
        whole = [good(rng).partition(b"{") for _ in range(500)]
        messages = [begin + rest for _, begin, rest in whole]
        assert accepted(of, messages) > 400
        accepted(of, [part for message in messages for part in (mutated(message, rng), message)])


def test_wrong_bytes_harm_one_message_only() -> None:
    wrong_bytes(4_000, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
def test_messages_with_wrong_bytes_harm_nothing() -> None:
    wrong_bytes(MESSAGES, seed=2)


@pytest.mark.parametrize("kind", ["json", "bytes", "array<integer>"])
def test_a_contract_with_a_type_that_only_the_validator_reads_is_read_one_by_one(kind: str) -> None:
    assert BlockReader.of(contract_of({"a": "string", "x": kind})) is None


PATTERNS = ["[ab]+", "a|b", "(?:a|b)*", "(a)b?", "[^a]*", ".*", r"\S+", r"[\x00-z]+", r"\w{2}", "^a$", "a\n", r"(?s).+"]


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(PATTERNS), st.lists(st.none() | st.text("abc\nAé ", max_size=3), max_size=5))
@example("[^a]*", ["b", "c"])
@example("^a$", ["a", "a"])
@example(r"[\x00-z]+", ["b", "", "c"])
def test_texts_match_together_as_each_does_alone(pattern: str, texts: list[str | None]) -> None:
    one = whole_match(pattern)
    wanted = [None if text is None else one(text) for text in texts]
    assert whole_matches(pattern)(pa.array(texts, pa.string())).to_pylist() == wanted
