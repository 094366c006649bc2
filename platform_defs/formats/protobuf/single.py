"""A reader of one Protobuf message at a time: slower than a block, exact about errors. Its result is authoritative."""

from collections.abc import Callable
from typing import Any

from platform_defs.formats.blocks.array_columns import read_items
from platform_defs.formats.blocks.decoded import Row
from platform_defs.formats.blocks.reason import Reason, Wrong
from platform_defs.formats.protobuf.json_tree import json_column_value
from platform_defs.formats.protobuf.resolve import ColumnPlan, Path, Program
from platform_defs.formats.protobuf.shapes import FieldShape, MessageShape
from platform_defs.formats.protobuf.tree import Tree, TreeReader, part_of
from platform_defs.formats.protobuf.values import reader


class MessageReader:
    """Reads single messages of one type."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._readers = [_column_reader(plan, program.shape) for plan in program.columns]

    def read(self, message: bytes, at: int = 0) -> Row | Reason:
        """Return the row of the message, which begins at the byte `at`; or the first reason why there is none."""
        found = TreeReader(message)
        try:
            tree = found.read(self._program.shape, at)
        except Wrong as wrong:
            return wrong.reason
        values = list[Any]()
        for plan, read in zip(self._program.columns, self._readers, strict=True):
            value = read(tree)
            if isinstance(value, Reason):
                return Reason(value.error_class, f"{plan.item.place} {value.message}", plan.item.name)
            values.append(value)
        return Row(values, found.unknown)


def _column_reader(plan: ColumnPlan, shape: MessageShape) -> Callable[[Tree], Any]:
    """Return a function from a message's tree to the column's value, None or a Reason."""
    if plan.recipe == "missing":
        return lambda _: None
    ends = [(shape.end(path)[1], path[:-1]) for path in plan.parts]
    field, above = ends[0]
    if plan.recipe == "json":
        return lambda tree: json_column_value(field, _message_at(above, tree))
    if plan.items:
        return _array_reader(plan.items, field, above)
    read = reader(plan)

    def column(tree: Tree) -> Any:
        parts = [part_of(field, _message_at(path, tree), has_default=plan.is_message) for field, path in ends]
        return None if None in parts or (parts == [b""] and plan.empty_is_null) else read(parts)

    return column


def _array_reader(plan: ColumnPlan, field: FieldShape, above: Path) -> Callable[[Tree], Any]:
    """Return the function that lists a repeated field; its result is None if the message that has it is missing."""
    read = reader(plan)
    shapes = [field.message.fields[number] for (number,) in plan.parts] if field.message else []

    def item(raw: Any) -> Any:
        return read([part_of(shape, raw, has_default=True) for shape in shapes] if field.message else [raw])

    def column(tree: Tree) -> list[Any] | Reason | None:
        items: list[Any] | None = part_of(field, _message_at(above, tree))
        return None if items is None else read_items(items, item)

    return column


def _message_at(path: Path, tree: Tree) -> Tree | None:
    """Return the message at the path; None if it is missing."""
    found: Tree | None = tree
    for number in path:
        found = None if found is None else found.get(number)
    return found
