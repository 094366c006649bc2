"""What a block of messages was decoded to, whatever its format."""

from dataclasses import dataclass

import pyarrow as pa

from platform_defs.contract.model import Fault


@dataclass(frozen=True)
class Decoded:
    """Every message of the block is either one row or one fault.

    `rows` can be copied to Postgres as they are: UTF-8 without NUL, decimals within their precision, times within years
    1 to 9999, JSON that jsonb accepts.
    """

    rows: pa.RecordBatch  # contract.arrow_schema
    indexes: pa.Int64Array  # of the rows' messages in the block, ascending
    faults: list[Fault]  # ascending by index
    unknown_fields: int  # of the rows: those whose message carried a field that the contract does not know
