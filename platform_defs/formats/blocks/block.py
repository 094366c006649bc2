"""Messages as a source delivers them: columns of values and keys, and a whole message only for the few that need one.

Formats decode `values`, whatever their source. A source with Python messages makes a `MessageBlock` from them; one that
fills Arrow's buffers itself needs no Python object per message.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import methodcaller
from typing import Literal, Protocol, Self, TypeVar

import pyarrow as pa

from platform_defs.formats.blocks.budget import BlockTooLarge

MAX_BYTES = 256 << 20  # of a block's values: far from the 2 GiB at which Arrow's binary arrays end
Found = TypeVar("Found")
Headers = list[tuple[str, bytes | None]]  # names and values
TIMESTAMP_TYPES: Mapping[int, Literal["CreateTime", "LogAppendTime"]] = {1: "CreateTime", 2: "LogAppendTime"}
NO_TIMESTAMP = -1  # org.apache.kafka.common.record.RecordBatch.NO_TIMESTAMP
YEARS = -62_135_596_800_000, 253_402_300_799_999  # the first and the last ms of the years 1 to 9999


class Message(Protocol):
    """A message as confluent_kafka returns it."""

    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...
    def leader_epoch(self) -> int | None: ...


class Block(Protocol):
    """Messages of one partition, in the order of their offsets; at least one.

    An index counts the messages of the block, from 0.
    """

    @property
    def values(self) -> pa.BinaryArray:
        """The messages' values; null if a message has none (a tombstone)."""
        ...

    @property
    def keys(self) -> pa.BinaryArray:
        """The messages' keys; null if a message has none. Built on first access."""
        ...

    def headers(self, name: str) -> pa.BinaryArray:
        """Return each message's last header of this name; null if it has none, or one without a value. Slow, since it
        reads every message: only for contracts that need it.
        """
        ...

    def all_headers(self) -> "Sequence[Headers | None]":
        """Return the headers of each message, in order; None if the client cannot read them, since a name is not UTF-8.
        Like `headers`, for contracts that need them.
        """
        ...

    def timestamps(self) -> Sequence[tuple[int, int]]:
        """Return the type of each message's timestamp (0: none, 1: CreateTime, 2: LogAppendTime) and the timestamp in
        ms since the epoch. For contracts that need them.
        """
        ...

    @property
    def offsets(self) -> range | pa.Int64Array:
        """The messages' offsets, ascending: a range if none is missing between the first and the last."""
        ...

    @property
    def leader_epoch(self) -> int | None:
        """The leader epoch of the last message, if the broker gives one."""
        ...

    def message(self, index: int) -> Message:
        """Return one message with its headers and timestamp. For dead letters: slow, so never for all of them."""
        ...

    def halves(self) -> "tuple[Block, Block]":
        """Return the messages as two blocks; there are at least two messages."""
        ...


@dataclass(frozen=True)
class MessageBlock:
    """A Block of Python messages. Make it with `message_blocks`, which keeps `values` below Arrow's limit."""

    messages: Sequence[Message]
    values: pa.BinaryArray
    offsets: range | pa.Int64Array

    @property
    def keys(self) -> pa.BinaryArray:
        return self._keys

    @cached_property
    def _keys(self) -> pa.BinaryArray:
        return pa.array([message.key() for message in self.messages], pa.binary())

    def headers(self, name: str) -> pa.BinaryArray:
        return pa.array([last_header(readable_headers(message), name) for message in self.messages], pa.binary())

    def all_headers(self) -> "Sequence[Headers | None]":
        return [readable_headers(message) for message in self.messages]

    def timestamps(self) -> Sequence[tuple[int, int]]:
        return [message.timestamp() for message in self.messages]

    @property
    def leader_epoch(self) -> int | None:
        return self.messages[-1].leader_epoch()

    def message(self, index: int) -> Message:
        return self.messages[index]

    def halves(self) -> tuple[Self, Self]:
        middle = len(self.messages) // 2
        return self._part(0, middle), self._part(middle, len(self.messages))

    def _part(self, start: int, stop: int) -> Self:
        messages = self.messages[start:stop]
        values = self.values.slice(start, stop - start)
        return replace(self, messages=messages, values=values, offsets=_offsets(messages))


def message_blocks(messages: Sequence[Message]) -> Iterator[MessageBlock]:
    """Yield `messages` of one partition, in order of offset, as blocks of at most `MAX_BYTES`: one, unless they are
    huge.
    """
    if not messages:
        return
    column = pa.array([message.value() for message in messages], pa.binary())
    if len(messages) > 1 and (isinstance(column, pa.ChunkedArray) or column.nbytes > MAX_BYTES):
        middle = len(messages) // 2
        yield from message_blocks(messages[:middle])
        yield from message_blocks(messages[middle:])
        return
    assert isinstance(column, pa.BinaryArray)  # noqa: S101  # one value: Kafka's requests end below Arrow's limit
    yield MessageBlock(messages, column, _offsets(messages))


def in_parts(block: Block, read: Callable[[Block], Found]) -> Iterator[tuple[Block, Found]]:
    """Yield the block and the result of `read`; its halves, in their order, if the block is too large."""
    try:
        found = read(block)
    except BlockTooLarge:
        for half in block.halves():
            yield from in_parts(half, read)
        return
    yield block, found


def timestamp_ms(kind: int, milliseconds: int) -> int | None:
    """Return a message's timestamp in ms since the epoch; None if it has none. `kind`: as in `Block.timestamps`."""
    return milliseconds if kind in TIMESTAMP_TYPES and milliseconds != NO_TIMESTAMP else None


def headers_of(message: Message) -> Headers:
    """Return the message's headers, in order; one that says why, if the client cannot read them."""
    found = readable_headers(message)
    return _UNREADABLE if found is None else found


def readable_headers(message: Message) -> Headers | None:
    """Return the message's headers, in order; None if the name of one is not UTF-8.

    confluent-kafka 2.16 then returns a list with a null pointer in it, with an exception set, and keeps it for the next
    call. To read that name ends the process, so the message gets other headers.
    """
    try:
        found: Headers = _headers(message) or []
    except (SystemError, UnicodeDecodeError):
        _replace_headers(message)
        return None
    return None if found is _UNREADABLE else found


# Not `message.headers()`: once CPython 3.11 has specialized that call, it does not see that an exception is set.
_headers: Callable[[Message], Headers | None] = methodcaller("headers")
_UNREADABLE: Headers = [("tidegate: a header's name is not UTF-8, so none could be read", None)]
_replace_headers: Callable[[Message], None] = methodcaller("set_headers", _UNREADABLE)


def last_header(headers: Headers | None, name: str) -> bytes | None:
    """Return the value of the last header of this name; None if there is none, or no value in it."""
    if not headers:
        return None
    last, value = headers[-1]  # serializers put it at the end
    return value if last == name else dict(headers).get(name)


def _offsets(messages: Sequence[Message]) -> range | pa.Int64Array:
    first, last = messages[0].offset(), messages[-1].offset()
    if last - first + 1 == len(messages):
        return range(first, last + 1)
    return pa.array([message.offset() for message in messages], pa.int64())
