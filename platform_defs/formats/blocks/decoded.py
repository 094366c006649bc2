"""The rows and faults decoded from a block of messages, for all formats."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from platform_defs.contract.model.contract import Fault
from platform_defs.formats.blocks.arrow import kernels as pc


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


def in_order(
    schema: pa.Schema, pieces: Sequence[tuple[pa.RecordBatch, pa.Int64Array]]
) -> tuple[pa.RecordBatch, pa.Int64Array]:
    """Return rows that were read in pieces, each with its message indexes, as one batch in the order of the block."""
    if len(pieces) == 1:
        return pieces[0]
    rows = pa.Table.from_batches([rows for rows, _ in pieces], schema).combine_chunks()
    indexes = pa.concat_arrays([pa.array([], pa.int64()), *(indexes for _, indexes in pieces)])
    order = pc.sort_indices(indexes)
    batches = rows.take(order).combine_chunks().to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
    return batch, indexes.take(order)
