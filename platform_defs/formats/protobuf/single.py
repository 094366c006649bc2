"""A reader of one Protobuf message at a time: slower than a block, exact about errors. Its result is authoritative."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.protobuf.arrays import array_value, items_reader
from platform_defs.formats.protobuf.json_tree import json_column_value
from platform_defs.formats.protobuf.resolve import ColumnPlan, Path, Program
from platform_defs.formats.protobuf.shapes import FieldShape, MessageShape
from platform_defs.formats.protobuf.tree import RefusedMessage, Tree, TreeReader, part_of
from platform_defs.formats.protobuf.values import reader


@dataclass(frozen=True, slots=True)
class Row:
    """A message that could be read: the contract's fields in order, null where missing."""

    values: list[Any]
    unknown: bool  # it carried at least one field that the contract does not know


class MessageReader:
    """Reads single messages of one type."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._readers = [_column_reader(plan) for plan in program.columns]

    def read(self, message: bytes, at: int = 0) -> Row | Reason:
        """Return the row of the message, which begins at the byte `at`; or the first reason why there is none."""
        found = TreeReader(message)
        try:
            tree = found.read(self._program.shape, at)
        except RefusedMessage as refused:
            return refused.reason
        values = list[Any]()
        for plan, read in zip(self._program.columns, self._readers, strict=True):
            value = read(self._program.shape, tree)
            if isinstance(value, Reason):
                return Reason(value.error_class, f"{plan.item.place} {value.message}", plan.item.name)
            values.append(value)
        return Row(values, found.unknown)


def _column_reader(plan: ColumnPlan) -> Callable[[MessageShape, Tree], Any]:
    """Return a function from a message's shape and tree to the column's value, None or a Reason."""
    if plan.recipe == "missing":
        return lambda _shape, _tree: None
    if plan.recipe == "json":
        return lambda shape, tree: json_column_value(*_end(shape, tree, plan.parts[0]))
    if plan.items:
        read_items = items_reader(plan.items)
        return lambda shape, tree: array_value(read_items, *_end(shape, tree, plan.parts[0]))
    read = reader(plan)

    def column(shape: MessageShape, tree: Tree) -> Any:
        ends = [_end(shape, tree, path) for path in plan.parts]
        parts = [part_of(field, found, has_default=plan.is_message) for field, found in ends]
        return None if None in parts or (parts == [b""] and plan.empty_is_null) else read(parts)

    return column


def _end(shape: MessageShape, tree: Tree | None, path: Path) -> tuple[FieldShape, Tree | None]:
    """Return the field at the end of the path, and the message that should have it; None if that is missing."""
    for number in path[:-1]:
        tree = None if tree is None else tree.get(number)
        shape = _message(shape.fields[number])
    return shape.fields[path[-1]], tree


def _message(field: FieldShape) -> MessageShape:
    assert field.message is not None  # noqa: S101  # resolve.py goes through messages only
    return field.message
