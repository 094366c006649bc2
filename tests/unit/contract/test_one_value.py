"""Checks of one value in plain Python agree with Arrow's checks of a column with that value."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import RowRule, RuleKind
from platform_defs.contract.model.row_rules import breaks, broken, pattern_mistake
from platform_defs.contract.model.values import fits

DECIMALS = st.decimals(allow_nan=False, allow_infinity=False).filter(
    lambda value: -38 <= int(value.as_tuple().exponent) <= 38  # Arrow rounds what is beyond: 5.99E-39 fits decimal(1,0)
)
INTEGERS = st.integers(-(2**65), 2**65)


def arrow_takes(value: Any, of: pa.DataType) -> bool:
    try:
        pa.array([value], of).validate(full=True)
    except (pa.ArrowInvalid, OverflowError, ValueError):
        return False
    return True


@settings(deadline=None)  # the first call imports Arrow and pandas
@given(value=DECIMALS | st.decimals(-1000, 1000, places=3), precision=st.integers(1, 38), data=st.data())
def test_a_decimal_fits_where_arrow_takes_it(value: Decimal, precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))
    of = column_type(f"decimal({precision},{scale})")
    assert fits(value, of) == arrow_takes(value, of.arrow)


@settings(deadline=None)
@given(value=INTEGERS)
def test_an_integer_fits_where_arrow_takes_it(value: int) -> None:
    assert fits(value, column_type("integer")) == arrow_takes(value, column_type("integer").arrow)


@settings(deadline=None)
@given(value=st.text(st.characters(exclude_categories=())))
def test_a_string_fits_where_arrow_takes_it(value: str) -> None:
    assert fits(value, column_type("string")) == arrow_takes(value, column_type("string").arrow)


@pytest.mark.parametrize("name", ["date", "timestamp", "double", "boolean"])
def test_every_value_of_the_other_types_fits(name: str) -> None:
    values: dict[str, list[Any]] = {
        "date": [date.min, date.max],
        "timestamp": [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)],
        "double": [0.1, 1e308, -0.0],
        "boolean": [True, False],
    }
    for value in values[name]:
        assert fits(value, column_type(name)) is arrow_takes(value, column_type(name).arrow) is True


LIMITS: dict[RuleKind, tuple[str, st.SearchStrategy[Any]]] = {
    "minimum": ("integer", st.integers(-5, 5)),
    "maximum": ("decimal(10,2)", st.decimals(-5, 5, places=2)),
    "min_length": ("string", st.integers(0, 5)),
    "max_length": ("string", st.integers(0, 5)),
    "enum": ("string", st.lists(st.text(max_size=2), min_size=1).map(tuple)),
    "pattern": ("string", st.sampled_from(["a*", "a|b$", "", "[a-z]{2}", r"\d+", "(?i)A", "."])),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-6, 6),
    "decimal(10,2)": st.decimals(-6, 6, places=2),
    "string": st.text("aAb1\n𝄞", max_size=6),
}


@settings(deadline=None)
@given(data=st.data(), kind=st.sampled_from(sorted(LIMITS)))
def test_a_value_breaks_a_rule_where_arrow_says_so(data: st.DataObject, kind: RuleKind) -> None:
    of, arguments = LIMITS[kind]
    rule = RowRule("a_rule", "field", kind, data.draw(arguments), "")
    value = data.draw(VALUES[of])
    assert breaks(rule, value) == broken(rule, pa.array([value], column_type(of).arrow)).to_pylist()[0]


@pytest.mark.parametrize("pattern", ["(?=a)", "a)|(b", "[a-", r"(a)\1"])
def test_a_pattern_that_re2_does_not_know_is_named_with_the_reason(pattern: str) -> None:
    assert pattern_mistake(pattern)
    assert pattern_mistake("[a-z]+") is None
