"""Decodes a block of Kafka message values into rows: whole blocks at once if possible, single messages otherwise.

The result never depends on the path that a message took: the single reader (`single.py`) defines what is a row. The
block reader (`lines.py`) is only faster; whatever it does not read, or doubts, goes to the single reader.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.formats.blocks.arrow import Column, counted, integers, places, record_batch
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.decoded import Decoded, in_order
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.json.lines import Lines, line_mask, read_lines
from platform_defs.formats.json.read_plan import read_plan
from platform_defs.formats.json.single import MessageReader
from platform_defs.formats.json.suspects import suspects

_FEW = 128  # messages that are read at once when a larger block has failed


def decode_json(contract: Contract, values: pa.BinaryArray) -> Decoded:
    """See `formats.supported.decode`."""
    block = _Block(contract, values)
    if not block.read_whole(counted(len(values))):
        block.read_in_parts()
    return block.decoded()


@dataclass
class _Block:
    """A block that is being read: positions are passed to the methods, each once."""

    contract: Contract
    values: pa.BinaryArray
    pieces: list[tuple[pa.RecordBatch, pa.Int64Array]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unknown: int = 0

    def __post_init__(self) -> None:
        self.plan = read_plan(self.contract)

    @cached_property
    def reader(self) -> MessageReader:
        return MessageReader(self.contract)

    def read_whole(self, positions: pa.Int64Array) -> bool:
        """Read these messages at once. Return False, and change nothing, if that is not possible."""
        if not len(positions):
            return True
        values = self.values if len(positions) == len(self.values) else self.values.take(positions)
        lines = None if values.null_count else read_lines(self.plan, values)
        if lines:
            self._take(lines, positions)
        return lines is not None

    def read_in_parts(self) -> None:
        """Read the probable faults apart, and the other messages at once, or in small parts if that fails."""
        mask = line_mask(self.values)
        lines = places(mask)
        if len(lines) < len(self.values):
            self.read_one_by_one(places(pc.invert(mask)))
            if self.read_whole(lines):  # the others were all that was in the way
                return
        doubt = suspects(self.contract, self.values.take(lines))
        aside: pa.Int64Array = pc.filter(lines, doubt)
        others: pa.Int64Array = pc.filter(lines, pc.invert(doubt))
        if not self.read_whole(others):
            self.read_few_by_few(others)
        if len(aside) > len(lines) // 2:  # these look alike: more likely an odd producer than so many faults
            self.read_few_by_few(aside)
        else:
            self.read_one_by_one(aside)

    def read_few_by_few(self, positions: pa.Int64Array) -> None:
        """Read small parts at once; a part that fails, one by one."""
        for start in range(0, len(positions), _FEW):
            few = positions[start : start + _FEW]
            if not self.read_whole(few):
                self.read_one_by_one(few)

    def read_one_by_one(self, positions: pa.Int64Array) -> None:
        """Read each message alone, in the order given."""
        rows, indexes = list[list[Any]](), list[int]()
        for position in integers(positions):
            found = self.reader.read(self.values[position].as_py())
            if isinstance(found, Reason):
                self.faults.append(Fault(position, "decode", found.error_class, found.message, found.field))
                continue
            rows.append(found.values)
            indexes.append(position)
            self.unknown += found.unknown
        if rows:
            self._add(_columns(self.contract, rows), pa.array(indexes, pa.int64()))

    def decoded(self) -> Decoded:
        """Return all rows and faults, in the order of the block."""
        faults = sorted(self.faults, key=lambda fault: fault.index)
        return Decoded(*in_order(self.contract.arrow_schema, self.pieces), faults, self.unknown)

    def _take(self, lines: Lines, positions: pa.Int64Array) -> None:
        """Add the rows that are beyond doubt; read the others one by one."""
        rows, unknown = lines.rows, lines.unknown
        if lines.doubtful is not None:
            self.read_one_by_one(pc.filter(positions, lines.doubtful))
            keep = pc.invert(lines.doubtful)
            rows, positions = rows.filter(keep), pc.filter(positions, keep)
            unknown = None if unknown is None else pc.filter(unknown, keep)
        self.unknown += unknown.true_count if unknown is not None else 0
        self._add(rows, positions)

    def _add(self, rows: pa.RecordBatch, positions: pa.Int64Array) -> None:
        if rows.num_rows:
            self.pieces.append((rows, positions))


def _columns(contract: Contract, rows: list[list[Any]]) -> pa.RecordBatch:
    columns: list[Column] = [
        pa.array(values, item.type.arrow) for item, values in zip(contract.fields, zip(*rows, strict=True), strict=True)
    ]
    return record_batch(columns, contract.arrow_schema)
