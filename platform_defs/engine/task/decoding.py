"""From the blocks of a task to rows, in the contract's format, by whichever schemas the messages name."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.engine.interfaces.schema_finder import NamedSchema, SchemaFinder
from platform_defs.engine.task.message_keys import KeyColumn, key_texts
from platform_defs.engine.task.metadata_columns import with_metadata
from platform_defs.engine.task.row_checks import check_rows
from platform_defs.errors import InternalError
from platform_defs.formats.blocks.arrow import columns_of
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.block import Block
from platform_defs.formats.blocks.decoded import Decoded, in_order
from platform_defs.formats.blocks.writer_schema import Part
from platform_defs.formats.framed import FramedReader, reader_of_file
from platform_defs.formats.framing import FRAME, HEADERS, frame_hint
from platform_defs.formats.json.decode import decode

NO_SCHEMAS: Mapping[NamedSchema, int] = {}


@dataclass(frozen=True)
class DecodedBlock:
    """The messages of a block that were to be decoded; indexes count these."""

    decoded: Decoded
    schemas: Mapping[NamedSchema, int]  # messages by the schema that they name, if it is known
    skipped: int = 0  # messages of other records, which the contract skips: neither rows nor faults

    def naming(self, keys: KeyColumn | None) -> "DecodedBlock":
        """Return the same, with the schemas that the messages' keys name."""
        return self if keys is None else replace(self, schemas=Counter(self.schemas) + Counter(keys.schemas))


