"""Decodes Avro payloads into rows: whole blocks at once if possible, single messages otherwise.

The result never depends on the path that a message took: the single reader (`single.py`) defines what is a row. The
block reader (`block.py`) is only faster; whatever it doubts goes to the single reader.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.contract import Contract
from platform_defs.formats.avro.block import read_block
from platform_defs.formats.avro.resolve import resolve
from platform_defs.formats.avro.single import MessageReader
from platform_defs.formats.avro.value_cursors import FEW
from platform_defs.formats.blocks.arrow import int64s, record_batch
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.buffer import MAX_BYTES, Integers
from platform_defs.formats.blocks.decoded import Decoded, Rows, parts_of
from platform_defs.formats.blocks.writer_schema import WriterSchema


class AvroReader:
    """Reads messages that were written with one schema, into the fields of one contract."""

    def __init__(self, contract: Contract, writer: WriterSchema) -> None:
        """Raises SchemaNotCompatible with all reasons, or OtherRecord."""
        self._plan = resolve(contract, writer)
        self._single = MessageReader(self._plan)

    def read(self, data: Any, starts: Integers, stops: Integers) -> Decoded:
        """Return the rows and faults of the payloads data[starts[i]:stops[i]]; i is the index.

        data: uint8 array, bytes or pa.Buffer, copied once unless 16 bytes follow the last payload. The payloads ascend
        and do not overlap. Pure; never raises for the content of a payload, except BlockTooLarge for several.
        """
        budget = Budget(len(starts))
        found = Rows(self._plan.contract, budget)
        for first, last in parts_of(starts, stops, MAX_BYTES):
            base = int(starts[first])
            part = np.frombuffer(data, np.uint8)[base:]
            begins, ends = starts[first:last] - base, stops[first:last] - base
            doubtful = np.ones(len(begins), np.bool_)
            if len(begins) >= FEW:
                columns, doubtful = read_block(self._plan, part, begins, ends, budget)
                sure, rows = np.flatnonzero(~doubtful), record_batch(columns, self._plan.contract.arrow_schema)
                kept = rows.filter(pa.array(~doubtful)) if doubtful.any() else rows
                found.add(kept, int64s(sure + first), len(sure) if self._plan.unknown else 0)
            alone = ((i, part[begins[i] : ends[i]].tobytes()) for i in np.flatnonzero(doubtful).tolist())
            found.add_alone((first + i, self._single.read(payload)) for i, payload in alone)
        return found.decoded()
