"""Whether one value keeps a row rule: `predicates.broken` for a single Python value.

For the examples and enums of a contract, which is read by commands that do not wait for the import of pyarrow. A test
holds the two to the same answers.
"""

from functools import cache

import re2

from platform_defs.contract.model import RowRule
from platform_defs.contract.rule_words import anchored
from platform_defs.contract.values import Value


def keeps(value: Value, rule: RowRule) -> bool:
    """Whether the value, of the field's type and not null, keeps the rule."""
    match rule.kind:
        case "required":
            return True
        case "enum":
            return value in rule.argument
        case "pattern":
            return _compiled(anchored(rule.argument)).search(str(value)) is not None
        case "minimum":
            return not value < rule.argument  # as Arrow has it: NaN is neither less nor greater
        case "maximum":
            return not value > rule.argument
        case "min_length":
            return len(str(value)) >= rule.argument
        case "max_length":
            return len(str(value)) <= rule.argument


def pattern_mistake(pattern: str) -> str | None:
    """Why RE2 does not take the pattern, alone or over the whole value; None where it does."""
    for spelled in (pattern, anchored(pattern)):
        try:
            _compiled(spelled)
        except re2.error as wrong:
            reason = wrong.args[0] if wrong.args else "not understood"
            return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return None


@cache
def _compiled(pattern: str) -> "re2._Regexp[str]":
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)
