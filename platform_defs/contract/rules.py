"""The row rules of one field of the message, and the proof that its examples keep them."""

from typing import Any

from open_data_contract_standard.model import DataQuality, SchemaProperty

from platform_defs.contract.column_types import ColumnType
from platform_defs.contract.model import RowRule, RuleKind
from platform_defs.contract.one_value import breaks, pattern_mistake
from platform_defs.contract.predicates import wanted
from platform_defs.contract.text import ContractText, Place, one_of
from platform_defs.contract.values import Value, contract_value

_OPTIONS: dict[str, RuleKind] = {  # ODCS' logicalTypeOptions, in the order in which rules run
    "pattern": "pattern",
    "minimum": "minimum",
    "maximum": "maximum",
    "minLength": "min_length",
    "maxLength": "max_length",
}
_LENGTHS = ("minLength", "maxLength")


def rules_of(text: ContractText, item: SchemaProperty, of: ColumnType, place: Place) -> tuple[RowRule, ...]:
    """The rules of `item`: required, enum, then its logicalTypeOptions. Raises BadInput for one that cannot hold."""
    name = item.name or ""
    rules = [_rule(name, "required", None)] if item.required else []
    rules += [_enum(text, name, entry, of, (*place, "quality", n)) for n, entry in enumerate(item.quality or ())]
    if len(rules) > bool(item.required) + 1:
        raise text.refused("one enum a field", *place, "quality", 1)
    rules += _options(text, item, of, place)
    _limits_in_order(text, rules, place)
    if item.quality:
        valid = item.quality[0].arguments or {}
        for position, written in enumerate(valid["validValues"]):
            _keeps(text, written, of, rules, (*place, "quality", 0, "arguments", "validValues", position))
    return tuple(rules)


def examples_of(
    text: ContractText, item: SchemaProperty, of: ColumnType, rules: tuple[RowRule, ...], place: Place
) -> tuple[Value, ...]:
    """The field's examples as values of its type. BadInput for one of another type, or that breaks a rule."""
    return tuple(
        _keeps(text, written, of, rules, (*place, "examples", position))
        for position, written in enumerate(item.examples or ())
    )


def _rule(field: str, kind: RuleKind, argument: Any, description: str | None = None) -> RowRule:
    rule = RowRule(f"{field}_{kind}", field, kind, argument, description or "")
    return rule if description else RowRule(rule.name, field, kind, argument, f"{field}: {wanted(rule)}")


def _enum(text: ContractText, name: str, entry: DataQuality, of: ColumnType, place: Place) -> RowRule:
    if entry.metric != "invalidValues":
        raise text.refused("of ODCS' metrics, a field has invalidValues (an enum); use that", *place, "metric")
    if entry.mustBe != 0 or set(entry.arguments or ()) != {"validValues"}:
        raise text.refused("an enum is written: arguments: {validValues: [...]} and mustBe: 0", *place)
    if of.name not in ("string", "integer"):
        raise text.refused(f"an enum needs a string or an integer, not {of.name}", *place)
    written, at = (entry.arguments or {})["validValues"], (*place, "arguments", "validValues")
    if not isinstance(written, list) or not written:
        raise text.refused("validValues is a list of at least one value", *at)
    values = tuple(_value(text, one, of, (*at, position)) for position, one in enumerate(written))
    if len(set(values)) < len(values):
        raise text.refused("a value stands twice in validValues", *at)
    return _rule(name, "enum", values, entry.description)


def _options(text: ContractText, item: SchemaProperty, of: ColumnType, place: Place) -> list[RowRule]:
    at = (*place, "logicalTypeOptions")
    options = item.logicalTypeOptions or {}
    fitting = [*_LENGTHS, "pattern"] if of.name == "string" else ["minimum", "maximum"]
    if of.name in ("boolean", "json"):
        fitting = []
    for key in options:
        if key not in fitting:
            hint = one_of(fitting, key) if fitting else "leave it out"
            raise text.refused(f"{of.name} has no option {key!r} that Tidegate checks; {hint}", *at, key)
    return [
        _rule(item.name or "", kind, _argument(text, key, options[key], of, (*at, key)))
        for key, kind in _OPTIONS.items()
        if key in options
    ]


def _argument(text: ContractText, key: str, written: Any, of: ColumnType, place: Place) -> Any:
    if key in _LENGTHS:
        if isinstance(written, bool) or not isinstance(written, int) or written < 0:
            raise text.refused(f"{key} is a whole number of characters, not {written!r}", *place)
        return int(written)
    if key == "pattern":
        return _pattern(text, written, place)
    return _value(text, written, of, place)


def _pattern(text: ContractText, written: Any, place: Place) -> str:
    if not isinstance(written, str):
        raise text.refused("a pattern is a string; put it in quotes", *place)
    if reason := pattern_mistake(str(written)):
        message = f"{written!r} is not a regular expression of RE2 (no look-arounds, no back references): {reason}"
        raise text.refused(message, *place)
    return str(written)


def _limits_in_order(text: ContractText, rules: list[RowRule], place: Place) -> None:
    found = {rule.kind: rule.argument for rule in rules}
    for low, high, key in (("minimum", "maximum", "minimum"), ("min_length", "max_length", "minLength")):
        if low in found and high in found and found[low] > found[high]:
            message = f"{found[low]} is more than the upper limit {found[high]}: no value can keep both"
            raise text.refused(message, *place, "logicalTypeOptions", key)


def _value(text: ContractText, written: Any, of: ColumnType, place: Place) -> Value:
    try:
        return contract_value(written, of)
    except ValueError as wrong:
        raise text.refused(str(wrong), *place) from wrong


def _keeps(
    text: ContractText, written: Any, of: ColumnType, rules: list[RowRule] | tuple[RowRule, ...], place: Place
) -> Value:
    value = _value(text, written, of, place)
    for rule in rules:
        if breaks(rule, value):
            raise text.refused(f"{value} breaks the field's own rule {rule.name}: wanted {wanted(rule)}", *place)
    return value
