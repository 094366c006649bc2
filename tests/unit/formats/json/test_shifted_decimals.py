"""A few hints find every number that pyarrow must not read as a decimal."""

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.json.read_plan import ReadPlan

KEYS = ["m", "a.m", "am", "é", "m e"]
NUMBERS = st.one_of(
    st.from_regex(r"[+-]?[0-9.]{0,3}[eE][+-]{0,2}(0[xX])?[0-9]{0,3}", fullmatch=True),
    st.builds(lambda whole, zeros: f"{whole}.{'0' * zeros}1", st.sampled_from(["", "0", "12"]), st.integers(26, 32)),
    st.just("12.34"),
)
VALUES = st.one_of(NUMBERS, NUMBERS.map(lambda number: f'"{number}"'), NUMBERS.map(lambda number: f"[1, {number}]"))
SPACES = st.sampled_from(["", "", " ", "\n"])
PAIRS = st.builds(
    lambda key, before, after, value: f'"{key}"{before}:{after}{value}',
    st.sampled_from([*KEYS, "x", "xm"]),
    SPACES,
    SPACES,
    VALUES,
)
OBJECTS = st.lists(PAIRS, max_size=3).map(lambda pairs: f"{{{','.join(pairs)}}}".encode())


def plan_of(*keys: str, kind: str = "decimal(6,2)") -> ReadPlan:
    fields = [
        Field(f"c{n}", column_type(kind), required=False, rules=(), physical_path=("inner", key))
        for n, key in enumerate(keys)
    ]
    return ReadPlan(Contract("p", "1", "d", "", "t", "json", tuple(fields), tables=()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [
        plan_of("m"),
        plan_of("m", "am", "a.m"),
        plan_of("m", "am", "a.m", "four"),
        plan_of("é"),
        plan_of("m e"),
        plan_of("m", kind="array<decimal(6,2)>"),
    ],
)
@settings(max_examples=60, deadline=None)
@given(st.lists(OBJECTS, min_size=1, max_size=3))
@example([b'{"m":1e-99999999}', b"{}"])
@example([b'{"xm":1e-99999999}'])
@example([b"{}", b'{"m":"1.' + b"0" * 30 + b'"}'])
def test_what_is_found_by_hints_is_what_looking_at_every_value_finds(plan: ReadPlan, values: list[bytes]) -> None:
    column = pa.array(values, pa.binary())
    every = pc.any(pc.match_substring_regex(column, plan.shifted_far)).as_py()
    assert plan.finds_shifted_far(b"".join(value + b"\n" for value in values), column) == every


def test_of_a_few_plain_keys_each_is_a_hint_and_no_hint_begins_with_a_quote() -> None:
    assert [hint.partition('"')[0] for hint in plan_of("m", "am").hints] == ["am", "m"]
    for plan in (plan_of("m", "n", "o", "p"), plan_of("m e"), plan_of("m", kind="array<decimal(6,2)>")):
        assert plan.hints == [plan.shifted_far]
    assert plan_of("m", kind="integer").hints == []
