"""The schema that each message of a block names, and the position of its payload.

Confluent's wire format: a byte 0 and the id of the schema in four bytes before the payload; or, in a header of its own,
that id, or a byte 1 and the schema's GUID. After either, Protobuf has the indexes of the message in its file.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.contract import Fault, Framing
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.arrow import int64s
from platform_defs.formats.blocks.buffer import Bytes, Integers, Mask
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.reason import MISSING_KEY
from platform_defs.formats.blocks.writer_schema import Part

HEADERS: dict[Part, str] = {"value": "__value_schema_id", "key": "__key_schema_id"}

FRAME = 5  # bytes: the magic byte, and the id
_GUID = 17  # bytes: a byte 1, and the GUID
_NO_VALUE = {
    "value": ("NullValue", "the message has no value (a tombstone); only upsert tables accept those"),
    "key": MISSING_KEY,
}


@dataclass(frozen=True)
class Group:
    """Messages of a block that name the same schema: payload i is data[starts[i]:stops[i]]."""

    key: str  # of the schema: its id as text, or its GUID
    indexes: Integers  # of the messages in their block, ascending
    starts: Integers
    stops: Integers
    heads: pa.BinaryArray | None = None  # Protobuf: each message's indexes, if a header has them, not the payload
    first: bool = False  # nothing has indexes: messages are of the first type of their schema


@dataclass(frozen=True)
class Unframed:
    """A block, split: every message is in one group, or is a fault."""

    data: Bytes  # the values' own buffer: nothing is copied
    groups: tuple[Group, ...]
    faults: list[Fault]  # ascending by index


def unframe(
    framing: Framing,
    values: pa.BinaryArray,
    names: pa.BinaryArray | None,
    part: Part = "value",
    *,
    protobuf: bool = False,
) -> Unframed:
    """Split `values` (or keys, as `part` says) by schema. `names` are the headers that name schemas, null if a message
    has none; needed for header and both. With framing none, all are in one group, whose key is empty. A header ends
    after the id; with `protobuf`, after the message's indexes. Pure; never raises for the content of a message.
    """
    block = _Block(values, part, protobuf=protobuf)
    present = np.asarray(values.is_valid())
    block.refuse(np.flatnonzero(~present), *_NO_VALUE[part])
    if framing == "none":
        if len(rows := np.flatnonzero(present)):
            block.groups.append(Group("", rows, block.starts[rows], block.stops[rows], first=True))
        return block.unframed()
    if framing == "prefix" or names is None:
        block.by_prefix(present)
        return block.unframed()
    headed = np.asarray(names.is_valid())
    block.by_header(names, np.flatnonzero(present & headed))
    if framing == "both":
        block.by_prefix(present & ~headed)
    else:
        message = f"the message has no header {HEADERS[part]}, which must identify its schema according to the contract"
        block.refuse(np.flatnonzero(present & ~headed), "MissingSchemaHeader", message)
    return block.unframed()


class _Block:
    """A block that is being split; each message is passed to one of the methods."""

    def __init__(self, values: pa.BinaryArray, part: Part, *, protobuf: bool) -> None:
        buffers: list[Any] = values.buffers()
        _, offsets, data = buffers
        bounds = np.zeros(1, np.int32) if offsets is None else np.frombuffer(offsets, np.int32)
        bounds = bounds[values.offset : values.offset + len(values) + 1].astype(np.int64)
        self.data: Bytes = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        self.starts, self.stops = bounds[:-1], bounds[1:]
        self.part: Part = part
        self.protobuf = protobuf
        self.groups: list[Group] = []
        self.faults: list[Fault] = []

    def by_prefix(self, wanted: Mask) -> None:
        """Group messages by the id before their payloads."""
        long_enough = wanted & (self.stops - self.starts >= FRAME)
        rows = np.flatnonzero(long_enough)
        at = self.starts[rows]
        ids = np.zeros(len(rows), np.int64)
        for place in range(1, FRAME):
            ids = ids << 8 | self.data[at + place]
        framed = (self.data[at] == 0) & (ids != 0)  # no registry gives the id 0
        for number, found in _by_value(ids[framed]):
            indexes = rows[framed][found]
            self.groups.append(Group(str(number), indexes, self.starts[indexes] + FRAME, self.stops[indexes]))
        unframed = wanted.copy()
        unframed[rows[framed]] = False
        for row in np.flatnonzero(unframed).tolist():
            value = self.data[self.starts[row] : self.stops[row]][:80].tobytes()
            likeness = _likeness(value, int(self.stops[row] - self.starts[row]))
            message = f"the {self.part} does not begin with a zero byte and a schema id: {likeness}"
            self.refuse(np.array([row]), "NotFramed", message)

    def by_header(self, names: pa.BinaryArray, rows: Integers) -> None:
        """Group messages by the schema in their header, and by the presence of indexes after it."""
        chosen: Any = names.take(int64s(rows))
        encoded: Any = chosen.dictionary_encode()
        numbers = np.asarray(encoded.indices, np.int64)
        distinct: list[bytes] = encoded.dictionary.to_pylist()
        headers = [_header(one, protobuf=self.protobuf) for one in distinct]
        places = {place: number for number, place in enumerate(dict.fromkeys(one.place for one in headers))}
        place_of = np.array([places[one.place] for one in headers], np.int64)
        named, indexes_of = list(places), pa.array([one.indexes for one in headers], pa.binary())
        for number, found in _by_value(place_of[numbers]):
            (key, first), indexes = named[number], rows[found]
            if not key:
                which: list[int] = numbers[found].tolist()
                for row, header in zip(indexes, (headers[at] for at in which), strict=True):
                    message = f"the header {HEADERS[self.part]} {header.wrong}: {excerpt(header.written)}"
                    self.refuse(np.array([row]), "NotFramed", message)
                continue
            heads: Any = None if first else indexes_of.take(int64s(numbers[found]))
            starts, stops = self.starts[indexes], self.stops[indexes]
            self.groups.append(Group(key, indexes, starts, stops, heads=heads, first=first))

    def refuse(self, rows: Integers, error_class: str, message: str) -> None:
        """Add a fault for each message."""
        field = "_key" if self.part == "key" else None
        self.faults += [Fault(int(row), "decode", error_class, message, field) for row in rows]

    def unframed(self) -> Unframed:
        return Unframed(self.data, tuple(self.groups), sorted(self.faults, key=lambda fault: fault.index))


def frame_hint(value: bytes) -> str:
    """Return a sentence for a message that could not be read, if it may begin with a frame that the contract does not
    declare; else an empty text. `value`: its first bytes. They are not quoted: without a frame, they are a field's
    value, perhaps a classified one.
    """
    if value[:1] != b"\0" or len(value) < FRAME or not any(value[1:FRAME]):
        return ""
    return (
        ". The message begins with a zero byte and what may be a schema id: if its producer uses a schema registry, "
        "set framing: prefix in the contract"
    )


def one_group(groups: Sequence[Group]) -> Group:
    """Return groups of one block as one, under the key of the first."""
    indexes = np.concatenate([group.indexes for group in groups])
    order = np.argsort(indexes)
    starts = np.concatenate([group.starts for group in groups])
    stops = np.concatenate([group.stops for group in groups])
    return replace(groups[0], indexes=indexes[order], starts=starts[order], stops=stops[order])


def _by_value(numbers: Integers) -> list[tuple[int, Integers]]:
    """Return each number that occurs, and its positions, ascending. Usually there is one."""
    if not len(numbers):
        return []
    if (numbers == numbers[0]).all():
        return [(int(numbers[0]), np.arange(len(numbers)))]
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    return [(int(numbers[found[0]]), found) for found in np.split(order, starts[1:])]


@dataclass(frozen=True)
class _Header:
    """The schema and the indexes in a header."""

    written: bytes
    key: str = ""  # of the schema; empty if it names none
    indexes: bytes = b""  # Protobuf: the message's indexes, if it has any
    wrong: str = ""  # why it names none

    @property
    def place(self) -> tuple[str, bool]:
        """The key of the header's group."""
        return self.key, not self.indexes


