"""From a block of Kafka message values to rows: whole blocks at once where possible, single messages where not.

The result never depends on which way a message took: the single reader (`decode_one`) says what is a row, the block
reader (`decode_lines`) is only faster, and whatever it does not read, or reads with doubt, goes to the single reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute

from platform_defs.engine.contract import Contract, Fault
from platform_defs.engine.decode_lines import Lines, is_line, read_lines, suspects
from platform_defs.engine.decode_one import MessageReader
from platform_defs.engine.decode_values import Reason

pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them

_FEW = 128  # a failing block this small is read one by one rather than halved again


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
    lines = range(len(values))
    if not block.read_whole(lines):
        lines = [position for position, value in enumerate(values) if is_line(value)]
        block.read_one_by_one(sorted(set(range(len(values))).difference(lines)))
        block.read_halves(block.without_suspects(lines))
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

    def read_halves(self, positions: Sequence[int]) -> None:
        """Read these at once, or halve them until the ones in the way stand almost alone."""
        if self.read_whole(positions):
            return
        if len(positions) <= _FEW:
            self.read_one_by_one(positions)
            return
        middle = len(positions) // 2
        self.read_halves(positions[:middle])
        self.read_halves(positions[middle:])

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

    def without_suspects(self, positions: list[int]) -> list[int]:
        """`positions` less those that look bad, which are read one by one; all of them if most look bad."""
        if len(positions) <= _FEW:
            return positions
        values: Any = [self.values[position] for position in positions]
        doubt = suspects(self.contract, values)
        if doubt.true_count > len(positions) // 2:  # unknown fields, perhaps: then looks tell nothing
            return positions
        self.read_one_by_one([positions[n] for n in pc.indices_nonzero(doubt).to_pylist()])
        return [positions[n] for n in pc.indices_nonzero(pc.invert(doubt)).to_pylist()]

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
        doubtful = _or(lines.doubtful, self._perhaps_unknown(unknown, positions))
        if doubtful is not None and doubtful.true_count:
            self.read_one_by_one(positions.filter(doubtful).to_pylist())
            keep = pc.invert(doubtful)
            rows, positions = rows.filter(keep), positions.filter(keep)
            unknown = None if unknown is None else unknown.filter(keep)
        self.unknown += unknown.true_count if unknown is not None else 0
        self._add(rows, positions)

    def _perhaps_unknown(self, unknown: pa.BooleanArray | None, positions: pa.Int64Array) -> pa.BooleanArray | None:
        r"""A name with escapes in it may be a known one: "\u0061mount"."""
        if unknown is None:
            return None
        flags, at = unknown.to_pylist(), positions.to_pylist()
        return pa.array([flag and rb"\u" in (self.values[p] or b"") for flag, p in zip(flags, at, strict=True)])

    def _add(self, rows: pa.RecordBatch, positions: pa.Int64Array) -> None:
        if rows.num_rows:
            self.pieces.append((rows, positions))


def _or(one: pa.BooleanArray | None, other: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if one is None or other is None:
        return other if one is None else one
    return pc.or_(one, other)


def _columns(contract: Contract, rows: list[list[Any]]) -> pa.RecordBatch:
    columns = [
        pa.array(values, item.type.arrow) for item, values in zip(contract.fields, zip(*rows, strict=True), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=contract.arrow_schema)