class BlockDecoder:
    """Decodes the blocks of one task."""

    def __init__(self, contract: Contract, schemas: SchemaFinder | None) -> None:
        self._contract, self._schemas = contract, schemas
        self._readers: dict[tuple[Part, int], FramedReader] = {}

    def rows(
        self, partition: int, block: Block, chosen: pa.Int64Array | None, keys: KeyColumn | None = None
    ) -> DecodedBlock:
        """Return the chosen messages of a block, all if None, as rows of `contract.message_schema` that keep the row
        rules, and as faults. `keys`: what `keys()` returned, if it was called.

        Never raises for the contents of a message, except BlockTooLarge for several messages; raises RegistryAway and
        LedgerAway if schemas have to be looked up.
        """
        contract, found = self._contract, self.read(partition, block, chosen).naming(keys)
        decoded = check_rows(contract.fields, found.decoded)
        if contract.metadata_fields:
            if keys is None and contract.reads_keys:
                keys = self.keys(partition, block)
                found = found.naming(keys)
            at = decoded.indexes if chosen is None else pc.take(chosen, decoded.indexes)
            decoded = with_metadata(contract, partition, block, keys, at, decoded)
            decoded = check_rows(contract.metadata_fields, decoded)
        return replace(found, decoded=decoded)

    def read(self, partition: int, block: Block, chosen: pa.Int64Array | None) -> DecodedBlock:
        """Return the values of the chosen messages as rows of `contract.arrow_schema`, without rules, and as faults.
        Raises as `rows`.
        """
        values = block.values if chosen is None else block.values.take(chosen)
        if not self._contract.wire.framed:
            if self._contract.format == "json":
                return DecodedBlock(_with_hints(decode(self._contract, values), values), NO_SCHEMAS)
            found = self._of_file.read(values, None)
            return DecodedBlock(_with_hints(found.decoded, values), NO_SCHEMAS, found.skipped)
        return self._framed("value", partition, block, values, chosen)

    def keys(self, partition: int, block: Block) -> KeyColumn:
        """Return the keys of all messages, as `read` does the values."""
        if self._contract.wire.key_format == "text":
            return KeyColumn(*key_texts(block.keys), NO_SCHEMAS)
        found = self._framed("key", partition, block, block.keys, None)
        faults = [replace(fault, field="_key") for fault in found.decoded.faults]
        (texts,) = columns_of(found.decoded.rows)
        # At their indexes, null elsewhere.
        at, absent = np.zeros(len(block.keys), np.int64), np.ones(len(block.keys), np.bool_)
        rows = np.asarray(found.decoded.indexes)
        at[rows], absent[rows] = np.arange(len(rows)), False
        places: Any = pa.array(at, mask=absent)  # an index, or null
        return KeyColumn(texts.take(places), faults, found.schemas)

    def _framed(
        self, part: Part, partition: int, block: Block, values: pa.BinaryArray, chosen: pa.Int64Array | None
    ) -> DecodedBlock:
        names = self._names(part, block, chosen)
        cuts = self._cuts(partition, block, chosen, len(values))
        parts = [self._part(part, cut, values, names) for cut in cuts]
        return parts[0] if len(parts) == 1 else self._joined(parts)

    @cached_property
    def _of_file(self) -> FramedReader:
        return reader_of_file(self._contract)

    def _names(self, part: Part, block: Block, chosen: pa.Int64Array | None) -> pa.BinaryArray | None:
        """Return the headers that name schemas, if the contract has any."""
        if self._contract.wire.framing == "prefix":
            return None
        names = block.headers(HEADERS[part])
        return names if chosen is None else names.take(chosen)

    def _cuts(
        self, partition: int, block: Block, chosen: pa.Int64Array | None, count: int
    ) -> list[tuple[int, int, int]]:
        """Return the messages by the generation of the schemas that they name: generation, start and stop among those
        to be decoded. Nearly always there is one.
        """
        generations = self._known.generations(partition)
        if len(generations) == 1:
            return [(generations[0][1], 0, count)]
        at = block.offsets
        offsets = np.arange(at.start, at.stop) if isinstance(at, range) else np.asarray(at)
        offsets = offsets if chosen is None else offsets[np.asarray(chosen)]
        bounds = [*np.searchsorted(offsets, [start for start, _ in generations]).tolist(), count]
        cuts = [(one, low, high) for (_, one), low, high in zip(generations, bounds[:-1], bounds[1:], strict=True)]
        return [cut for cut in cuts if cut[1] < cut[2]] or [(generations[-1][1], 0, count)]

    def _part(
        self, part: Part, cut: tuple[int, int, int], values: pa.BinaryArray, names: pa.BinaryArray | None
    ) -> DecodedBlock:
        generation, start, stop = cut
        length = stop - start
        named = None if names is None else names.slice(start, length)
        if (part, generation) not in self._readers:
            find = partial(self._known.find, generation)
            if part == "value":
                reader = FramedReader(self._contract, find)
            else:
                from platform_defs.formats.key_readers import key_contract, key_reader  # most keys are plain text

                reader = FramedReader(key_contract(self._contract), find, "key", key_reader)
            self._readers[part, generation] = reader
        found = self._readers[part, generation].read(values.slice(start, length), named)
        schemas: dict[NamedSchema, int] = {(generation, key, part): n for key, n in found.schemas.items()}
        return DecodedBlock(_moved(found.decoded, start), schemas, found.skipped)

    def _joined(self, parts: Sequence[DecodedBlock]) -> DecodedBlock:
        schema = parts[0].decoded.rows.schema
        decoded = [one.decoded for one in parts]
        pieces = [(one.rows, one.indexes) for one in decoded if one.rows.num_rows]
        faults = [fault for one in decoded for fault in one.faults]
        unknown = sum(one.unknown_fields for one in decoded)
        schemas = {name: n for one in parts for name, n in one.schemas.items()}
        skipped = sum(one.skipped for one in parts)
        return DecodedBlock(Decoded(*in_order(schema, pieces), faults, unknown), schemas, skipped)

    @property
    def _known(self) -> SchemaFinder:
        if self._schemas is None:
            raise InternalError.of("decoding", f"{self._contract.pipeline} has nowhere to find schemas")
        return self._schemas


def _with_hints(decoded: Decoded, values: pa.BinaryArray) -> Decoded:
    """Return the same; faults of messages that may be framed, although the contract declares no framing, say so."""
    faults = list[Fault]()
    for fault in decoded.faults:
        value: Any = values[fault.index].as_buffer()  # not copied
        hint = "" if value is None else frame_hint(value[:FRAME].to_pybytes())
        faults.append(replace(fault, message=f"{fault.message}{hint}") if hint else fault)
    return replace(decoded, faults=faults)


def _moved(decoded: Decoded, start: int) -> Decoded:
    """Return the same, for messages that come after `start` others."""
    if not start:
        return decoded
    faults = [replace(fault, index=fault.index + start) for fault in decoded.faults]
    return replace(decoded, indexes=pc.add(decoded.indexes, start), faults=faults)
