"""What a row rule means: which values of a column break it, and how it reads in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_defs.contract.model import RowRule
from platform_defs.contract.one_value import anchored

if TYPE_CHECKING:  # a command that only reads contracts does not wait for Arrow's import
    import pyarrow as pa

_WANTED = {
    "required": "a value",
    "enum": "one of {}",
    "pattern": "a match of {}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "min_length": "at least {} characters",
    "max_length": "at most {} characters",
}


def broken(rule: RowRule, column: pa.Array) -> pa.BooleanArray:
    """True where a value breaks the rule, false elsewhere, never null.

    A pattern must match the whole value, as in JSON Schema with ^ and $ written out; its dialect is RE2's, in which
    `$` is the end of the text (Python's also matches before a last newline) and there are no look-arounds.
    Lengths count characters (Unicode code points), not bytes.
    """
    import pyarrow.compute

    pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them
    if rule.kind == "required":
        return column.is_null()
    return pc.fill_null(_breaks(rule, column), False)


def _breaks(rule: RowRule, column: pa.Array) -> pa.BooleanArray:
    import pyarrow as pa
    import pyarrow.compute

    pc: Any = pyarrow.compute  # as above
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


def wanted(rule: RowRule) -> str:
    """What the rule asks for, to follow "the contract wants": at least 0.01."""
    argument = ", ".join(map(str, rule.argument)) if isinstance(rule.argument, tuple) else rule.argument
    return _WANTED[rule.kind].format(argument)
