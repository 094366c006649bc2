"""The schemas that messages name: the ones that the ledger recorded as known when each message was read."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from platform_defs.contract.model.contract import Framing
from platform_defs.verify.decoders.documents import NotTheType

Key = ParamSpec("Key")
Reader = TypeVar("Reader")


@dataclass(frozen=True)
class NamedSchema:
    """A schema in the ledger: its text, and those of its references."""

    key: str
    format: str
    document: str
    references: tuple[tuple[str, str], ...]
    encrypted: bool


@dataclass
class _Range:
    """Offsets [start, stop) read by one task, and the schemas that it knew."""

    start: int
    stop: int
    known: dict[str, NamedSchema]


@dataclass
class KnownSchemas:
    """The known schemas by partition and range."""

    ranges: dict[int, list[_Range]] = field(default_factory=dict[int, list[_Range]])

    def add(self, partition: int, start: int, stop: int, schema: NamedSchema) -> None:
        """Add a schema that messages of a range name. Ranges come in ascending order."""
        ranges = self.ranges.setdefault(partition, [])
        if not ranges or ranges[-1].start != start:
            ranges.append(_Range(start, stop, {}))
        ranges[-1].known[schema.key] = schema

    def named(self, key: str, kind: str, partition: int, offset: int) -> NamedSchema:
        """Return the schema that the message here names. Raises NotTheType with the reason if it was not known when the
        message was read, is not of this format, or is encrypted.
        """
        ranges = self.ranges.get(partition, [])
        place = bisect_right(ranges, offset, key=lambda item: item.start)
        known = ranges[place - 1].known if place and offset < ranges[place - 1].stop else {}
        if (schema := known.get(key)) is None:
            raise NotTheType("UnknownSchemaId")
        if schema.format != kind:
            raise NotTheType("WrongSchemaType")
        if schema.encrypted:
            raise NotTheType("SchemaNotCompatible")
        return schema


def cached(make: Callable[Key, Reader]) -> Callable[Key, Reader]:
    """Return `make`, called once for each schema. Failures, NotTheType, are cached too."""

    @cache
    def outcome(*key: Key.args, **others: Key.kwargs) -> Reader | NotTheType:
        try:
            return make(*key, **others)
        except NotTheType as wrong:
            return wrong

    def made(*key: Key.args, **others: Key.kwargs) -> Reader:
        found: Any = outcome(*key, **others)  # functools.cache has no types of parameters
        if isinstance(found, NotTheType):
            raise NotTheType(str(found))
        return found

    return made


@dataclass(frozen=True)
class Named:
    """The parts of a framed message: its schema, Protobuf's message indexes if a header has them, and the payload."""

    key: str
    payload: bytes
    message: bytes | None = None


def unframed(framing: Framing, value: bytes | None, header: bytes | None, *, protobuf: bool = False) -> Named:
    """Return the schema that a message names, and its payload. Raises NotTheType with the reason if it names none."""
    if value is None:
        raise NotTheType("NullValue")
    if framing != "prefix" and header is not None:
        return _by_header(value, header, protobuf=protobuf)
    if framing == "header":
        raise NotTheType("MissingSchemaHeader")
    number = int.from_bytes(value[1:5])
    if len(value) < 5 or value[0] != 0 or number == 0:
        raise NotTheType("NotFramed")
    return Named(str(number), value[5:])


def _by_header(value: bytes, header: bytes, *, protobuf: bool) -> Named:
    if len(header) >= 5 and header[0] == 0:
        named = Named(str(int.from_bytes(header[1:5])), value, header[5:])
    elif len(header) >= 17 and header[0] == 1:
        named = Named(str(UUID(bytes=header[1:17])), value, header[17:])
    else:
        raise NotTheType("NotFramed")
    if named.message and not (protobuf and _only_indexes(named.message)):
        raise NotTheType("NotFramed")
    return named


def _only_indexes(written: bytes) -> bool:
    """Return True if these are a count and as many numbers: non-negative zigzag varints of at most five bytes."""
    ends = [place for place, byte in enumerate(written, 1) if byte < 128]
    starts = [0, *ends[:-1]]
    if not ends or ends[-1] != len(written):
        return False
    numbers = [written[start:end] for start, end in zip(starts, ends, strict=True)]
    count = sum((byte & 127) << 7 * place for place, byte in enumerate(numbers[0]))
    return count == 2 * (len(numbers) - 1) and all(len(one) <= 5 and one[0] % 2 == 0 for one in numbers)


def last_header(headers: Sequence[tuple[str, bytes | None]], name: str) -> bytes | None:
    """Return the value of the last header of that name; None if there is none."""
    return next((value for found, value in reversed(headers) if found == name), None)
