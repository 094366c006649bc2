"""Columns of arrays as texts that Postgres reads: COPY writes them to staging, and publish casts them.

https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO. Every element is quoted, and NULL is not: a transform may
make an array with one.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from platform_defs.formats.blocks.array_columns import Arrays
from platform_defs.formats.blocks.arrow import Column, columns_of
from platform_defs.formats.blocks.arrow import kernels as pc

_MAX_TEXT = 256 << 20  # bytes, about: far from the 2 GiB at which Arrow's strings end
_LONGEST = 48  # of a number or timestamp, with its quotes and comma


def array_texts(column: Column) -> Column:
    """Return a list column as strings such as {"a","b"}; null if the array is."""
    arrays = Arrays(column)
    escaped = pc.replace_substring(pc.replace_substring(_spelled(arrays.items), "\\", r"\\"), '"', r"\"")
    elements = pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "NULL")
    inside = pc.binary_join(arrays.holding(elements), ",")
    return pc.binary_join_element_wise("{", inside, "}", "")


def in_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch in parts, such that one column of texts suffices for the arrays of each."""
    if batch.num_rows < 2 or sum(map(_most_text, columns_of(batch))) <= _MAX_TEXT:
        yield batch
        return
    half = batch.num_rows // 2
    yield from in_pieces(batch.slice(0, half))
    yield from in_pieces(batch.slice(half))


def _most_text(column: Any) -> int:
    """Return the bytes that the column's texts may have; 0 for one that is no array."""
    if not pa.types.is_list(column.type):
        return 0
    offsets = column.offsets
    return _LONGEST * (offsets[-1].as_py() - offsets[0].as_py()) + 2 * column.nbytes


def _spelled(elements: Any) -> Any:
    """Return each element as Postgres reads its type."""
    if pa.types.is_binary(elements.type):
        return pa.array([None if value is None else rf"\x{value.hex()}" for value in elements.to_pylist()], pa.string())
    return elements if pa.types.is_string(elements.type) else elements.cast(pa.string())
