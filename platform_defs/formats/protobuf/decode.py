"""Decodes a block of Protobuf messages into rows: all at once if possible, single messages otherwise.

The result never depends on the path that a message took: the single reader (`single.py`) defines what is a row. The
walk (`walk.py`) is only faster; whatever it doubts goes to the single reader.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor

from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.formats.blocks.arrow import Column, record_batch
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.buffer import Buffer, Integers, Mask, buffer_of
from platform_defs.formats.blocks.decoded import Decoded, in_order
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema
from platform_defs.formats.protobuf.columns import columns_of
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.formats.protobuf.message_index import message_at, spellings, types_of
from platform_defs.formats.protobuf.resolve import Program, resolve
from platform_defs.formats.protobuf.single import MessageReader, Row
from platform_defs.formats.protobuf.walk import walk

_FEW = 64  # messages: fewer are as fast read one by one
_numpy: Any = np  # the stubs type its result by its arguments
_AT_ONCE = 16 << 20  # bytes; the notes on items of repeated fields take up to twenty times as many
_WORD = 8  # bytes


class ProtobufReader:
    """Reads messages that were written with one schema into rows of one contract."""

    def __init__(self, contract: Contract, writer: WriterSchema, *, framed: bool = False) -> None:
        """framed: payloads begin with the indexes of their message. Raises SchemaNotCompatible."""
        self._contract, self._framed = contract, framed
        self._types = types_of(file_of(writer))
        if not self._types:
            raise SchemaNotCompatible(["the schema defines no message"])
        self._record = contract.wire.record or self._types[0,][0].full_name
        self._program = self._resolved()
        self._single = MessageReader(self._program) if self._program else None
        self._deepest = max(map(len, self._types))
        self._spellings = [
            written for indexes, of in self._types.items() if self._is_meant(of) for written in spellings(indexes)
        ]

    def _resolved(self) -> Program | None:
        """Return the program for the contract's message; None if the file lacks it and each message names its type."""
        of = next((of for types in self._types.values() for of in types if of.full_name == self._record), None)
        if of is None and not self._framed:
            raise SchemaNotCompatible([f"the schema does not define the message {self._record}"])
        return of and resolve(of, self._contract)

    @property
    def others(self) -> tuple[str, ...]:
        """The messages of the schema, if the contract's is not among them: each payload is of another record."""
        return () if self._program else tuple({of.full_name: of for types in self._types.values() for of in types})

    def _is_meant(self, types: list[Descriptor]) -> bool:
        return [of.full_name for of in types] == [self._record]

    def read(self, data: Any, starts: Integers, stops: Integers) -> Decoded:
        """Return the rows and faults of the payloads data[starts[i]:stops[i]], which ascend and do not overlap.

        data: uint8 array, bytes or pa.Buffer; copied once unless 16 bytes follow the last payload. starts, stops:
        int64. Indexes in the result are the payloads', i. Pure; never raises for the content of a payload, except
        BlockTooLarge for several.
        """
        found = _Rows(self._contract, Budget(len(starts)))
        for first, last in _parts(starts, stops):
            self._read_part(data, starts[first:last], stops[first:last], first, found)
        return found.decoded()

    def _read_part(self, data: Any, starts: Integers, stops: Integers, first: int, found: "_Rows") -> None:
        """Add the rows and faults of payloads; the first one has the index `first`."""
        base = int(starts[0])
        part = np.frombuffer(data, np.uint8)[base:]
        starts, stops = starts - base, stops - base
        alone = np.arange(len(starts))
        if self._program and len(starts) >= _FEW:
            alone = self._read_block(self._program, buffer_of(part, int(stops[-1])), starts, stops, first, found)
        for index in alone.tolist():
            found.add(first + index, self.read_alone(part[starts[index] : stops[index]].tobytes()))

    def _read_block(
        self, program: Program, buffer: Buffer, starts: Integers, stops: Integers, first: int, found: "_Rows"
    ) -> Integers:
        """Add the rows beyond doubt; return the places of the other messages."""
        begins, mine = self._behind_indexes(buffer, starts, stops)
        chosen = np.flatnonzero(mine)
        seen = walk(program, buffer, begins[chosen], stops[chosen])
        columns = columns_of(program, seen, found.budget)
        sure = ~seen.doubtful
        found.add_block(columns, sure, chosen[sure] + first, int((seen.unknown & sure).sum()))
        mine[chosen] = sure
        return np.flatnonzero(~mine)

    def _behind_indexes(self, buffer: Buffer, starts: Integers, stops: Integers) -> tuple[Integers, Mask]:
        """Return where the messages begin, and True for each that is certainly the contract's."""
        if not self._framed:
            return starts, np.ones(len(starts), np.bool_)
        begins, mine = starts.copy(), np.zeros(len(starts), np.bool_)
        for written in self._spellings:
            bits = np.uint64((1 << 8 * len(written)) - 1)
            if len(written) <= _WORD:
                same = (buffer.words[starts] & bits == int.from_bytes(written, "little")) & (
                    starts + len(written) <= stops
                )
                begins, mine = np.where(same, starts + len(written), begins), mine | same
        return begins, mine

    def read_alone(self, payload: bytes) -> Row | Reason:
        """Return the row of one payload, or why there is none: the same as `read`, found more slowly."""
        if not self._framed:
            return self._of_contract(payload, 0)
        found = message_at(payload, self._types, self._deepest)
        if isinstance(found, Reason):
            return found
        of, at = found
        if of.full_name != self._record:
            return Reason("OtherRecord", f"the message is {of.full_name}, not {self._record}")
        return self._of_contract(payload, at)

    def _of_contract(self, payload: bytes, at: int) -> Row | Reason:
        assert self._single is not None  # noqa: S101  # there are indexes, or this is the schema's only message
        return self._single.read(payload, at)


