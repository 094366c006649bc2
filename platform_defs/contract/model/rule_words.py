"""The words for a row rule in a sentence, and the form in which its pattern runs."""

from platform_defs.contract.model.contract import RowRule
from platform_defs.errors.words import plural

_WANTED = {
    "required": "a value",
    "enum": "one of {}",
    "pattern": "a match of {}",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "min_length": "at least {}",
    "max_length": "at most {}",
}


def anchored(pattern: str) -> str:
    r"""Return `pattern` as it is run: over the whole value. \z, because a `$` of the contract's own may be anything."""
    return rf"\A(?:{pattern})\z"


def wanted(rule: RowRule) -> str:
    """Return the rule's requirement, to follow "the contract requires": at least 0.01."""
    argument = rule.argument
    if rule.kind == "enum":
        argument = ", ".join(map(str, rule.argument))
    elif rule.kind in ("min_length", "max_length"):
        argument = plural(rule.argument, "character")
    return _WANTED[rule.kind].format(argument)
