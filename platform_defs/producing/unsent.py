"""A message that was not delivered: what is kept of it, byte for byte, and its form in a file (a line of JSON)."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from platform_defs.errors import NotDelivered
from platform_defs.producing.message import ID, Message
from platform_defs.producing.outcomes import Outcome

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class LogEnds:
    """A topic's log before a message was first sent: `end_offsets` of partitions 0, 1, ...

    The message can only be behind them. Where they are older than needed, more of the log is read, and that is all.
    """

    topic: str
    cluster_id: str
    topic_id: str
    end_offsets: tuple[int, ...]


class Attempt(NamedTuple):
    """A message as it is handed to librdkafka. `named` is the header `tidegate-id` that it gets; `before` is None where
    nobody keeps what is not delivered, `at_ms` its time.
    """

    message: Message
    named: bytes | None = None
    before: LogEnds | None = None
    at_ms: int = 0

    @property
    def headers(self) -> Headers:
        """All that it is sent with."""
        return self.message.headers + (() if self.named is None else ((ID, self.named),))


class Unsent(Protocol):
    """Where a producer puts what it could not deliver (resources/unsent/sink.py)."""

    def attempt(self, message: Message, named: bytes | None) -> Attempt:
        """Called before a message is handed over. May ask Kafka, and raises BrokerAway: then nothing is sent."""
        ...

    def failed(self, attempt: Attempt, failure: NotDelivered, partition: int | None) -> None:
        """Called by librdkafka: neither waits nor raises. `partition`: that was chosen, None where none was."""
        ...

    def begin(self) -> None:
        """A transaction begins. It may send messages of an aborted one again, or others."""
        ...

    def commit(self) -> None:
        """The transaction was committed: all of it is delivered, with what was aborted before and sent again in it."""
        ...

    def abort(self, failure: BaseException) -> None:
        """The transaction was aborted: nothing of it is delivered, unless another one commits the same messages."""
        ...

    def keep(self, *, all_of_it: bool = False) -> None:
        """Write what has failed: where it is a good deal, or `all_of_it`, with what was aborted and not sent again.

        Raises UnsentLost.
        """
        ...


@dataclass(frozen=True)
class UnsentMessage:
    """A message that was not delivered, byte for byte, and the code of its last try.

    `partition` is the one that it was meant for, None where it had none yet. `tidegate_id` is the value of its header
    `tidegate-id`; `id_sent` False means that it was sent without that header, and gets it when it is sent again.
    `tries` counts how often it was handed to librdkafka, which tries more often by itself.
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
        """Bytes of its key, value and headers."""
        parts = (
            self.key,
            self.value,
            *(part for name, value in self.headers for part in (name.encode("utf-8", "surrogatepass"), value)),
        )
        return sum(len(part) for part in parts if part is not None)


def to_line(message: UnsentMessage) -> bytes:
    """The message as a line of a file: a checksum (CRC-32) and a JSON object, whose bytes are base64."""
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
    """The message that `to_line` wrote; None for a line that is not whole."""
    checksum, _, written = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(written):
        return None
    document = json.loads(written)
    return UnsentMessage(**{**document, **_parsed(document)})


def _parsed(document: Mapping[str, Any]) -> dict[str, Any]:
    before: dict[str, Any] = {**document["before"], "end_offsets": tuple(document["before"]["end_offsets"])}
    return {
        "unsent_id": UUID(document["unsent_id"]),
        "before": LogEnds(**before),
        "headers": _headers(document["headers"]),
        "failed_at": datetime.fromisoformat(document["failed_at"]),
        **{name: _bytes(document[name]) for name in ("key", "value", "tidegate_id")},
    }


def _headers(written: Sequence[Sequence[str | None]]) -> Headers:
    return tuple(((_bytes(name) or b"").decode("utf-8", "surrogatepass"), _bytes(value)) for name, value in written)


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
