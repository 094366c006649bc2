"""The place of a field in a message, besides its name: the path of its key, other names, and Protobuf's number."""

from collections.abc import Iterable, Mapping
from typing import Any

from open_data_contract_standard.model import SchemaProperty

from platform_defs.contract.document.node import Node, as_list
from platform_defs.contract.model.contract import Field, Format
from platform_defs.contract.model.message_path import MessagePath, parse_path, spell_path

_HIGHEST, _RESERVED = 2**29 - 1, range(19_000, 20_000)  # https://protobuf.dev/programming-guides/proto3/#assigning


def read_names(
    item: Node[SchemaProperty], kind: Format, given: Mapping[str, Node[Any]]
) -> tuple[tuple[MessagePath, ...], int | None, tuple[int, ...]]:
    """Return a field's aliases, its number, and the numbers on its path, from its custom properties. Raises BadInput if
    the format does not have these.
    """
    if "aliases" in given and kind == "json":
        raise given["aliases"].refused(
            "aliases are only for avro and protobuf: in JSON messages, the field has its own key"
        )
    for name in ("fieldNumber", "pathNumbers"):
        if name in given and kind != "protobuf":
            raise given[name].refused(f"{name} is only for protobuf, but the format is {kind}")
    number = _number(given["fieldNumber"]) if "fieldNumber" in given else None
    above = _path_numbers(given["pathNumbers"], path_at(item.child("physicalName"))) if "pathNumbers" in given else ()
    return (_aliases(given["aliases"]) if "aliases" in given else ()), number, above


def path_at(node: Node[Any]) -> MessagePath:
    """Return the path that is written there; empty if nothing is written."""
    if node.value is None:
        return ()
    if not isinstance(node.value, str):
        raise node.refused(f"{node.value!r} is not text")
    try:
        return parse_path(node.value)
    except ValueError as wrong:
        raise node.refused(str(wrong)) from None


def refuse_shared(item: Node[SchemaProperty], found: Field, others: Iterable[Field]) -> None:
    """Raise BadInput if another field has one of `found`'s names, or its number in the same message."""
    for other in others:
        for path in {found.path, *found.aliases} & {other.path, *other.aliases}:
            raise item.refused(f"{found.name} and {other.name} have the same name in the message, {spell_path(path)}")
        if found.number is not None and (found.number, found.path[:-1]) == (other.number, other.path[:-1]):
            raise item.refused(f"{found.name} and {other.name} have the same fieldNumber, {found.number}")
        if wrong := _number_mistake(_numbers(found), _numbers(other)):
            raise item.refused(f"{found.name} and {other.name} {wrong}")


def _aliases(node: Node[Any]) -> tuple[MessagePath, ...]:
    listed = as_list(node.value)
    if not listed:
        raise node.refused(f"aliases must be a list of names, such as [customer.city], not {node.value!r}")
    return tuple(path_at(node.child(position)) for position in range(len(listed)))


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


def _path_numbers(node: Node[Any], path: MessagePath) -> tuple[int, ...]:
    listed = as_list(node.value) or []
    if len(listed) != max(0, len(path) - 1):
        raise node.refused(
            f"pathNumbers must have one number for each message on the path to the field: {max(0, len(path) - 1)}"
        )
    return tuple(_number(node.child(position)) for position in range(len(listed)))


def _number(node: Node[Any]) -> int:
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _HIGHEST:
        raise node.refused(f"a fieldNumber must be a whole number from 1 to {_HIGHEST}, not {value!r}")
    if value in _RESERVED:
        raise node.refused(f"fieldNumber {value} is in the range 19000 to 19999, which Protobuf reserves")
    return value
