"""Decodes a block of messages that name their schemas: group by group, each with its own schema."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.formats.blocks.arrow import int64s
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.buffer import Buffer, Bytes, Integers
from platform_defs.formats.blocks.decoded import Decoded, in_order
from platform_defs.formats.blocks.schema_cache import MAX_BYTES, MAX_THINGS, SchemaCache
from platform_defs.formats.blocks.writer_schema import Part, WriterSchema, schema_of_file
from platform_defs.formats.fit import Make, Refused, reader_or_refusal
from platform_defs.formats.framing import Group, one_group, unframe
from platform_defs.formats.supported import JsonReader, Reader, reader_of
from platform_defs.formats.wire.columns import binary_column

Find = Callable[[Sequence[str]], Mapping[str, WriterSchema | None]]  # None: there is no such schema


@dataclass(frozen=True)
class FramedBlock:
    """A decoded block, and the number of its messages that name each known schema."""

    decoded: Decoded
    schemas: Mapping[str, int]
    skipped: int = 0  # messages of other records, which the contract skips: neither rows nor faults


@dataclass
class FramedReader:
    """Reads the blocks of one task. Each schema is compared with the contract once."""

    contract: Contract
    find: Find
    part: Part = "value"  # the part of a message that is read
    make: Make = reader_of
    known: dict[str, WriterSchema | None] = field(default_factory=dict[str, "WriterSchema | None"])
    readers: SchemaCache[Reader | Refused] = field(default_factory=SchemaCache[Reader | Refused])

    def read(self, values: pa.BinaryArray, names: pa.BinaryArray | None) -> FramedBlock:
        """Return the rows and faults of `values`; `names` are their headers (`framing.unframe`). Never raises for the
        content of a message, except BlockTooLarge for several messages; what `find` raises is raised.
        """
        protobuf = self.contract.format == "protobuf"
        block = unframe(self.contract.wire.framing, values, names, self.part, protobuf=protobuf)
        if len(self.known) > MAX_THINGS or sum(one.size for one in self.known.values() if one) > MAX_BYTES:
            self.known.clear()
        if new := sorted({group.key for group in block.groups} - self.known.keys()):
            self.known.update(self.find(new))
        parts, budget = list[Decoded](), Budget(len(values))
        for group in self._merged(block.groups):
            parts.append(self._read_group(block.data, group))
            budget.spend(parts[-1].rows.nbytes)
        counts = dict[str, int]()
        for group in block.groups:
            if self.known[group.key] is not None:
                counts[group.key] = counts.get(group.key, 0) + len(group.indexes)
        pieces = [(part.rows, part.indexes) for part in parts if part.rows.num_rows]
        every = [*block.faults, *(fault for part in parts for fault in part.faults)]
        skips = self.contract.wire.other_records == "skip"
        faults = [fault for fault in every if not (skips and fault.error_class == "OtherRecord")]
        faults.sort(key=lambda fault: fault.index)
        unknown = sum(part.unknown_fields for part in parts)
        decoded = Decoded(*in_order(self.contract.arrow_schema, pieces), faults, unknown)
        return FramedBlock(decoded, counts, len(every) - len(faults))

    def _merged(self, groups: Sequence[Group]) -> Sequence[Group]:
        """Return the groups, with all groups of JSON as one: JSON is read alike, whatever schema it names."""
        alike = [group for group in groups if isinstance(self._reader(group), JsonReader)]
        others = [group for group in groups if not isinstance(self._reader(group), JsonReader)]
        return [one_group(alike), *others] if alike else others

    def _read_group(self, data: Bytes, group: Group) -> Decoded:
        """Return the rows and faults of a group, by the indexes of its messages in their block."""
        reader = self._reader(group)
        if isinstance(reader, Refused):
            nothing = pa.RecordBatch.from_pylist([], schema=self.contract.arrow_schema)
            faults = [Fault(int(index), "decode", reader.error_class, reader.reason) for index in group.indexes]
            return Decoded(nothing, pa.array([], pa.int64()), faults, 0)
        payloads = (data, group.starts, group.stops) if group.heads is None else _indexed(data, group, group.heads)
        found = reader.read(*payloads)
        indexes: pa.Int64Array = int64s(group.indexes).take(found.indexes)
        faults = [replace(fault, index=int(group.indexes[fault.index])) for fault in found.faults]
        return Decoded(found.rows, indexes, faults, found.unknown_fields)

    def _reader(self, group: Group) -> Reader | Refused:
        """Return the group's reader or refusal, made once for each schema: a large one takes long."""
        schema = self.known[group.key]
        if schema is None:  # not kept: there may be as many of these as messages
            what = f"a schema {group.key} with all of its references"
            return Refused("UnknownSchemaId", f"neither the registry nor the ledger has {what}")
        indexed = not group.first
        made = self.readers.get((group.key, indexed))
        if made is None:
            made = reader_or_refusal(self.contract, schema, indexed=indexed, make=self.make)
            if isinstance(made, Refused):
                made = replace(made, reason=f"schema {schema.key} does not fit the contract: {made.reason}")
            self.readers.put((group.key, indexed), made, schema.size)
        return made


def reader_of_file(contract: Contract) -> FramedReader:
    """Return the reader for messages that name no schema: all have the one in the contract's schema file."""
    return FramedReader(contract, lambda keys: dict.fromkeys(keys, schema_of_file(contract)))


def _indexed(data: Bytes, group: Group, heads: pa.BinaryArray) -> tuple[Bytes, Integers, Integers]:
    """Return the payloads, each with the indexes from its header in front."""
    spans: Any = binary_column(Buffer(data), group.starts, group.stops - group.starts, None, len(group.indexes))
    joined: Any = pc.binary_join_element_wise(heads, spans, b"")
    offsets = np.frombuffer(joined.buffers()[1], np.int32)[: len(joined) + 1].astype(np.int64)
    return np.frombuffer(joined.buffers()[2], np.uint8), offsets[:-1], offsets[1:]
