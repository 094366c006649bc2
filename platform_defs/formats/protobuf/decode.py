"""Decodes a block of Protobuf messages into rows: all at once if possible, single messages otherwise.

The result never depends on the path that a message took: the single reader (`single.py`) defines what is a row. The
walk (`walk.py`) is only faster; whatever it doubts goes to the single reader.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.contract import Contract
from platform_defs.formats.blocks.arrow import int64s, record_batch
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.buffer import Buffer, Integers, Mask, buffer_of
from platform_defs.formats.blocks.decoded import Decoded, Row, Rows, parts_of
from platform_defs.formats.blocks.reason import Reason, Wrong
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema
from platform_defs.formats.protobuf.columns import columns_of
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.formats.protobuf.json_tree import json_of_message
from platform_defs.formats.protobuf.message_index import message_at, spellings, types_of
from platform_defs.formats.protobuf.resolve import resolve
from platform_defs.formats.protobuf.shapes import MessageShape
from platform_defs.formats.protobuf.single import MessageReader
from platform_defs.formats.protobuf.tree import TreeReader
from platform_defs.formats.protobuf.walk import walk

_FEW = 64  # messages: fewer are as fast read one by one
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
        of = next((of for types in self._types.values() for of in types if of.full_name == self._record), None)
        if of is None and not framed:
            raise SchemaNotCompatible([f"the schema does not define the message {self._record}"])
        self._program = of and resolve(of, contract)  # None: each message names its type, and none is the contract's
        self._single = MessageReader(self._program) if self._program else None
        self._deepest = max(map(len, self._types))
        meant = [indexes for indexes, types in self._types.items() if [of.full_name for of in types] == [self._record]]
        self._spellings = [written for indexes in meant for written in spellings(indexes)]

    @property
    def others(self) -> tuple[str, ...]:
        """The messages of the schema, if the contract's is not among them: each payload is of another record."""
        return () if self._program else tuple({of.full_name: of for types in self._types.values() for of in types})

    def read(self, data: Any, starts: Integers, stops: Integers) -> Decoded:
        """Return the rows and faults of the payloads data[starts[i]:stops[i]], which ascend and do not overlap.

        data: uint8 array, bytes or pa.Buffer; copied once unless 16 bytes follow the last payload. starts, stops:
        int64. Indexes in the result are the payloads', i. Pure; never raises for the content of a payload, except
        BlockTooLarge for several.
        """
        budget = Budget(len(starts))
        found = Rows(self._contract, budget)
        for first, last in parts_of(starts, stops, _AT_ONCE):
            self._read_part(data, starts[first:last], stops[first:last], first, found, budget)
        return found.decoded()

    def _read_part(self, data: Any, starts: Integers, stops: Integers, first: int, found: Rows, budget: Budget) -> None:
        """Add the rows and faults of payloads; the first one has the index `first`."""
        base = int(starts[0])
        part = np.frombuffer(data, np.uint8)[base:]
        starts, stops = starts - base, stops - base
        alone = np.arange(len(starts))
        if self._program and len(starts) >= _FEW:
            buffer = buffer_of(part, int(stops[-1]))
            begins, mine = self._after_indexes(buffer, starts, stops)
            chosen = np.flatnonzero(mine)
            seen = walk(self._program, buffer, begins[chosen], stops[chosen])
            rows = record_batch(columns_of(self._program, seen, budget), self._contract.arrow_schema)
            sure = ~seen.doubtful
            kept = rows if sure.all() else rows.filter(pa.array(sure))
            found.add(kept, int64s(chosen[sure] + first), int((seen.unknown & sure).sum()))
            mine[chosen] = sure
            alone = np.flatnonzero(~mine)
        found.add_alone((first + i, self.read_alone(part[starts[i] : stops[i]].tobytes())) for i in alone.tolist())

    def _after_indexes(self, buffer: Buffer, starts: Integers, stops: Integers) -> tuple[Integers, Mask]:
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
        at = 0
        if self._framed:
            found = message_at(payload, self._types, self._deepest)
            if isinstance(found, Reason):
                return found
            of, at = found
            if of.full_name != self._record:
                return Reason("OtherRecord", f"the message is {of.full_name}, not {self._record}")
        assert self._single is not None  # noqa: S101  # there are indexes, or this is the schema's only message
        return self._single.read(payload, at)


class KeyMessages:
    """Reads single keys of one schema, as Protobuf's serializers write them: a whole message, of any type of it."""

    def __init__(self, writer: WriterSchema, *, framed: bool) -> None:
        """framed: keys begin with the indexes of their message. Raises SchemaNotCompatible."""
        self._types, self._framed = types_of(file_of(writer)), framed
        if not self._types:
            raise SchemaNotCompatible(["the schema defines no message"])
        self._deepest = max(map(len, self._types))
        self._shapes = dict[str, MessageShape]()  # they cache their fields

    def read(self, key: bytes) -> Any:
        """Return the document of one key, in Protobuf's own mapping to JSON (json_tree.py), or a Reason."""
        found = message_at(key, self._types, self._deepest) if self._framed else (self._types[0,][0], 0)
        if isinstance(found, Reason):
            return found
        of, at = found
        shape = self._shapes.setdefault(of.full_name, MessageShape(of))
        try:
            return json_of_message(shape, TreeReader(key).read(shape, at))
        except Wrong as wrong:
            return wrong.reason
