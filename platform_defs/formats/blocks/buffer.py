"""The bytes of many messages, as numpy and Arrow see them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

PADDING = 16  # bytes after the last message, so that two words can be loaded at its end
MAX_BYTES = 1 << 30  # of a buffer: positions are Arrow's 32-bit offsets


@dataclass(frozen=True)
class Buffer:
    """Messages one after the other, gaps allowed, then at least `PADDING` bytes. Make it with `buffer_of`."""

    raw: Bytes

    @cached_property
    def words(self) -> Words:
        """The eight bytes from each position on, little-endian: words[i] is raw[i:i + 8]."""
        return np.ndarray((len(self.raw) - 7,), "<u8", self.raw.data, strides=(1,))

    @cached_property
    def arrow(self) -> pa.Buffer:
        """The same bytes for Arrow, without a copy."""
        return pa.py_buffer(self.raw.data)


def buffer_of(data: Any, stop: int) -> Buffer:
    """Return the buffer of `data` (contiguous: uint8 array, bytes, pa.Buffer), whose last message ends at `stop`.
    Copied only if fewer than `PADDING` bytes follow it.
    """
    raw: Bytes = np.frombuffer(data, np.uint8)
    if len(raw) >= stop + PADDING:
        return Buffer(raw)
    return Buffer(np.concatenate([raw[:stop], np.zeros(PADDING, np.uint8)]))
