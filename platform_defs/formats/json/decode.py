"""From a block of Kafka message values to rows: whole blocks at once where possible, single messages where not.

The result never depends on which way a message took: the single reader (`decode_one`) says what is a row, the block
reader (`decode_lines`) is only faster, and whatever it does not read, or reads with doubt, goes to the single reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute

from platform_defs.contract.model import Contract, Fault
from platform_defs.formats.json.lines import Lines, is_line, read_lines
from platform_defs.formats.json.single import MessageReader
from platform_defs.formats.json.suspects import suspects
from platform_defs.formats.json.values import Reason

pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them

_FEW = 128  # messages that are read at once when a larger block has failed


@dataclass(frozen=True)
class Decoded:
    """What a block of messages came to: every message is either one row or one fault.

    `rows` are COPYable as they are: UTF-8 without NUL, decimals within their precision, times within years 1 to 9999.
    """

    rows: pa.RecordBatch  # contract.arrow_schema
    indexes: pa.Int64Array  # positions in the block of the rows, ascending
    faults: list[Fault]  # ascending by index
    unknown_fields: int  # of the rows: those whose message carried a field that the contract does not know


def decode_block(contract: Contract, values: Sequence[bytes | None]) -> Decoded:
    """The rows and faults of a block of JSON messages. Pure; never raises for what a message holds.

    A missing or null field is null in `rows`. A NULL value (tombstone) is a fault: an upsert pipeline takes those out.
    """
    block = _Block(contract, values)
    if not block.read_whole(range(len(values))):
        block.read_in_parts()
    return block.decoded()


@dataclass
class _Block:
    """A block on its way: positions are handed to the methods, each once."""

    contract: Contract
    values: Sequence[bytes | None]
    pieces: list[tuple[pa.RecordBatch, pa.Int64Array]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unknown: int = 0

    def read_whole(self, positions: Sequence[int]) -> bool:
        """Read these at once; False, and nothing done, if they do not let themselves."""
        if not positions:
            return True
        values: Any = self.values if len(positions) == len(self.values) else [self.values[p] for p in positions]
        lines = None if None in values else read_lines(self.contract, values)
        if lines:
            self._take(lines, pa.array(positions, pa.int64()))
        return lines is not None

    def read_in_parts(self) -> None:
        """Set aside what seems to be in the way, read the others at once; what still resists, in small parts."""
        lines = [position for position, value in enumerate(self.values) if is_line(value)]
        if len(lines) < len(self.values):
            self.read_one_by_one(sorted(set(range(len(self.values))).difference(lines)))
            if self.read_whole(lines):  # the others were all that was in the way
                return
        doubt = suspects(self.contract, [self.values[position] or b"" for position in lines])
        aside = [lines[n] for n in pc.indices_nonzero(doubt).to_pylist()]
        others = [lines[n] for n in pc.indices_nonzero(pc.invert(doubt)).to_pylist()]
        if not self.read_whole(others):
            self.read_few_by_few(others)
        if len(aside) > len(lines) // 2:  # these look alike: more likely an odd producer than so many faults
            self.read_few_by_few(aside)
        else:
            self.read_one_by_one(aside)

    def read_few_by_few(self, positions: list[int]) -> None:
        """Read parts at once, and one by one those that do not let themselves."""
        for start in range(0, len(positions), _FEW):
            few = positions[start : start + _FEW]
            if not self.read_whole(few):
                self.read_one_by_one(few)

    def read_one_by_one(self, positions: Sequence[int]) -> None:
        """Read each alone, in the order given."""
        reader, rows, indexes = MessageReader(self.contract), list[list[Any]](), list[int]()
        for position in positions:
            found = reader.read(self.values[position])
            if isinstance(found, Reason):
                self.faults.append(Fault(position, "decode", found.error_class, found.message, found.field))
                continue
            rows.append(found.values)
            indexes.append(position)
            self.unknown += found.unknown
        if rows:
            self._add(_columns(self.contract, rows), pa.array(indexes, pa.int64()))

    def decoded(self) -> Decoded:
        """All that was read, in the order of the block."""
        faults = sorted(self.faults, key=lambda fault: fault.index)
        if len(self.pieces) == 1:
            return Decoded(*self.pieces[0], faults, self.unknown)
        schema = self.contract.arrow_schema
        rows = pa.Table.from_batches([rows for rows, _ in self.pieces], schema).combine_chunks()
        indexes = pa.concat_arrays([pa.array([], pa.int64()), *(indexes for _, indexes in self.pieces)])
        order = pc.sort_indices(indexes)
        batches = rows.take(order).combine_chunks().to_batches()
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
        return Decoded(batch, indexes.take(order), faults, self.unknown)

    def _take(self, lines: Lines, positions: pa.Int64Array) -> None:
        """Add the rows that are beyond doubt; the others are read one by one."""
        rows, unknown = lines.rows, lines.unknown
        if lines.doubtful is not None:
            self.read_one_by_one(positions.filter(lines.doubtful).to_pylist())
            keep = pc.invert(lines.doubtful)
            rows, positions = rows.filter(keep), positions.filter(keep)
            unknown = None if unknown is None else unknown.filter(keep)
        self.unknown += unknown.true_count if unknown is not None else 0
        self._add(rows, positions)

    def _add(self, rows: pa.RecordBatch, positions: pa.Int64Array) -> None:
        if rows.num_rows:
            self.pieces.append((rows, positions))


def _columns(contract: Contract, rows: list[list[Any]]) -> pa.RecordBatch:
    columns = [
        pa.array(values, item.type.arrow) for item, values in zip(contract.fields, zip(*rows, strict=True), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=contract.arrow_schema)