class _Rows:
    """The rows and faults of a block, as they are found."""

    def __init__(self, contract: Contract, budget: Budget) -> None:
        self._contract, self.budget = contract, budget
        self._pieces = list[tuple[pa.RecordBatch, pa.Int64Array]]()
        self._faults = list[Fault]()
        self._unknown = 0
        self._alone: tuple[list[list[Any]], list[int]] = ([], [])

    def add_block(self, columns: list[Column], sure: Mask, indexes: Integers, unknown: int) -> None:
        """Add the rows that `sure` picks; `indexes` are theirs."""
        rows = record_batch(columns, self._contract.arrow_schema)
        picked: Any = pa.array(indexes)
        self._pieces.append((rows if sure.all() else rows.filter(pa.array(sure)), picked))
        self._unknown += unknown

    def add(self, index: int, found: Row | Reason) -> None:
        """Add the result of a single message."""
        if isinstance(found, Reason):
            self._faults.append(Fault(index, "decode", found.error_class, found.message, found.field))
            return
        self.budget.spend(sum(len(value) for value in found.values if isinstance(value, str)))
        self._alone[0].append(found.values)
        self._alone[1].append(index)
        self._unknown += found.unknown

    def decoded(self) -> Decoded:
        """Return all rows and faults, in the order of the payloads."""
        schema, (rows, indexes) = self._contract.arrow_schema, self._alone
        if rows:
            columns: list[Column] = [
                pa.array(values, item.type.arrow)
                for values, item in zip(zip(*rows, strict=True), self._contract.fields, strict=True)
            ]
            self._pieces.append((record_batch(columns, schema), pa.array(indexes, pa.int64())))
        faults = sorted(self._faults, key=lambda fault: fault.index)
        return Decoded(*in_order(schema, self._pieces), faults, self._unknown)


def _parts(starts: Integers, stops: Integers) -> list[tuple[int, int]]:
    """Return ranges of payloads, each of at most `_AT_ONCE` bytes, or of one payload."""
    parts, first = list[tuple[int, int]](), 0
    while first < len(starts):
        reached = int(_numpy.searchsorted(stops, starts[first] + _AT_ONCE, "right"))
        last = max(reached, first + 1)
        parts.append((first, last))
        first = last
    return parts
