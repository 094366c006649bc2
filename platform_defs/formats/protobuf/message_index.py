"""The index of a message type in its file: the numbers in front of a payload, as Confluent's serializers write them.

A count and as many indexes, all zigzag varints: the place of the type among the file's messages, then among the
messages nested in it, and so on; a count of 0 is short for the first message of the file.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format

A map's entry is a nested message too, though it is not in the schema's text. Confluent's serializer for Python counts
it; one that goes by the text, as Java's does, does not. So the index of a message nested after a map may mean either
of two types, and Tidegate does not choose one.
"""

from collections.abc import Iterator, Mapping, Sequence

from google.protobuf.descriptor import Descriptor, FileDescriptor

from platform_defs.formats.blocks.reason import Reason

Indexes = tuple[int, ...]


def types_of(file: FileDescriptor) -> dict[Indexes, list[Descriptor]]:
    """Return the message types that indexes may mean, nested ones included: one, or two if serializers do not agree."""
    found = dict[Indexes, list[Descriptor]]()
    top = list(file.message_types_by_name.values())
    for counts_entries in (True, False):
        for indexes, of in _numbered(top, (), counts_entries=counts_entries):
            if not _is_entry(of) and of not in found.setdefault(indexes, []):
                found[indexes].append(of)
    return {indexes: types for indexes, types in found.items() if types}


def _numbered(
    types: Sequence[Descriptor], above: Indexes, *, counts_entries: bool
) -> Iterator[tuple[Indexes, Descriptor]]:
    counted = [of for of in types if counts_entries or not _is_entry(of)]
    for place, of in enumerate(counted):
        yield (*above, place), of
        yield from _numbered(of.nested_types, (*above, place), counts_entries=counts_entries)


def _is_entry(of: Descriptor) -> bool:
    return of.GetOptions().map_entry


def spellings(indexes: Indexes) -> tuple[bytes, ...]:
    """Return the encodings of the indexes, the usual one first."""
    written = b"".join(map(_zigzag, (len(indexes), *indexes)))
    return (b"\0", written) if indexes == (0,) else (written,)


def read_indexes(payload: bytes, deepest: int) -> tuple[Indexes, int] | None:
    """Return the indexes in front of a message, and its start; None if there are none, or more than `deepest`."""
    count, at = _varint(payload, 0)
    if not 0 <= count <= deepest:
        return None
    indexes = list[int]()
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return None if -1 in indexes else (tuple(indexes) or (0,), at)


def message_at(
    payload: bytes, types: Mapping[Indexes, Sequence[Descriptor]], deepest: int
) -> tuple[Descriptor, int] | Reason:
    """Return the type of the message in the payload, and the position at which the message begins."""
    found = read_indexes(payload, deepest)
    if found is None:
        shown = payload[:8].hex(" ")
        return Reason("UnknownMessageIndex", f"the value does not begin with the indexes of its message: {shown}")
    indexes, at = found
    meant = types.get(indexes, ())
    if len(meant) != 1:
        shown = ".".join(map(str, indexes))
        names = " or ".join(of.full_name for of in meant) or "no message of its schema"
        return Reason("UnknownMessageIndex", f"the message has the index {shown}, which means {names}")
    return meant[0], at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position after it; -1 if it is cut off, too long, or negative."""
    value = 0
    for place, byte in enumerate(payload[at : at + 5]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (-1 if value & 1 else value >> 1), at + place + 1
    return -1, at


def _zigzag(number: int) -> bytes:
    value, written = number << 1, bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
