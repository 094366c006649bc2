"""Schemas and contracts made up at random: all readers of their messages agree."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.formats.protobuf.protobuf_messages import contract_of, damaged, new
from tests.unit.formats.protobuf.test_protobuf_agreement import BLOCK, Readers

HEAD = """
syntax = "proto3";
import "confluent/type/decimal.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "google/type/decimal.proto";
enum E { ZERO = 0; ONE = 1; }
message Inner { int32 x = 1; string y = 2; optional Inner inner = 3; }
"""
OF_NARROW, OF_WIDE = ["integer", "double", "decimal(12,1)", "json"], ["integer", "decimal(22,2)", "json"]
COLUMNS = {  # by the type of a field: the types of columns that can be made from it
    **dict.fromkeys(("int32", "uint32", "sint32", "fixed32", "sfixed32"), OF_NARROW),
    **dict.fromkeys(("int64", "uint64", "sint64", "fixed64", "sfixed64"), OF_WIDE),
    **{kind: ["double", "json"] for kind in ("double", "float")},
    **{"bool": ["boolean", "json"], "string": ["string", "decimal(6,2)", "date", "json"], "bytes": ["bytes", "json"]},
    **{"E": ["string", "json"], "Inner": ["json", "integer .x", "string .y", "string .inner.y"]},
    **{"google.protobuf.Timestamp": ["timestamp", "json", "integer .seconds"], "google.type.Date": ["date", "json"]},
    **{"google.type.Decimal": ["decimal(6,2)", "json"], "confluent.type.Decimal": ["decimal(20,3)", "json"]},
    **{"google.protobuf.StringValue": ["string", "date"], "google.protobuf.BoolValue": ["boolean", "json"]},
    "google.protobuf.Value": ["json"],
}
NUMBERS = [*range(1, 20), 127, 128, 2_047, 2_048, 18_999, 20_000, 300_000, 2**29 - 1]


def made_up(chance: Random) -> tuple[str, dict[str, str]]:
    """Return a schema whose message is A, and the columns of a contract for it."""
    numbers, fields, columns, members = chance.sample(NUMBERS, 12), list[str](), dict[str, str](), list[str]()
    for place, number in enumerate(numbers):
        kind, name = chance.choice(list(COLUMNS)), f"f{place}"
        label = chance.choice(["", "", "optional ", "repeated ", "oneof"])
        (members if label == "oneof" else fields).append(f"{label.removeprefix('oneof')}{kind} {name} = {number};")
        if chance.random() < 0.7:
            choice = _array(kind, chance) if label == "repeated " else chance.choice(COLUMNS[kind])
            of, _, path = choice.partition(" ")
            columns[name + path] = of
    oneof = f"oneof o {{ {' '.join(members)} }}" if members else ""
    return f"{HEAD} message A {{ {' '.join(fields)} {oneof} }}", columns or {"f0": "json"}


def _array(kind: str, chance: Random) -> str:
    """Return the type of a column for a repeated field of that type."""
    items = [of for of in COLUMNS[kind] if " " not in of and of != "json"]
    return "json" if kind.endswith("Value") or not items else chance.choice(["json", f"array<{chance.choice(items)}>"])


def fill(message: Any, chance: Random, depth: int = 0) -> Any:
    """Give some of the message's fields values."""
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.4 or depth > 3:
            continue
        if field.is_repeated and not field.message_type:
            getattr(message, field.name).extend(_value(field, chance) for _ in range(chance.randrange(4)))
        elif field.is_repeated and not field.message_type.GetOptions().map_entry:
            fill(getattr(message, field.name).add(), chance, depth + 1)
        elif field.message_type and not field.is_repeated:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), chance, depth + 1)
        elif not field.message_type:
            setattr(message, field.name, _value(field, chance))
    return message


def _value(field: Any, chance: Random) -> Any:
    kind = field.type
    if kind == field.TYPE_STRING:
        return chance.choice(["", "a", "é", "12.34", "2026-02-28", "-1", "a\0"])
    if kind == field.TYPE_BYTES:
        return bytes(chance.randrange(256) for _ in range(chance.randrange(10)))
    if kind in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return chance.choice([0.0, 1.5, -1e30, float("nan")])
    if kind in (field.TYPE_BOOL, field.TYPE_ENUM):
        return chance.choice([0, 1])
    if kind in (field.TYPE_UINT32, field.TYPE_FIXED32, field.TYPE_UINT64, field.TYPE_FIXED64):
        return chance.choice([0, 1, 300, 2**32 - 1])
    return chance.choice([0, 1, -1, 2_026, 12, 2**31 - 1, -(2**31)])


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_all_readers_agree_on_schemas_and_contracts_that_are_made_up(seed: int) -> None:
    text, columns = made_up(Random(seed))
    readers = Readers(text, contract_of(columns), lambda chance: fill(new(text, "A"), chance))
    chance = Random(seed)
    good = [readers.make(chance).SerializeToString(deterministic=True) for _ in range(BLOCK)]
    readers.assert_agreement(good)
    readers.assert_agreement([damaged(chance, payload) for payload in good])
