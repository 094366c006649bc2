"""The row rules of one field of the message, and the proof that its examples keep them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from open_data_contract_standard.model import DataQuality, SchemaProperty

from platform_defs.contract.document.node import Node, as_list, one_of, shown
from platform_defs.contract.keys.contract_keys import TYPES
from platform_defs.contract.keys.schema_keys import ENUM, OPTIONS
from platform_defs.contract.model.column_types import ColumnType, kind_of
from platform_defs.contract.model.contract import RowRule, RuleKind
from platform_defs.contract.model.row_rules import breaks, wanted
from platform_defs.contract.model.values import Value, contract_value

_TYPES = {kind_of(entry.name): entry for entry in TYPES}


def rules_of(item: Node[SchemaProperty], of: ColumnType) -> tuple[RowRule, ...]:
    """Return the rules of `item`: required, enum, then its logicalTypeOptions. Raises BadInput for one that no value
    can keep.
    """
    name, entries = item.value.name or "", item.children("quality")
    rules = [_rule(name, "required", None)] if item.value.required else []
    rules += [_enum(entry, name, of) for entry in entries]
    if len(entries) > 1:
        raise entries[1].refused("a field can have at most one enum")
    rules += _options(item, of)
    found = {rule.kind: rule.argument for rule in rules}
    for low, high, key in (("minimum", "maximum", "minimum"), ("min_length", "max_length", "minLength")):
        if low in found and high in found and found[low] > found[high]:
            message = f"{found[low]} is above the upper limit {found[high]}: no value can satisfy both"
            raise item.child("logicalTypeOptions").child(key).refused(message)
    for entry in entries:
        values_that_keep(_valid_values(entry), of, rules)
    return tuple(rules)


def _rule(field: str, kind: RuleKind, argument: Any, description: str | None = None) -> RowRule:
    rule = RowRule(f"{field}_{kind}", field, kind, argument, description or "")
    return rule if description else replace(rule, description=f"{field}: {wanted(rule)}")


def _valid_values(entry: Node[DataQuality]) -> Node[Any]:
    return entry.child("arguments").child("validValues")


def _enum(entry: Node[DataQuality], name: str, of: ColumnType) -> RowRule:
    written = entry.value
    if written.metric != "invalidValues":
        raise entry.child("metric").refused("the only metric supported on a field is invalidValues (an enum)")
    ENUM.refuse_others(entry)
    if isinstance(written.mustBe, bool) or written.mustBe != 0 or set(written.arguments or ()) != {"validValues"}:
        missing = entry.child("arguments"), entry.child("mustBe")
        raise entry.refused("write an enum as arguments: {validValues: [...]} and mustBe: 0", *missing)
    if not _TYPES[of.kind].enum:
        raise entry.refused(f"an enum requires a string or an integer, not {of.name}")
    listed = _valid_values(entry)
    if not as_list(listed.value):
        raise listed.refused("validValues must be a list with at least one value")
    values = values_that_keep(listed, of, ())
    if len(set(values)) < len(values):
        raise listed.refused("a value is listed twice in validValues")
    return _rule(name, "enum", values, written.description)


def _options(item: Node[SchemaProperty], of: ColumnType) -> list[RowRule]:
    node: Node[dict[str, Any] | None] = item.child("logicalTypeOptions")
    fitting, options = _TYPES[of.kind].options, node.value or {}
    for key in options:
        if key not in fitting:
            hint = one_of(fitting, key) if fitting else "leave it out"
            raise node.child(key).refused(f"{of.name} has no option {key!r} that Tidegate checks; {hint}")
    rules = list[RowRule]()
    for key in OPTIONS.keys:
        if key.name in options:
            child = node.child(key.name)
            argument = _value(child, of) if isinstance(key.values, str) else key.read(child)
            rules.append(_rule(item.value.name or "", cast("RuleKind", key.attribute), argument))
    return rules


def values_that_keep(listed: Node[Any], of: ColumnType, rules: Sequence[RowRule]) -> tuple[Value, ...]:
    """Return the listed values (an enum's, or examples) as values of the type. Raises BadInput for one of another type,
    or that breaks a rule.
    """
    values = list[Value]()
    for node in listed.items():
        value = _value(node, of)
        if broken := next((rule for rule in rules if breaks(rule, value)), None):
            raise node.refused(
                f"{shown(node.value)} breaks the field's own rule {broken.name}, which requires {wanted(broken)}"
            )
        values.append(value)
    return tuple(values)


def _value(node: Node[Any], of: ColumnType) -> Value:
    try:
        return contract_value(node.value, of)
    except ValueError as wrong:
        raise node.refused(str(wrong)) from wrong
