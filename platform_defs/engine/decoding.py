"""From the blocks of a task to rows, in the contract's format, by whichever schemas the messages name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from platform_defs.contract.model import Contract
from platform_defs.engine.schema_ports import Schemas
from platform_defs.errors import InternalError
from platform_defs.formats.arrow import kernels as pc
from platform_defs.formats.block import Block
from platform_defs.formats.decoded import Decoded, in_order
from platform_defs.formats.framed import FramedReader
from platform_defs.formats.framing import HEADERS
from platform_defs.formats.supported import decode

ANY_SCHEMA: Mapping[tuple[int, str], int] = {}


@dataclass(frozen=True)
class DecodedBlock:
    """The messages of a block that were to be decoded; indexes count these."""

    decoded: Decoded
    schemas: Mapping[tuple[int, str], int]  # messages by the generation and key of the schema that they name, if known


@dataclass(frozen=True)
class _Cut:
    """Messages [start, stop) of those to be decoded, whose schemas are of this generation."""

    generation: int
    start: int
    stop: int


class BlockDecoder:
    """Decodes the blocks of one task."""

    def __init__(self, contract: Contract, schemas: Schemas | None) -> None:
        self._contract, self._schemas = contract, schemas
        self._readers: dict[int, FramedReader] = {}

    def read(self, partition: int, block: Block, chosen: pa.Int64Array | None) -> DecodedBlock:
        """The rows and faults of the chosen messages of a block, of all where None. Never raises for what a message
        holds; RegistryAway and LedgerAway where schemas have to be asked for.
        """
        values = block.values if chosen is None else block.values.take(chosen)
        if not self._contract.wire.framed:
            return DecodedBlock(decode(self._contract, values), ANY_SCHEMA)
        names = self._names(block, chosen)
        parts = [self._part(cut, values, names) for cut in self._cuts(partition, block, chosen, len(values))]
        return parts[0] if len(parts) == 1 else self._joined(parts)

    def _names(self, block: Block, chosen: pa.Int64Array | None) -> pa.BinaryArray | None:
        """The headers that name schemas, where the contract says that there are any."""
        if self._contract.wire.framing == "prefix":
            return None
        names = block.headers(HEADERS["value"])
        return names if chosen is None else names.take(chosen)

    def _cuts(self, partition: int, block: Block, chosen: pa.Int64Array | None, count: int) -> list[_Cut]:
        """The messages by the generation of the schemas that they name. Nearly always there is one."""
        generations = self._known.generations(partition)
        if len(generations) == 1:
            return [_Cut(generations[0][1], 0, count)]
        at = block.offsets
        offsets = np.arange(at.start, at.stop) if isinstance(at, range) else np.asarray(at)
        offsets = offsets if chosen is None else offsets[np.asarray(chosen)]
        bounds = [*np.searchsorted(offsets, [start for start, _ in generations]).tolist(), count]
        cuts = [_Cut(one, low, high) for (_, one), low, high in zip(generations, bounds, bounds[1:], strict=True)]
        return [cut for cut in cuts if cut.start < cut.stop] or [_Cut(generations[-1][1], 0, count)]

    def _part(self, cut: _Cut, values: pa.BinaryArray, names: pa.BinaryArray | None) -> DecodedBlock:
        length = cut.stop - cut.start
        named = None if names is None else names.slice(cut.start, length)
        found = self._reader(cut.generation).read(values.slice(cut.start, length), named)
        return DecodedBlock(
            _moved(found.decoded, cut.start), {(cut.generation, key): n for key, n in found.schemas.items()}
        )

    def _reader(self, generation: int) -> FramedReader:
        if generation not in self._readers:
            find = partial(self._known.find, generation)
            self._readers[generation] = FramedReader(self._contract, find)
        return self._readers[generation]

    def _joined(self, parts: Sequence[DecodedBlock]) -> DecodedBlock:
        decoded = [part.decoded for part in parts]
        pieces = [(one.rows, one.indexes) for one in decoded if one.rows.num_rows]
        faults = [fault for one in decoded for fault in one.faults]
        unknown = sum(one.unknown_fields for one in decoded)
        schemas = {name: n for part in parts for name, n in part.schemas.items()}
        return DecodedBlock(Decoded(*in_order(self._contract.arrow_schema, pieces), faults, unknown), schemas)

    @property
    def _known(self) -> Schemas:
        if self._schemas is None:
            raise InternalError.of("decoding", f"{self._contract.pipeline} has nowhere to find schemas")
        return self._schemas


def _moved(decoded: Decoded, start: int) -> Decoded:
    """The same, for messages that come after `start` others."""
    if not start:
        return decoded
    faults = [replace(fault, index=fault.index + start) for fault in decoded.faults]
    return replace(decoded, indexes=pc.add(decoded.indexes, start), faults=faults)
