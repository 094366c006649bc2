"""Columns of the values that cursors have passed, with a null for each message without a cursor.

rows: the messages' numbers, ascending; None: all. count: the number of messages.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from platform_defs.formats.blocks.arrow import Column
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.buffer import Buffer, Integers, Mask
from platform_defs.formats.blocks.texts import is_utf8

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_HEX_PLACES = [place for place in range(36) if place not in (8, 13, 18, 23)]
_BITS_128 = pa.decimal128(38, 0)


def column_of(values: npt.NDArray[Any], kind: pa.DataType, rows: Integers | None, count: int) -> Column:
    """Return a column of numbers of the width of `kind`, or booleans."""
    if rows is None:
        return pa.array(values).view(kind)
    full = np.zeros(count, values.dtype)
    full[rows] = values
    return pa.array(full, mask=_absent(rows, count)).view(kind)


def binary_column(buffer: Buffer, starts: Integers, lengths: Integers, rows: Integers | None, count: int) -> Column:
    """Return the bytes in the spans as a binary column; starts ascend and spans do not overlap."""
    offsets = np.zeros(2 * len(starts) + 1, np.int32)  # the gap before each span, and the span, in turn
    offsets[1::2], offsets[2::2] = starts, starts + lengths
    parts: Any = pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets.data), buffer.arrow])
    spans = np.arange(1, 2 * len(starts), 2, dtype=np.int32)
    if rows is None:
        return parts.take(pa.array(spans))
    places = np.zeros(count, np.int32)
    places[rows] = spans
    return parts.take(pa.array(places, mask=_absent(rows, count)))


def spread(column: Column, rows: Integers | None, count: int) -> Column:
    """Return a column with the values at the places `rows`."""
    if rows is None:
        return column
    places = np.zeros(count, np.int64)
    places[rows] = np.arange(len(rows))
    indexes: Any = pa.array(places, mask=_absent(rows, count))
    return column.take(indexes)


def uuid_texts(buffer: Buffer, starts: Integers) -> Column:
    """Return the sixteen bytes from each position on as a uuid's text."""
    octets = buffer.raw[np.minimum(starts, len(buffer.raw) - 16)[:, None] + np.arange(16)]
    written = np.full((len(starts), 36), ord("-"), np.uint8)
    written[:, _HEX_PLACES[::2]], written[:, _HEX_PLACES[1::2]] = _HEX[octets >> 4], _HEX[octets & 15]
    ends = np.arange(0, 36 * len(starts) + 1, 36, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(starts), [None, pa.py_buffer(ends.data), pa.py_buffer(written.ravel().data)]
    )


def decimal_column(high: Integers, low: Integers, rows: Integers | None, count: int) -> Column:
    """Return integers of 128 bits, two's complement in two halves, as decimal128(38,0), even beyond 38 digits."""
    pairs = np.zeros((count, 2), np.int64)
    pairs[slice(None) if rows is None else rows] = np.column_stack([low, high])
    valid = None if rows is None else pa.py_buffer(np.packbits(~_absent(rows, count), bitorder="little").data)
    return pa.Array.from_buffers(_BITS_128, count, [valid, pa.py_buffer(pairs.data)])


def texts(column: Column) -> tuple[Column, Mask | None]:
    """Return a column of bytes as strings, and a mask of the values that no text column can store (not UTF-8, or with a
    NUL), which are null; None if there are none.
    """
    try:
        found: Any = column.cast(pa.string())
    except pa.ArrowInvalid:  # one of them is not UTF-8: which?
        wrong = np.array([value is not None and not is_utf8(value) for value in column.to_pylist()], np.bool_)
        return _without_nul(pc.if_else(pa.array(wrong), None, column).cast(pa.string()), wrong)
    return _without_nul(found, None)


def _without_nul(column: Any, wrong: Mask | None) -> tuple[Column, Mask | None]:
    data = column.buffers()[2]
    if data is None or b"\0" not in memoryview(data).tobytes():
        return column, wrong
    nul = pc.fill_null(pc.match_substring(column, "\0"), False)
    both = nul.to_numpy(zero_copy_only=False) | (False if wrong is None else wrong)
    return pc.if_else(nul, None, column), both


def _absent(rows: Integers, count: int) -> Mask:
    absent = np.ones(count, np.bool_)
    absent[rows] = False
    return absent
