"""The message's fields: each a column, the path of its key in the message, a type, rules and examples. Two fields that
cannot both be read are refused: they have the same place, or the same name or number for it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from open_data_contract_standard.model import SchemaObject, SchemaProperty

from platform_defs.contract.document.node import Node
from platform_defs.contract.document.section import read_values
from platform_defs.contract.document.yaml_text import yaml_scalar
from platform_defs.contract.keys.field_sources import source_of
from platform_defs.contract.keys.schema_keys import FIELD
from platform_defs.contract.keys.wire_keys import FIELD_PROPERTIES
from platform_defs.contract.model.column_types import JSON, ColumnType
from platform_defs.contract.model.contract import Field, Format
from platform_defs.contract.model.message_path import MessagePath, spell_path
from platform_defs.contract.model.reserved import column_mistake
from platform_defs.contract.reader.names import column_name, column_type_of, custom_values, is_name, snake_case
from platform_defs.contract.reader.rules import rules_of, values_that_keep

_ONLY_FOR = {  # custom properties that other formats do not have, and why
    "aliases": (("avro", "protobuf"), "in JSON messages, the field has its own key"),
    "fieldNumber": (("protobuf",), "only its schemas have field numbers"),
    "pathNumbers": (("protobuf",), "only its schemas have field numbers"),
    "unit": (("json", "avro"), "the schema defines the unit of a timestamp"),
}


def read_fields(message: Node[SchemaObject], kind: Format) -> tuple[Field, ...]:
    """Return the fields in their order. Raises BadInput for none, for a mistake in one, or for two that cannot both be
    read.
    """
    fields = dict[str, Field]()
    for item in message.children("properties"):
        with item.keeping_mistakes():
            _refuse_key_as_name(item)
            FIELD.refuse_others(item)
            found = _field(item, column_name(item, fields), kind)
            refuse_clash(item, found, fields.values())
            fields[found.name] = found
    if all(item.source for item in fields.values()) and not message.text.mistakes:
        raise message.refused("properties must list at least one field of the message's value")
    return tuple(fields.values())


def _refuse_key_as_name(item: Node[SchemaProperty]) -> None:
    """Raise BadInput for a message's `deviceId` as a field's name: the name is the column's, the key is separate."""
    name = item.value.name or ""
    why = column_mistake(name)
    suggested = snake_case(name)
    if suggested in (None, name) or (is_name(name) and why is None):
        return
    raise item.child("name").refused(
        f"{why or f'{name!r} is not a column name (lower-case letters, digits and _)'}. name is the column, and "
        f"physicalName is the field in the message: use name: {yaml_scalar(suggested)} and physicalName: "
        f"{yaml_scalar(item.value.physicalName or name)}"
    )


def _field(item: Node[SchemaProperty], name: str, kind: Format) -> Field:
    of = column_type_of(item)
    given = custom_values(item, FIELD_PROPERTIES)
    if "source" in given:
        _check_source(item, of, given)
    if "unit" in given and of.kind != "timestamp":
        raise given["unit"].refused(f"unit is for a field of type timestamp; this field is {of.name}")
    for key, node in given.items():
        formats, why = _ONLY_FOR.get(key, ((kind,), ""))
        if kind not in formats:
            raise node.refused(f"{key} is only for {' and '.join(formats)}, but the format is {kind}: {why}")
    found = read_values(FIELD_PROPERTIES.keys, given)
    path = () if item.value.physicalName is None else FIELD["physicalName"].read(item.child("physicalName"))
    if "pathNumbers" in given and len(found["path_numbers"]) != (above := max(0, len(path) - 1)):
        raise given["pathNumbers"].refused(
            f"pathNumbers must have one number for each message on the path to the field: {above}",
            item.child("physicalName"),
        )
    rules = rules_of(item, of)
    return Field(
        name=name,
        type=of,
        required=bool(item.value.required),
        rules=rules,
        description=item.value.description or "",
        classification=item.value.classification or "",
        examples=values_that_keep(item.child("examples"), of, rules),
        physical_path=path,
        **found,
    )


def _check_source(item: Node[SchemaProperty], of: ColumnType, given: Mapping[str, Node[Any]]) -> None:
    """Raise BadInput for a source that has no such type, and for keys that are for fields of the message's value."""
    source: str = FIELD_PROPERTIES["source"].read(given["source"])
    kinds = source_of(source).kinds
    if of.kind not in kinds:
        raise given["source"].refused(f"source {source} requires type {', '.join(kinds)}; this field is {of.name}")
    if item.value.physicalName is not None:
        raise item.child("physicalName").refused("physicalName does not apply to a field with a source. Remove it")
    for key in _ONLY_FOR:
        if key in given:
            raise given[key].refused(f"{key} does not apply to a field with a source. Remove it")


def refuse_clash(item: Node[SchemaProperty], found: Field, fields: Iterable[Field]) -> None:
    """Raise BadInput for a field that reads the same as another one."""
    others = [other for other in fields if bool(other.source) == bool(found.source)]
    if found.source:
        if same := next((one for one in others if one.source == found.source), None):
            raise item.refused(f"{found.name} and {same.name} have the same source, {found.source}")
        return
    if wrong := next(filter(None, (_path_mistake(found, other) for other in others)), None):
        raise item.child("name" if item.value.physicalName is None else "physicalName").refused(wrong)
    for other in others:
        for path in {found.path, *found.aliases} & {other.path, *other.aliases}:
            raise item.refused(f"{found.name} and {other.name} have the same name in the message, {spell_path(path)}")
        if found.number is not None and (found.number, found.path[:-1]) == (other.number, other.path[:-1]):
            raise item.refused(f"{found.name} and {other.name} have the same fieldNumber, {found.number}")
        if wrong := _number_mistake(_numbers(found), _numbers(other)):
            raise item.refused(f"{found.name} and {other.name} {wrong}")


def _path_mistake(found: Field, other: Field) -> str | None:
    """Return a mistake for two fields that read the same key, or a path through a value that another field reads as
    something else.
    """
    if found.path == other.path:
        return f"{found.name} and {other.name} read the same key of the message, {spell_path(found.path)}"
    outer, inner = sorted((found, other), key=lambda item: len(item.path))
    if inner.path[: len(outer.path)] == outer.path and outer.type != JSON:
        return (
            f"{inner.name} reads {spell_path(inner.path)}, but {spell_path(outer.path)} is not an object, "
            f"since the field {outer.name} reads it as {outer.type.name}"
        )
    return None


def _numbers(item: Field) -> dict[MessagePath, int]:
    """Return the numbers that the field declares: its own, and those of the messages on its path."""
    own = {} if item.number is None else {item.path: item.number}
    return own | {item.path[:depth]: number for depth, number in enumerate(item.path_numbers, 1)}


def _number_mistake(some: dict[MessagePath, int], others: dict[MessagePath, int]) -> str | None:
    """Return a mistake for a field with two numbers, or two fields of a message with one."""
    for path, number in some.items():
        if others.get(path, number) != number:
            return f"give {spell_path(path)} different numbers: {number} and {others[path]}"
        same = (other for other, there in others.items() if there == number and other[:-1] == path[:-1])
        if clash := next((other for other in same if other != path), None):
            return f"give {spell_path(path)} and {spell_path(clash)} the same number, {number}"
    return None
