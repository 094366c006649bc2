"""An undelivered message, byte for byte, and its form in a file (a line of JSON)."""

import base64
import json
import zlib
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from platform_defs.errors import NotDelivered
from platform_defs.producers.message import ID, Message
from platform_defs.producers.outcomes import Outcome

MAX_BYTES = 16_000_000  # of messages' content, that are in memory at once
Sized = TypeVar("Sized")
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class LogEnds:
    """A topic's log before a message was first sent: `end_offsets` of partitions 0, 1, ...

    The message can only be after them. If they are older than necessary, only more of the log is read.
    """

    topic: str
    cluster_id: str
    topic_id: str
    end_offsets: tuple[int, ...]


class Attempt(NamedTuple):
    """A message as it is passed to librdkafka. `named` is the value of its header `tidegate-id`; `before` is None if
    undelivered messages are not stored, `at_ms` its time.
    """

    message: Message
    named: bytes | None = None
    before: LogEnds | None = None
    at_ms: int = 0

    @property
    def headers(self) -> Headers:
        """All headers that it is sent with."""
        return (*self.message.headers, *(() if self.named is None else ((ID, self.named),)))


class Unsent(Protocol):
    """The store for messages that a producer could not deliver (producers/unsent/sink.py)."""

    def attempt(self, message: Message, named: bytes | None) -> Attempt:
        """Called before a message is sent. May query Kafka, and raises BrokerAway: then nothing is sent."""
        ...

    def failed(self, attempt: Attempt, failure: NotDelivered, partition: int | None) -> None:
        """Called by librdkafka: neither waits nor raises. `partition`: the chosen one, None if none was chosen."""
        ...

    def begin(self) -> None:
        """Begin a transaction. It may send messages of an aborted one again, or others."""
        ...

    def commit(self) -> None:
        """Commit: all of the transaction is delivered, with the messages of aborted ones that it sent again."""
        ...

    def abort(self, failure: BaseException) -> None:
        """Abort: nothing of the transaction is delivered, unless another one commits the same messages."""
        ...

    def keep(self, *, all_of_it: bool = False) -> None:
        """Write failed messages if there are many, or `all_of_it`, with aborted messages that were not sent again.

        Raises UnsentLost.
        """
        ...


@dataclass(frozen=True)
class UnsentMessage:
    """An undelivered message, byte for byte, and the code of its last try.

    `partition` is the intended one, None if it had none yet. `tidegate_id` is the value of its header `tidegate-id`;
    `id_sent` False: it was sent without that header, and gets it when it is sent again. `tries` counts how often it was
    passed to librdkafka, which retries by itself.
    """

    unsent_id: UUID
    pipeline: str
    before: LogEnds
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    tidegate_id: bytes
    id_sent: bool
    error_code: int
    error_name: str
    outcome: Outcome
    failed_at: datetime
    timestamp_ms: int  # of the first try
    tries: int = 1

    @property
    def size(self) -> int:
        """The bytes of its key, value and headers."""
        parts = (
            self.key,
            self.value,
            *(part for name, value in self.headers for part in (name.encode("utf-8", "surrogatepass"), value)),
        )
        return sum(len(part) for part in parts if part is not None)


def in_portions(items: Iterable[Sized], most: int, size: Callable[[Sized], int]) -> Generator[list[Sized]]:
    """Yield the items in lists of at most `most`, with at most MAX_BYTES of content unless one item has more."""
    portion, total = list[Sized](), 0
    for item in items:
        if portion and (len(portion) == most or total + size(item) > MAX_BYTES):
            yield portion
            portion, total = [], 0
        portion.append(item)
        total += size(item)
    if portion:
        yield portion


def to_line(message: UnsentMessage) -> bytes:
    """Return the message as a line of a file: a checksum (CRC-32) and a JSON object, whose bytes are base64."""
    given = vars(message)
    document = {
        **given,
        "unsent_id": str(message.unsent_id),
        "before": vars(message.before),
        "headers": [[_text(name.encode("utf-8", "surrogatepass")), _text(value)] for name, value in message.headers],
        "failed_at": message.failed_at.isoformat(),
        **{name: _text(given[name]) for name in ("key", "value", "tidegate_id")},
    }
    written = json.dumps(document, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(written), written)


def from_line(line: bytes) -> UnsentMessage | None:
    """Return the message that `to_line` wrote; None for an incomplete line."""
    checksum, _, written = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(written):
        return None
    document: dict[str, Any] = json.loads(written)
    headers = document["headers"]
    before: dict[str, Any] = {**document["before"], "end_offsets": tuple(document["before"]["end_offsets"])}
    parsed: dict[str, Any] = {
        "unsent_id": UUID(document["unsent_id"]),
        "before": LogEnds(**before),
        "headers": tuple(((_bytes(n) or b"").decode("utf-8", "surrogatepass"), _bytes(value)) for n, value in headers),
        "failed_at": datetime.fromisoformat(document["failed_at"]),
        **{name: _bytes(document[name]) for name in ("key", "value", "tidegate_id")},
    }
    return UnsentMessage(**{**document, **parsed})


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
