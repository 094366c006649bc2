"""The row rules of one field, before and after: which of them let fewer messages through, and which more."""

from collections.abc import Iterator

from platform_defs.contract.evolution.changes import Change, ChangeClass
from platform_defs.contract.model.contract import Field, RowRule
from platform_defs.contract.model.row_rules import loosens, wanted


def rule_changes(old: Field, new: Field) -> Iterator[Change]:
    """Yield changes of the rules besides `required`, which also affects the column."""
    before = {rule.kind: rule for rule in old.rules if rule.kind != "required"}
    after = {rule.kind: rule for rule in new.rules if rule.kind != "required"}
    for rule in before.values():
        if rule.kind not in after:
            yield _looser(f"{rule.name}: {wanted(rule)}", "-", rule)
    for rule in after.values():
        if (was := before.get(rule.kind)) is None:
            yield _tighter(f"{rule.name}: {wanted(rule)}", "+", rule)
        elif was.argument != rule.argument:
            what = f"{rule.name}: {wanted(was)} -> {wanted(rule)}"
            yield _looser(what, "~", was) if loosens(was, rule) else _tighter(what, "~", rule)


def _looser(what: str, sign: str, rule: RowRule) -> Change:
    sentence = "messages that break it become rows from now on"
    return Change(sign, what, ChangeClass.FREE, sentence, column=rule.field, rule=rule.name)


def _tighter(what: str, sign: str, rule: RowRule) -> Change:
    sentence = "messages that break it become dead letters from now on; existing rows stay"
    return Change(sign, what, ChangeClass.BREAKS_PRODUCERS, sentence, column=rule.field)
