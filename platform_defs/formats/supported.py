"""Decodes payloads into rows: each format has a folder next to this file, and a line here."""

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.contract import Contract
from platform_defs.formats.blocks.buffer import Buffer, Integers
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.json.decode import decode
from platform_defs.formats.wire.columns import binary_column


class Reader(Protocol):
    """Reads messages that were written with one schema into rows of one contract."""

    def read(self, data: Any, starts: Integers, stops: Integers) -> Decoded:
        """Return the rows and faults of the payloads data[starts[i]:stops[i]] (data: uint8 array), which ascend and do
        not overlap; i is the index. Pure; never raises for the content of a payload, except BlockTooLarge for several.
        """
        ...


@dataclass(frozen=True)
class JsonReader:
    """Reads JSON, whatever schema it was written with: the contract's rules validate it."""

    contract: Contract

    def read(self, data: Any, starts: Integers, stops: Integers) -> Decoded:
        """See `Reader`."""
        return decode(self.contract, payloads(data, starts, stops))


def payloads(data: Any, starts: Integers, stops: Integers) -> pa.BinaryArray:
    """Return the payloads data[starts[i]:stops[i]], which ascend and do not overlap, as a column. Copied if there are
    gaps between them.
    """
    buffer = Buffer(np.asarray(data))
    if not len(starts) or (starts[1:] != stops[:-1]).any():
        return cast("pa.BinaryArray", binary_column(buffer, starts, stops - starts, None, len(starts)))
    offsets = np.append(starts, stops[-1:]).astype(np.int32)
    found: Any = pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets.data), buffer.arrow])
    return found


def reader_of(contract: Contract, writer: WriterSchema, *, indexed: bool = False) -> Reader:
    """Return the reader for messages of this schema. `indexed`: Protobuf payloads begin with the indexes of their
    message.

    Raises SchemaNotCompatible, or OtherRecord, if no message becomes a row.
    """
    match contract.format:  # a worker loads the formats that it reads
        case "json":
            return JsonReader(contract)
        case "avro":
            from platform_defs.formats.avro.decode import AvroReader

            return AvroReader(contract, writer)
        case "protobuf":
            from platform_defs.formats.protobuf.decode import ProtobufReader

            return ProtobufReader(contract, writer, framed=indexed)
