"""The meaning of each row rule: its words, and which values break it.

The engine checks whole columns, with Arrow. A contract's own values are checked one by one in plain Python: reading a
contract must not cost a command the import of Arrow, and of pandas, which Arrow imports to convert a list.
tests/unit/contract/test_one_value.py compares the two.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import re2

from platform_defs.contract.model.contract import RowRule, RuleKind
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    import pyarrow as pa

_engine: Any = re2  # it has no type stubs
_QUIET = _engine.Options()
_QUIET.log_errors = False


@dataclass(frozen=True)
class _Meaning:
    """One kind of rule, by its argument."""

    wanted: Callable[[Any], str]  # follows "the contract requires"
    breaks: Callable[[Any, Any], bool]  # a value that is not null, and the argument
    broken: Callable[[Any, Any, Any], Any]  # pyarrow, a column and the argument: true where the column breaks it
    loosens: Callable[[Any, Any], bool]  # an argument and the next: the next lets through all that this does, and more


def _compared(kernel: str) -> Callable[[Any, Any, Any], Any]:
    return lambda arrow, column, limit: getattr(arrow.compute, kernel)(column, arrow.scalar(limit, column.type))


def _length_compared(kernel: str) -> Callable[[Any, Any, Any], Any]:
    return lambda arrow, column, limit: getattr(arrow.compute, kernel)(arrow.compute.utf8_length(column), limit)


def _outside(arrow: Any, column: Any, allowed: Any) -> Any:
    inside = arrow.compute.is_in(column, value_set=arrow.array(allowed, column.type))
    return arrow.compute.and_(arrow.compute.invert(inside), column.is_valid())


def anchored(pattern: str) -> str:
    r"""Return `pattern` as it is run: over the whole value. \z, because a `$` of the contract's own may be anything."""
    return rf"\A(?:{pattern})\z"


# A pattern must match the whole value, as in JSON Schema with ^ and $ written out; its dialect is RE2's, in which `$`
# is the end of the text (Python's also matches before a last newline) and there are no look-arounds. Lengths count
# characters (Unicode code points), not bytes.
_MEANINGS: Mapping[RuleKind, _Meaning] = {
    "required": _Meaning(
        wanted=lambda _: "a value",
        breaks=lambda value, _: value is None,
        broken=lambda _, column, __: column.is_null(),
        loosens=lambda _, __: False,
    ),
    "enum": _Meaning(
        wanted=lambda allowed: f"one of {', '.join(map(str, allowed))}",
        breaks=lambda value, allowed: value not in allowed,
        broken=_outside,
        loosens=lambda old, new: set(old) <= set(new),
    ),
    "pattern": _Meaning(
        wanted=lambda pattern: f"a match of {pattern}",
        breaks=lambda value, pattern: _engine.compile(anchored(pattern), _QUIET).search(value) is None,
        broken=lambda arrow, column, pattern: arrow.compute.invert(
            arrow.compute.match_substring_regex(column, anchored(pattern))
        ),
        loosens=lambda _, __: False,
    ),
    "minimum": _Meaning(lambda least: f"at least {least}", operator.lt, _compared("less"), operator.gt),
    "maximum": _Meaning(lambda most: f"at most {most}", operator.gt, _compared("greater"), operator.lt),
    "min_length": _Meaning(
        wanted=lambda least: f"at least {plural(least, 'character')}",
        breaks=lambda value, least: len(value) < least,
        broken=_length_compared("less"),
        loosens=operator.gt,
    ),
    "max_length": _Meaning(
        wanted=lambda most: f"at most {plural(most, 'character')}",
        breaks=lambda value, most: len(value) > most,
        broken=_length_compared("greater"),
        loosens=operator.lt,
    ),
}


def wanted(rule: RowRule) -> str:
    """Return the rule's requirement, to follow "the contract requires": at least 0.01."""
    return _MEANINGS[rule.kind].wanted(rule.argument)


def breaks(rule: RowRule, value: Any) -> bool:
    """Return True if the value, which is not null, breaks the rule."""
    return _MEANINGS[rule.kind].breaks(value, rule.argument)


def broken(rule: RowRule, column: pa.Array[Any]) -> pa.BooleanArray:
    """Return a column that is true at each value that breaks the rule, false elsewhere, never null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: Any = _MEANINGS[rule.kind].broken(pa, column, rule.argument)
    return pc.fill_null(found, False)


def loosens(old: RowRule, new: RowRule) -> bool:
    """Return True if each message that keeps `old` also keeps `new`, which is of the same kind."""
    return _MEANINGS[old.kind].loosens(old.argument, new.argument)


def pattern_mistake(pattern: str) -> str | None:
    """Return why `pattern` is not a regular expression of RE2; None if it is one."""
    for text in (pattern, anchored(pattern)):
        try:
            _engine.compile(text, _QUIET)
        except _engine.error as wrong:
            return wrong.args[0].decode(errors="replace")
    return None
