"""From a block of Kafka message values to rows."""

from dataclasses import dataclass

import pyarrow as pa

from platform_defs.engine.contract import Fault


@dataclass(frozen=True)
class Decoded:
    """What a block of messages came to: every message is either one row or one fault."""

    rows: pa.RecordBatch  # contract.arrow_schema
    indexes: pa.Int64Array  # positions in the block of the rows, ascending
    faults: list[Fault]  # ascending by index
    unknown_fields: int  # messages that carried at least one field the contract does not know
