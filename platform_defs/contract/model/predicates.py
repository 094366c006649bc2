"""The meaning of a row rule: which values of an Arrow column break it."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pyarrow.compute

from platform_defs.contract.model.contract import RowRule
from platform_defs.contract.model.rule_words import anchored

pc = cast("Any", pyarrow.compute)  # in its stubs, comparisons take arrays of unknown types


def broken(rule: RowRule, column: pa.Array[Any]) -> pa.BooleanArray:
    """Return a column that is true at each value that breaks the rule, false elsewhere, never null.

    A pattern must match the whole value, as in JSON Schema with ^ and $ written out; its dialect is RE2's, in which
    `$` is the end of the text (Python's also matches before a last newline) and there are no look-arounds.
    Lengths count characters (Unicode code points), not bytes.
    """
    if rule.kind == "required":
        return column.is_null()
    return pc.fill_null(_breaks(rule, column), False)


def _breaks(rule: RowRule, column: pa.Array[Any]) -> pa.BooleanArray:
    """Return the same as `broken`, but null for a null value."""
    match rule.kind:
        case "enum":
            allowed = pc.is_in(column, value_set=pa.array(rule.argument, column.type))
            return pc.and_(pc.invert(allowed), column.is_valid())
        case "pattern":
            return pc.invert(pc.match_substring_regex(column, anchored(rule.argument)))
        case "minimum":
            return pc.less(column, pa.scalar(rule.argument, column.type))
        case "maximum":
            return pc.greater(column, pa.scalar(rule.argument, column.type))
        case "min_length":
            return pc.less(pc.utf8_length(column), rule.argument)
        case "max_length":
            return pc.greater(pc.utf8_length(column), rule.argument)
        case _:
            raise AssertionError(f"row rule of unknown kind {rule.kind!r}")
