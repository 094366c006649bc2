"""Columns of arrays as texts that Postgres reads: COPY writes them to staging, and publish casts them.

https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO. Every element is quoted, and NULL is not: a transform
may make an array that holds one.
"""

from typing import Any

import pyarrow as pa

from platform_defs.formats.arrow import Column, counted
from platform_defs.formats.arrow import kernels as pc


def array_texts(arrays: Column) -> Column:
    """A list column as strings such as {"a","b"}; null where the array is."""
    whole: Any = arrays.take(counted(len(arrays))) if arrays.offset else arrays  # its offsets are those of its values
    elements = pc.fill_null(_quoted(_spelled(whole.values)), "NULL")
    lists = pa.ListArray.from_arrays(whole.offsets, elements)
    inside = pc.binary_join(lists, ",")
    texts = pc.binary_join_element_wise("{", inside, "}", "")
    return pc.if_else(whole.is_null(), pa.scalar(None, pa.string()), texts)


def _spelled(elements: Any) -> Any:
    """Each element as Postgres reads its type."""
    if pa.types.is_binary(elements.type):
        return pa.array([None if value is None else rf"\x{value.hex()}" for value in elements.to_pylist()], pa.string())
    return elements if pa.types.is_string(elements.type) else elements.cast(pa.string())


def _quoted(texts: Any) -> Any:
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", r"\\"), '"', r"\"")
    return pc.binary_join_element_wise('"', escaped, '"', "")
