"""The leader epochs of a topic's messages, read one by one: for settlements (resolve/settled_log.py), not for runs."""

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, cast

from confluent_kafka import KafkaError, TopicPartition

from platform_defs.errors import BrokerAway, error_policy
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.kafka.client.reader import Reader
from platform_defs.kafka.client.refusals import refusal, refusing
from platform_defs.kafka.client.rights import to_run
from platform_defs.kafka.source import READING

SECONDS = 30.0  # for one message
# Messages of aborted transactions have their leader's epoch as well; and only one message is needed.
ONE_BY_ONE = {"isolation.level": "read_uncommitted", "queued.min.messages": 1, "queued.max.messages.kbytes": 1_024}


@dataclass(frozen=True)
class MessageEpoch:
    """A message's offset, and the epoch of the leader that wrote it."""

    offset: int
    leader_epoch: int


class LeaderEpochs(Protocol):
    """The leader epochs of a topic's messages."""

    def at_or_after(self, partition: int, offset: int) -> MessageEpoch | None:
        """Return the first message at or past `offset`; None if the log has none. Raises BrokerAway."""
        ...


@dataclass(frozen=True)
class KafkaLeaderEpochs:
    """Implements LeaderEpochs. `options` are librdkafka's."""

    consumer: Reader
    topic: str
    options: Mapping[str, str] = field(repr=False)  # may contain a password

    def at_or_after(self, partition: int, offset: int) -> MessageEpoch | None:
        """Return the first message at or past `offset`; None if the log has none. Raises BrokerAway."""
        self.consumer.assign([TopicPartition(self.topic, partition, offset)])
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            message = self.consumer.poll(1.0)
            if message is None:
                self.consumer.connection_log.refuse_too_large(f"{self.topic}[{partition}] at offset {offset}")
                continue
            if (error := message.error()) is None:
                epoch = message.leader_epoch()
                return MessageEpoch(cast("int", message.offset()), -1 if epoch is None else epoch)
            if error.code() == KafkaError._PARTITION_EOF:
                return None
            self._insist(error, partition, offset)
            if error.code() == KafkaError._AUTO_OFFSET_RESET or error.fatal():
                raise BrokerAway(f"{self.topic}[{partition}] cannot be read at offset {offset}: {error.str()}")
        if (denied := self.consumer.connection_log.denied) is not None:
            self._insist(denied, partition, offset)
        raise BrokerAway(f"no message received from {self.topic}[{partition}] at offset {offset} for {SECONDS:.0f} s")

    def _insist(self, error: KafkaError, partition: int, offset: int) -> None:
        """Raise AccessDenied if this user may not read, whatever its groups."""
        if (
            error_policy.of_kafka(error.name()) is ErrorPolicy.DENIED
            and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED
        ):
            place = f"to read {self.topic}[{partition}] at {offset}"
            raise refusal(error, place, (to_run(self.topic),), self.options) or BrokerAway(error.str())


@contextmanager
def leader_epochs(options: Mapping[str, str], topic: str) -> Generator[KafkaLeaderEpochs]:
    """Yield a reader with its own consumer, while the block runs. `options` are librdkafka's."""
    with refusing("a consumer", options):
        consumer = Reader({**options, **READING, **ONE_BY_ONE})
    try:
        yield KafkaLeaderEpochs(consumer, topic, options)
    finally:
        consumer.close()
