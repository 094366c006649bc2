"""Rows in the order of their messages, consumed as far as the topic has been read."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import pyarrow as pa


class Ordered:
    """Rows ordered by (_partition, _offset), consumed once, up to a place."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches, self._schema = batches, schema
        self._held: list[pa.RecordBatch] = []

    def before(self, partition: int, offset: int) -> pa.Table:
        """Return the unconsumed rows whose (_partition, _offset) is below the place."""
        taken: list[pa.RecordBatch] = []
        while (batch := self.next()) is not None:
            count = _count_before(batch, partition, offset)
            taken.append(batch.slice(0, count))
            if count < batch.num_rows:
                self._held.append(batch.slice(count))
                break
        return pa.Table.from_batches(taken, self._schema)

    def next(self) -> pa.RecordBatch | None:
        """Return the next unconsumed rows, in batches of any size; None at the end."""
        return self._held.pop() if self._held else next(self._batches, None)


def _count_before(batch: pa.RecordBatch, partition: int, offset: int) -> int:
    """Return the number of rows of `batch` below the place."""
    columns: Any = batch  # the types do not know its columns
    partitions, offsets = columns["_partition"], columns["_offset"]
    places = range(batch.num_rows)
    return bisect_left(places, (partition, offset), key=lambda row: (partitions[row].as_py(), offsets[row].as_py()))
