"""The message's fields: each a column, the path of its key in the message, a type, rules and examples."""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from open_data_contract_standard.model import SchemaObject, SchemaProperty

from platform_defs.contract.document.node import Node, one_of, shown
from platform_defs.contract.keys.schema_keys import FIELD
from platform_defs.contract.keys.wire_keys import FIELD_PROPERTIES
from platform_defs.contract.model.column_types import JSON, ColumnType
from platform_defs.contract.model.contract import Field, Format, Unit
from platform_defs.contract.model.message_path import spell_path
from platform_defs.contract.model.reserved import column_mistake
from platform_defs.contract.reader.field_names import path_at, read_names, refuse_shared
from platform_defs.contract.reader.names import column_name, column_type_of, custom_values, snake_case
from platform_defs.contract.reader.rules import examples_of, rules_of
from platform_defs.contract.reader.sources import read_source


def read_fields(message: Node[SchemaObject], kind: Format) -> tuple[Field, ...]:
    """Return the fields in their order. Raises BadInput for none, for a mistake in one, or for two that cannot both be
    read.
    """
    fields = dict[str, Field]()
    for item in message.children("properties"):
        with item.keeping_mistakes():
            _refuse_key_as_name(item)
            item.refuse_keys_outside(FIELD)
            found = _field(item, column_name(item, fields), kind)
            _refuse_clash(item, found, fields.values())
            fields[found.name] = found
    if all(item.source for item in fields.values()) and not message.text.mistakes:
        raise message.refused("a message must have at least one field from its value under properties")
    return tuple(fields.values())


def _refuse_clash(item: Node[SchemaProperty], found: Field, fields: Iterable[Field]) -> None:
    """Raise BadInput for a field that reads the same as another one."""
    others = [other for other in fields if bool(other.source) == bool(found.source)]
    if found.source:
        if same := next((one for one in others if one.source == found.source), None):
            raise item.refused(f"{found.name} and {same.name} have the same source, {found.source}")
    elif wrong := _path_mistake(found, others):
        raise item.child("name" if item.value.physicalName is None else "physicalName").refused(wrong)
    else:
        refuse_shared(item, found, others)


def _refuse_key_as_name(item: Node[SchemaProperty]) -> None:
    """Raise BadInput for a message's `deviceId` as a field's name: the name is the column's, the key is separate."""
    name = item.value.name or ""
    suggested = snake_case(name)
    if suggested in (None, name):
        return
    why = column_mistake(name) or f"{name!r} is not a column name (lower-case letters, digits and _)"
    raise item.child("name").refused(
        f"{why}. name is the column, and physicalName is the key in the message: use name: {suggested} and "
        f"physicalName: {item.value.physicalName or name}"
    )


def _field(item: Node[SchemaProperty], name: str, kind: Format) -> Field:
    of = column_type_of(item)
    given = custom_values(item, FIELD_PROPERTIES)
    source = read_source(item, of, given)
    aliases, number, path_numbers = read_names(item, kind, given)
    unit = _unit(of, kind, given)
    rules = rules_of(item, of)
    return Field(
        name=name,
        type=of,
        required=bool(item.value.required),
        rules=rules,
        description=item.value.description or "",
        classification=item.value.classification or "",
        examples=examples_of(item, of, rules),
        physical_path=path_at(item.child("physicalName")),
        aliases=aliases,
        number=number,
        path_numbers=path_numbers,
        source=source,
        unit=unit,
    )


def _unit(of: ColumnType, kind: Format, given: Mapping[str, Node[Any]]) -> Unit | None:
    """Return the unit of a timestamp that is an integer in the message; None if it is a text."""
    if "unit" not in given:
        return None
    node = given["unit"]
    if of.kind != "timestamp":
        raise node.refused(f"unit is for a field of type timestamp; this field is {of.name}")
    if kind != "json":
        raise node.refused(f"unit is only for json: the {kind} schema defines the unit of a timestamp")
    units: tuple[Unit, ...] = get_args(Unit)
    for unit in units:
        if node.value == unit:
            return unit
    raise node.refused(f"unknown unit {shown(node.value)}; {one_of(units)}")


def _path_mistake(found: Field, others: Iterable[Field]) -> str | None:
    """Return a mistake for two fields that read the same key, or a path through a value that another field reads as
    something else.
    """
    for other in others:
        if found.path == other.path:
            return f"{found.name} and {other.name} read the same key of the message, {spell_path(found.path)}"
        outer, inner = sorted((found, other), key=lambda item: len(item.path))
        if inner.path[: len(outer.path)] == outer.path and outer.type != JSON:
            return (
                f"{inner.name} reads {spell_path(inner.path)}, but {spell_path(outer.path)} is not an object, "
                f"since the field {outer.name} reads it as {outer.type.name}"
            )
    return None
