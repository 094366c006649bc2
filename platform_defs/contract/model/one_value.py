"""Rules and types checked for one value, in plain Python: a contract's values are checked without Arrow.

The engine checks the same for whole columns (predicates.py). Reading a contract must not cost a command the import of
Arrow, and of pandas, which Arrow imports to convert a list. tests/unit/contract/test_one_value.py compares the two.
"""

from datetime import date, datetime
from decimal import Decimal, localcontext
from typing import Any

import re2

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import RowRule
from platform_defs.contract.model.rule_words import anchored

_LARGEST_INTEGER = 2**63  # int64, and Postgres' bigint
_engine: Any = re2  # it has no type stubs
_QUIET = _engine.Options()
_QUIET.log_errors = False


def pattern_mistake(pattern: str) -> str | None:
    """Return why `pattern` is not a regular expression of RE2; None if it is one."""
    for spelled in (pattern, anchored(pattern)):
        try:
            _engine.compile(spelled, _QUIET)
        except _engine.error as wrong:
            return wrong.args[0].decode(errors="replace")
    return None


def fits(value: str | bytes | int | float | bool | date | datetime | Decimal, of: ColumnType) -> bool:
    """Return True if a column of the type can store the value, which has the type's Python class."""
    if isinstance(value, str):
        return _is_unicode(value)
    if isinstance(value, int):
        return isinstance(value, bool) or -_LARGEST_INTEGER <= value < _LARGEST_INTEGER
    if isinstance(value, Decimal):
        return _fits_decimal(value, of.precision, of.scale)
    return True


def breaks(rule: RowRule, value: Any) -> bool:
    """Return True if the value, which is not null, breaks the rule."""
    match rule.kind:
        case "required":
            return False
        case "enum":
            return value not in rule.argument
        case "pattern":
            return _engine.compile(anchored(rule.argument), _QUIET).search(value) is None
        case "minimum":
            return value < rule.argument
        case "maximum":
            return value > rule.argument
        case "min_length":
            return len(value) < rule.argument
        case "max_length":
            return len(value) > rule.argument
        case _:  # pyright: ignore[reportUnnecessaryComparison]  # a new kind must not pass unchecked
            raise ValueError(f"unknown kind of row rule: {rule.kind!r}")


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _fits_decimal(value: Decimal, precision: int, scale: int) -> bool:
    if value.adjusted() >= precision:
        return False
    with localcontext(prec=len(value.as_tuple().digits) + precision):
        scaled = value.scaleb(scale)
        return scaled == scaled.to_integral_value() and abs(scaled) < 10**precision
