"""Repeated fields as arrays: a list of the column's values, or the reason why there is none."""

from collections.abc import Callable
from typing import Any

from platform_defs.formats.blocks.arrays import MAX_ITEMS, at_item, too_many_items
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.protobuf.resolve import ColumnPlan
from platform_defs.formats.protobuf.shapes import FieldShape
from platform_defs.formats.protobuf.tree import Tree, part_of
from platform_defs.formats.protobuf.values import reader

ItemReader = Callable[[FieldShape, Any], Any]  # the repeated field and one of its values → a value, or a Reason


def items_reader(plan: ColumnPlan) -> ItemReader:
    """Return the function that makes a value from an item."""
    read = reader(plan)

    def item(field: FieldShape, raw: Any) -> Any:
        if field.message is None:
            return read([raw])
        shapes = [field.message.fields[number] for (number,) in plan.parts]
        return read([part_of(shape, raw, has_default=True) for shape in shapes])

    return item


def array_value(read: ItemReader, field: FieldShape, tree: Tree | None) -> list[Any] | Reason | None:
    """Return the list of the field, or a Reason; None if the message that has the field is missing."""
    items: list[Any] | None = part_of(field, tree)
    if items is None:
        return None
    if len(items) > MAX_ITEMS:
        return too_many_items(len(items))
    found = list[Any]()
    for number, raw in enumerate(items, 1):
        value = read(field, raw)
        if isinstance(value, Reason):
            return at_item(number, value)
        found.append(value)
    return found
