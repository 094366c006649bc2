"""Two fields of a message that cannot both be read: they have the same place, or the same name or number for it."""

from collections.abc import Iterable

from open_data_contract_standard.model import SchemaProperty

from platform_defs.contract.document.node import Node
from platform_defs.contract.model.column_types import JSON
from platform_defs.contract.model.contract import Field
from platform_defs.contract.model.message_path import MessagePath, spell_path


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
