"""The rows and faults decoded from a block of messages, for all formats."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.formats.blocks.arrow import Column, record_batch
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.buffer import Integers
from platform_defs.formats.blocks.reason import Reason


@dataclass(frozen=True)
class Decoded:
    """Every message of the block is either one row or one fault.

    `rows` can be copied to Postgres as they are: UTF-8 without NUL, decimals within their precision, times within years
    1 to 9999, JSON that jsonb accepts.
    """

    rows: pa.RecordBatch  # contract.arrow_schema
    indexes: pa.Int64Array  # of the rows' messages in the block, ascending
    faults: list[Fault]  # ascending by index
    unknown_fields: int  # rows whose message has a field that the contract does not know


@dataclass(frozen=True, slots=True)
class Row:
    """A message that could be read alone: the contract's fields in order, null where missing."""

    values: list[Any]
    unknown: bool  # it carried at least one field that the contract does not know


class Rows:
    """The rows and faults of a block, as they are found; without a budget, texts may have any length."""

    def __init__(self, contract: Contract, budget: Budget | None = None) -> None:
        self._contract, self._budget = contract, budget
        self._pieces = list[tuple[pa.RecordBatch, pa.Int64Array]]()
        self._alone = list[tuple[int, Row]]()
        self._faults = list[Fault]()
        self._unknown = 0

    def add(self, rows: pa.RecordBatch, indexes: pa.Int64Array, unknown: int) -> None:
        """Add rows that were read at once; `unknown` of them have a field that the contract does not know."""
        if rows.num_rows:
            self._pieces.append((rows, indexes))
            self._unknown += unknown

    def add_alone(self, found: Iterable[tuple[int, Row | Reason]]) -> None:
        """Add the results of single messages, each with its index. Raises BlockTooLarge."""
        for index, one in found:
            if isinstance(one, Reason):
                self._faults.append(Fault(index, "decode", one.error_class, one.message, one.field))
                continue
            if self._budget:
                self._budget.spend(sum(len(value) for value in one.values if isinstance(value, str)))
            self._alone.append((index, one))

    def decoded(self) -> Decoded:
        """Return all rows and faults, in the order of the block."""
        if self._alone:
            at, alone = zip(*sorted(self._alone, key=lambda found: found[0]), strict=True)
            every = zip(self._contract.fields, zip(*(row.values for row in alone), strict=True), strict=True)
            columns: list[Column] = [pa.array(values, item.type.arrow) for item, values in every]
            batch = record_batch(columns, self._contract.arrow_schema)
            self.add(batch, pa.array(at, pa.int64()), sum(row.unknown for row in alone))
        faults = sorted(self._faults, key=lambda fault: fault.index)
        return Decoded(*in_order(self._contract.arrow_schema, self._pieces), faults, self._unknown)


def parts_of(starts: Integers, stops: Integers, most_bytes: int) -> Iterable[tuple[int, int]]:
    """Yield ranges of messages, each of at most `most_bytes`, or of one message."""
    first = 0
    while first < len(starts):
        last = max(int(np.searchsorted(stops, int(starts[first]) + most_bytes, "right")), first + 1)
        yield first, last
        first = last


def in_order(
    schema: pa.Schema, pieces: Sequence[tuple[pa.RecordBatch, pa.Int64Array]]
) -> tuple[pa.RecordBatch, pa.Int64Array]:
    """Merge batches, each sorted by message index, into one batch in that order."""
    if len(pieces) == 1:
        return pieces[0]
    rows = pa.Table.from_batches([rows for rows, _ in pieces], schema).combine_chunks()
    indexes = pa.concat_arrays([pa.array([], pa.int64()), *(indexes for _, indexes in pieces)])
    order = pc.sort_indices(indexes)
    batches = rows.take(order).combine_chunks().to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
    return batch, indexes.take(order)
