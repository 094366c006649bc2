"""The topic, read by a plain consumer of verify's own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from platform_defs.errors import BadInput, BrokerAway

PATIENCE = 30  # seconds without a message before the broker counts as away
POLL = 0.2  # seconds


@dataclass(frozen=True)
class Chunk:
    """What the broker holds of [from_offset, until_offset) of a partition; offsets ascend and may leave gaps."""

    partition: int
    from_offset: int
    until_offset: int
    offsets: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]


class Topic:
    """Reads committed messages of one topic. To be closed."""

    def __init__(self, options: Mapping[str, Any], topic: str) -> None:
        self.topic = topic
        self._admin = AdminClient(dict(options))
        self._consumer = Consumer(
            {
                **options,
                "group.id": "tidegate-verify",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "check.crcs": True,
                "queued.max.messages.kbytes": 65_536,
                "fetch.wait.max.ms": 50,
            }
        )

    def close(self) -> None:
        self._consumer.close()

    def topic_id(self) -> str:
        """The topic's id now. Raises BadInput when there is no such topic."""
        future = self._admin.describe_topics(TopicCollection([self.topic]), request_timeout=10)[self.topic]
        try:
            return str(future.result(timeout=20).topic_id)
        except KafkaException as error:
            raise _sentence(error.args[0], f"topic {self.topic}") from error

    def low(self, partition: int) -> int:
        """The first offset that the broker still holds."""
        try:
            return self._consumer.get_watermark_offsets(TopicPartition(self.topic, partition), timeout=20)[0]
        except KafkaException as error:
            raise _sentence(error.args[0], f"{self.topic}[{partition}]") from error

    def chunks(self, partition: int, start: int, until: int, largest: int) -> Iterator[Chunk]:
        """[start, until) in chunks of about `largest` messages, without a hole between them.

        Where the log ends before `until`, the last chunk says so by holding nothing of the rest.
        """
        if start >= until:
            return
        self._consumer.assign([TopicPartition(self.topic, partition, start)])
        position, ended = start, False
        while position < until and not ended:
            offsets: list[int] = []
            keys: list[bytes | None] = []
            values: list[bytes | None] = []
            reached = position
            while reached < until and not ended and len(offsets) < largest:
                for message in self._next(partition, min(20_000, until - reached)):
                    error, offset = message.error(), message.offset()
                    if message.partition() != partition:  # left over from the one before
                        continue
                    if error is not None:
                        ended = ended or self._is_end(error, partition)
                    elif offset < until:
                        offsets.append(offset)
                        keys.append(message.key())
                        values.append(message.value())
                        reached = offset + 1
                    else:
                        reached = until
            if ended:
                reached = until
            yield Chunk(partition, position, reached, offsets, keys, values)
            position = reached
        self._consumer.unassign()

    def _next(self, partition: int, most: int) -> list[Any]:
        for _ in range(int(PATIENCE / POLL)):
            if messages := self._consumer.consume(most, POLL):
                return messages
        raise BrokerAway(f"no message of {self.topic}[{partition}] came for {PATIENCE} s")

    def _is_end(self, error: KafkaError, partition: int) -> bool:
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        raise _sentence(error, f"{self.topic}[{partition}]")


def _sentence(error: KafkaError, what: str) -> BadInput | BrokerAway:
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
        return BadInput(f"{what} does not exist; there is nothing to verify the tables against")
    return BrokerAway(f"{what}: {error.str()}")
