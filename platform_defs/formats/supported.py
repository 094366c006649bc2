"""From payloads to rows: each format has a folder beside this file, and a line here."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from platform_defs.contract.model import Contract
from platform_defs.formats.avro.decode import AvroReader
from platform_defs.formats.decoded import Decoded
from platform_defs.formats.json.decode import decode_json
from platform_defs.formats.protobuf.decode import ProtobufReader
from platform_defs.formats.wire.buffer import Buffer, Integers
from platform_defs.formats.wire.columns import binary_column
from platform_defs.formats.writer_schema import WriterSchema


class Reader(Protocol):
    """Reads messages that were written with one schema into rows of one contract."""

    def read(self, data: Any, starts: Integers, stops: Integers) -> Decoded:
        """The rows and faults of the payloads data[starts[i]:stops[i]] (data: uint8 array), which ascend and do not
        overlap; i is the index. Pure; never raises for what a payload holds.
        """
        ...


class JsonReader:
    """Reads JSON, whatever schema it was written with: the contract's rules judge it."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def read(self, data: Any, starts: Integers, stops: Integers) -> Decoded:
        """See `Reader`."""
        values: Any = binary_column(Buffer(np.asarray(data)), starts, stops - starts, None, len(starts))
        return decode_json(self._contract, values)


def reader_of(contract: Contract, writer: WriterSchema, *, indexed: bool = False) -> Reader:
    """What reads messages of this schema. `indexed`: Protobuf payloads begin with the indexes of their message.

    Raises SchemaNotCompatible, or OtherRecord, where none of them becomes a row.
    """
    return _READERS[contract.format](contract, writer, indexed)


def decode(contract: Contract, values: pa.BinaryArray) -> Decoded:
    """The rows and faults of bare JSON. Pure; never raises for what a message holds.

    A missing or null field is null in `rows`. A null value (tombstone) is a fault: an upsert pipeline removes those
    first.
    """
    return decode_json(contract, values)


_READERS: dict[str, Callable[[Contract, WriterSchema, bool], Reader]] = {
    "json": lambda contract, _writer, _indexed: JsonReader(contract),
    "avro": lambda contract, writer, _indexed: AvroReader(contract, writer),
    "protobuf": lambda contract, writer, indexed: ProtobufReader(contract, writer, framed=indexed),
}
