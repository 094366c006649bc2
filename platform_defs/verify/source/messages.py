"""The topic, read by a plain consumer of verify's own."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from platform_defs.errors import BadInput, BrokerAway, TidegateError
from platform_defs.kafka.client.admin_client import admin_client
from platform_defs.kafka.client.reader import FOLLOW_AFTER, Follower, Reader
from platform_defs.kafka.client.refusals import refusal
from platform_defs.offsets import READING
from platform_defs.settings.settings import settings
from platform_defs.verify.source.spans import Span, within
from platform_defs.verify.validators.known_schemas import last_header

_log = logging.getLogger(READING)  # read by the process that outlives this one (cli/ended_by_signal.py)

PATIENCE = 30.0  # seconds without progress after which BrokerAway is raised
POLL = 0.2  # seconds
MOST = 20_000  # messages per call of the consumer
MAX_BYTES = 64 << 20  # of values and headers; a chunk ends when it has as many
_HEADER = 200  # bytes that a header takes in Python
# The broker queried, or the leader, may have just died.
_again = retry(
    retry=retry_if_exception_type(BrokerAway),
    stop=stop_after_delay(PATIENCE),
    wait=wait_exponential_jitter(multiplier=0.1, max=1.0),
    reraise=True,
)

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Chunk:
    """The messages in [from_offset, until_offset) of a partition; offsets ascend and may leave gaps."""

    partition: int
    from_offset: int
    until_offset: int
    offsets: list[int] = field(default_factory=list[int])
    keys: list[bytes | None] = field(default_factory=list[bytes | None])
    values: list[bytes | None] = field(default_factory=list[bytes | None])
    names: list[bytes | None] = field(default_factory=list[bytes | None])  # headers that name the values' schemas
    key_names: list[bytes | None] = field(default_factory=list[bytes | None])  # headers that name the keys' schemas
    # If a contract has fields of the message's metadata; otherwise empty.
    headers: list[Headers | None] = field(default_factory=list[Headers | None])  # None: the client cannot read them
    timestamps: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  # type, ms since the epoch

    def __len__(self) -> int:
        return len(self.offsets)

    def without(self, skips: Sequence[Span]) -> "Chunk":
        """Return the chunk without the messages in `skips`: the log may still have skipped messages."""
        taken = within(skips, self.from_offset, self.until_offset)
        if not taken:
            return self
        kept = [n for n, at in enumerate(self.offsets) if not any(low <= at < high for low, high in taken)]
        columns: dict[str, list[Any]] = {name: of for name, of in vars(self).items() if isinstance(of, list)}
        return replace(self, **{name: [column[n] for n in kept] if column else [] for name, column in columns.items()})


class Topic:
    """A reader of committed messages of one topic. To be closed."""

    def __init__(
        self, options: Mapping[str, Any], topic: str, *, headers: bool = False, metadata: bool = False
    ) -> None:
        """Open a consumer. `headers`: read those that name schemas as well. `metadata`: read all headers, and
        timestamps.
        """
        self.topic, self._headers, self._metadata, self._options = topic, headers, metadata, options
        self._reading: Mapping[str, Any] = {
            **options,
            "group.id": "tidegate-verify",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "check.crcs": True,
            "queued.max.messages.kbytes": 65_536,
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 5,  # the default lets a full queue run dry for a second
        }
        self._consumer = Reader(self._reading)

    def close(self) -> None:
        self._consumer.close()

    @_again
    def topic_id(self) -> str:
        """Return the topic's current id. Raises BadInput if there is no such topic, BrokerAway if no answer came."""
        admin = admin_client(self._options)  # a new one: one that waits for a dead broker does not stop waiting
        wanted = TopicCollection([self.topic])
        try:
            return str(admin.describe_topics(wanted, request_timeout=10)[self.topic].result(timeout=20).topic_id)
        except KafkaException as error:
            raise _refused(error.args[0], f"topic {self.topic}", admin.why(error.args[0])) from error

    @_again
    def low(self, partition: int) -> int:
        """Return the first offset that the broker still has. Raises BrokerAway."""
        try:
            return self._consumer.get_watermark_offsets(TopicPartition(self.topic, partition), timeout=20)[0]
        except KafkaException as error:
            why = self._consumer.connection_log.why(error.args[0])
            raise _refused(error.args[0], f"partition {partition} of {self.topic}", why) from error

    def chunks(self, partition: int, start: int, until: int, largest: int) -> Iterator[Chunk]:
        """Yield [start, until) in consecutive chunks of about `largest` messages, or fewer if they are large.

        If the log ends before `until`, the last chunk still ends at `until`: the rest has no messages. Raises
        BrokerAway.
        """
        if start >= until:
            return
        if isinstance(self._consumer, Follower):
            self._consumer.close()
            self._consumer = Reader(self._reading)
        self._consumer.assign([TopicPartition(self.topic, partition, start)])
        position = start
        while position < until:
            _log.info("partition %d of %s, from offset %d", partition, self.topic, position)
            chunk = self._chunk(partition, position, until, largest)
            _log.info("partition %d of %s, offsets [%d, %d)", partition, self.topic, position, chunk.until_offset)
            yield chunk
            position = chunk.until_offset
        self._consumer.unassign()

    def _chunk(self, partition: int, start: int, until: int, largest: int) -> Chunk:
        found = Chunk(partition, from_offset=start, until_offset=until)
        reached, size = start, 0
        while reached < until and len(found) < largest and size < MAX_BYTES:
            messages = self._next(partition, reached, min(MOST, until - reached))
            # messages left over from the previous partition are ignored
            mine = [message for message in messages if message.partition() == partition]
            good = [message for message in mine if message.error() is None and message.offset() < until]
            if good:
                reached, size = good[-1].offset() + 1, size + self._add(found, good)
            if len(good) < len(mine):
                reached = self._reached(mine, partition, reached, until)
        return replace(found, until_offset=reached)

    def _add(self, chunk: Chunk, messages: Sequence[Any]) -> int:
        """Add messages to a chunk. Return their bytes."""
        values: list[bytes | None] = [message.value() for message in messages]
        chunk.offsets.extend(message.offset() for message in messages)
        chunk.keys.extend(message.key() for message in messages)
        chunk.values.extend(values)
        headers = [_headers_of(message) for message in messages] if self._headers or self._metadata else []
        none = [None] * len(messages)
        chunk.names.extend([last_header(one or [], "__value_schema_id") for one in headers] or none)
        chunk.key_names.extend([last_header(one or [], "__key_schema_id") for one in headers] or none)
        size = sum(map(len, filter(None, values)))
        if self._metadata:
            chunk.headers.extend(headers)
            chunk.timestamps.extend(message.timestamp() for message in messages)
            size += sum(_HEADER + len(value or b"") for one in headers for _, value in one or ())
        return size

    def _reached(self, messages: Sequence[Any], partition: int, reached: int, until: int) -> int:
        """Return the offset up to which the log was read, by errors and by messages after the range. Raise an error
        other than the end of the log.
        """
        for message in messages:
            error = message.error()
            if error is None:
                ends = message.offset() >= until
            elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:  # for a group that no consumer joins
                ends = False
            elif not (ends := error.code() == KafkaError._PARTITION_EOF):
                why = self._consumer.connection_log.why(error)
                raise _refused(error, f"partition {partition} of {self.topic}", why)
            reached = until if ends else reached
        return reached

    def _next(self, partition: int, position: int, most: int) -> list[Any]:
        """Return up to `most` messages, at least one. If none arrive from `position` on for a while, a Follower checks
        if any are still to come: librdkafka skips aborted messages.
        """
        since, fetched, place = time.monotonic(), position, f"partition {partition} of {self.topic}"
        while (silence := time.monotonic() - since) < PATIENCE:
            if messages := self._consumer.consume(most, POLL):
                return messages
            self._consumer.connection_log.refuse_too_large(f"{place} at offset {position}")
            if isinstance(self._consumer, Follower):
                if self._consumer.fetched > fetched:
                    since, fetched = time.monotonic(), self._consumer.fetched
            elif silence > PATIENCE * FOLLOW_AFTER:
                self._consumer.close()
                self._consumer = Follower(self._reading, TopicPartition(self.topic, partition, position))
        raise BrokerAway(f"no message received from {place} for {PATIENCE:.0f} s. {settings().kafka_advice}")


_headers = methodcaller("headers")


def _headers_of(message: Any) -> Headers | None:
    """Return the message's headers; None if the name of one is not UTF-8.

    confluent-kafka 2.16 returns a list with an exception set. Only a call from C, such as methodcaller's, always fails.
    """
    try:
        return _headers(message) or []
    except (SystemError, UnicodeDecodeError):
        return None


def _refused(error: KafkaError, what: str, why: str) -> TidegateError:
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
        return BadInput(f"{what} does not exist, so there is nothing to verify the tables against")
    if (refused := refusal(error, f"to read {what}")) is not None:
        return refused
    return BrokerAway(f"Kafka did not answer about {what}: {why}. {settings().kafka_advice}")
