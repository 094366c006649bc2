"""Decodes Avro payloads into rows: whole blocks at once if possible, single messages otherwise.

The result never depends on the path that a message took: the single reader (`single.py`) defines what is a row. The
block reader (`block.py`) is only faster; whatever it doubts goes to the single reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.formats.avro.block import read_block
from platform_defs.formats.avro.passing import FEW
from platform_defs.formats.avro.resolve import Plan, resolve
from platform_defs.formats.avro.single import MessageReader
from platform_defs.formats.blocks.arrow import Column, int64s, record_batch
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.buffer import MAX_BYTES, Bytes, Integers, Mask
from platform_defs.formats.blocks.decoded import Decoded, in_order
from platform_defs.formats.blocks.reason import Reason
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
        block = _Block(self._plan, self._single, Budget(len(starts)))
        for first, last in _parts(starts, stops):
            base = int(starts[first])
            part = np.frombuffer(data, np.uint8)[base:]
            block.read(part, starts[first:last] - base, stops[first:last] - base, first)
        return block.decoded()


@dataclass
class _Block:
    """A block that is being read."""

    plan: Plan
    single: MessageReader
    budget: Budget
    pieces: list[tuple[pa.RecordBatch, pa.Int64Array]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def read(self, data: Bytes, starts: Integers, stops: Integers, first: int) -> None:
        """Add the rows and faults of some payloads; `first` is the index of the first one."""
        doubtful = np.ones(len(starts), np.bool_)
        if len(starts) >= FEW:
            read = read_block(self.plan, data, starts, stops, self.budget)
            doubtful = read.doubtful
            self._add_sure(record_batch(read.columns, self.plan.contract.arrow_schema), ~doubtful, first)
        self._read_one_by_one(data, starts, stops, np.flatnonzero(doubtful), first)

    def decoded(self) -> Decoded:
        """Return all rows and faults, in the order of the block."""
        rows, indexes = in_order(self.plan.contract.arrow_schema, self.pieces)
        self.faults.sort(key=lambda fault: fault.index)
        return Decoded(rows, indexes, self.faults, rows.num_rows if self.plan.unknown else 0)

    def _add_sure(self, rows: pa.RecordBatch, sure: Mask, first: int) -> None:
        if sure.any():
            kept = rows if sure.all() else rows.filter(pa.array(sure))
            self.pieces.append((kept, int64s(np.flatnonzero(sure) + first)))

    def _read_one_by_one(self, data: Bytes, starts: Integers, stops: Integers, which: Integers, first: int) -> None:
        rows, indexes = list[list[Any]](), list[int]()
        for index in which.tolist():
            found = self.single.read(data[starts[index] : stops[index]].tobytes())
            if isinstance(found, Reason):
                self.faults.append(Fault(first + index, "decode", found.error_class, found.message, found.field))
            else:
                self.budget.spend(sum(len(value) for value in found if isinstance(value, str)))
                rows.append(found)
                indexes.append(first + index)
        if rows:
            self.pieces.append((_columns(self.plan.contract, rows), pa.array(indexes, pa.int64())))


def _parts(starts: Integers, stops: Integers) -> list[tuple[int, int]]:
    """Return ranges of messages, each of at most MAX_BYTES, or of one message."""
    parts, first = list[tuple[int, int]](), 0
    while first < len(starts):
        within = int(np.searchsorted(stops, int(starts[first]) + MAX_BYTES, "right"))
        last = max(within, first + 1)
        parts.append((first, last))
        first = last
    return parts


def _columns(contract: Contract, rows: Sequence[list[Any]]) -> pa.RecordBatch:
    columns: list[Column] = [
        pa.array(values, item.type.arrow) for item, values in zip(contract.fields, zip(*rows, strict=True), strict=True)
    ]
    return record_batch(columns, contract.arrow_schema)
