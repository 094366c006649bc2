"""Avro arrays of single values, read one message at a time."""

from collections.abc import Iterator
from typing import Any

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.formats.avro.conversions import Conversion
from platform_defs.formats.avro.schema import Array, Definite, Enum, Fixed, Primitive, Schema, Union
from platform_defs.formats.avro.values import Convert, convert_to
from platform_defs.formats.avro.walk import Walk
from platform_defs.formats.blocks.array_columns import read_items
from platform_defs.formats.blocks.reason import Wrong, unless_wrong


def items(walk: Walk, of: Array) -> Iterator[Any]:
    """Yield the items of an array, None for null."""
    item = walk.schema.definite(of.items)
    for count in walk.blocks(empty=False):
        for _ in range(count):
            found = walk.branch(item) if isinstance(item, Union) else item
            assert isinstance(found, Primitive | Fixed | Enum)  # noqa: S101  # resolve lets nothing else into a column
            yield walk.scalar(found)


def array_to(column: ColumnType, conversion: Conversion) -> Convert:
    """Return the function that converts the items to a list for the column."""
    assert column.item  # noqa: S101  # both are of an array
    assert conversion.items  # noqa: S101
    convert = convert_to(column.item, conversion.items)

    def item(raw: Any) -> Any:
        try:
            return convert(raw)
        except Wrong as wrong:
            return wrong.reason

    def array(raw: list[Any]) -> list[Any]:
        return unless_wrong(read_items(raw, item))

    return array


def array_at(schema: Schema, of: Definite, convert: Convert, data: bytes) -> list[Any] | None:
    """Return the converted items of `data`, an encoded array or null; None for null. Raises Wrong."""
    walk = Walk(schema, data)
    found = walk.branch(of) if isinstance(of, Union) else of
    return convert(list(items(walk, found))) if isinstance(found, Array) else None
