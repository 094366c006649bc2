"""A rule means the same for one value of a contract, in Python, as for a column of a batch, in Arrow."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_defs.contract.column_types import ColumnType, column_type
from platform_defs.contract.model import RowRule
from platform_defs.contract.one_value import keeps, pattern_mistake
from platform_defs.contract.predicates import broken
from platform_defs.contract.values import contract_value

CENTS = st.decimals(-1000, 1000, places=2)
LETTERS = st.text("aB1é\n𝄞", max_size=5)
CASES = (
    st.tuples(st.just("string"), st.sampled_from(["min_length", "max_length"]), st.integers(0, 5), LETTERS)
    | st.tuples(st.just("string"), st.just("enum"), st.lists(LETTERS, min_size=1).map(tuple), LETTERS)
    | st.tuples(
        st.just("string"), st.just("pattern"), st.sampled_from(["a*", "a|B", "a$", ".", r"\d", "(?i)b+", "é?"]), LETTERS
    )
    | st.tuples(st.just("decimal(6,2)"), st.sampled_from(["minimum", "maximum"]), CENTS, CENTS)
    | st.tuples(st.just("integer"), st.sampled_from(["minimum", "maximum"]), st.integers(-5, 5), st.integers(-5, 5))
    | st.tuples(st.just("double"), st.sampled_from(["minimum", "maximum"]), st.just(0.5), st.floats())
)


@settings(deadline=None)
@given(CASES)
def test_one_value_and_a_column_agree(case: tuple[str, Any, Any, Any]) -> None:
    type_name, kind, argument, value = case
    rule = RowRule("a_rule", "a", kind, argument, "")
    assert keeps(value, rule) == (not broken(rule, pa.array([value], column_type(type_name).arrow))[0].as_py())


@settings(deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(1, 38), st.data())
def test_a_decimal_fits_a_contract_as_it_fits_arrow(value: Decimal, precision: int, data: st.DataObject) -> None:
    of = column_type(f"decimal({precision},{data.draw(st.integers(0, precision))})")
    assert _fits(value, of) == _fits_arrow(value, of)


def _fits(value: Decimal, of: ColumnType) -> bool:
    try:
        contract_value(str(value), of)
    except ValueError:
        return False
    return True


def _fits_arrow(value: Decimal, of: ColumnType) -> bool:
    _, digits, exponent = value.normalize().as_tuple()
    if not value or abs(int(exponent)) > 76 or len(digits) > 38:
        return not value
    try:
        pa.array([value.normalize()], of.arrow).validate(full=True)
    except (pa.ArrowInvalid, ValueError):
        return False
    return True


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "a)|(b", "[z-a]", "a{2000}"])
def test_what_re2_does_not_take_is_said(pattern: str) -> None:
    assert pattern_mistake(pattern)