def _header(written: bytes, *, protobuf: bool) -> _Header:
    if written[:1] == b"\0" and len(written) >= FRAME:
        key, indexes = str(int.from_bytes(written[1:FRAME])), written[FRAME:]
    elif written[:1] == b"\1" and len(written) >= _GUID:
        key, indexes = str(UUID(bytes=written[1:_GUID])), written[_GUID:]
    else:
        return _Header(written, wrong="does not identify a schema")
    if indexes and protobuf:
        # A worker loads the formats that it reads.
        from platform_defs.formats.protobuf.message_index import read_indexes

        found = read_indexes(indexes, len(indexes))
        if found is None or found[1] != len(indexes):
            return _Header(written, wrong=f"continues after the schema id ({key}), but not with message indexes")
    elif indexes:
        return _Header(written, wrong=f"continues after the schema id ({key})")
    return _Header(written, key, indexes)


def _likeness(value: bytes, length: int) -> str:
    """Describe the probable format of an unframed value, by its first bytes."""
    if length < FRAME:
        return f"it has only {plural(length, 'byte')}"
    if value.lstrip()[:1] in (b"{", b"["):
        return "it looks like JSON without a schema"
    if value[:1] == b"\3" and value[1] in (0, 5) and length >= 18:
        return "it looks like the framing of AWS Glue's serializer (18 bytes)"
    if value[:FRAME] == bytes(FRAME) and length >= 9:
        number = int.from_bytes(value[1:9])
        return (
            f"it looks like Apicurio's framing of 8 bytes (id {number}); its serializer can write Confluent's 4 bytes"
        )
    if value[:4] == b"Obj\1":
        return "it looks like a whole Avro file"
    return f"it begins with {value[:8].hex(' ')}"
