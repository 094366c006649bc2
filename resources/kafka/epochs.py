"""The leader epochs of a topic's messages, read one by one: for what a person settles, not for what runs."""

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, TopicPartition

from platform_defs.engine.leader_epochs import MessageEpoch
from platform_defs.errors import BrokerAway
from resources.kafka.source import LIBRDKAFKA, READING

SECONDS = 30.0  # for one message
# Messages of aborted transactions have their leader's epoch as well; and one message is all that is wanted.
ONE_BY_ONE = {"isolation.level": "read_uncommitted", "queued.min.messages": 1, "queued.max.messages.kbytes": 1_024}


@dataclass(frozen=True)
class KafkaLeaderEpochs:
    """See engine.leader_epochs.LeaderEpochs."""

    consumer: Consumer
    topic: str

    def at_or_after(self, partition: int, offset: int) -> MessageEpoch | None:
        """The first message at or past `offset`; None where the log holds none. Raises BrokerAway."""
        self.consumer.assign([TopicPartition(self.topic, partition, offset)])
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            message = self.consumer.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is None:
                epoch = message.leader_epoch()
                return MessageEpoch(cast("int", message.offset()), -1 if epoch is None else epoch)
            if error.code() == KafkaError._PARTITION_EOF:
                return None
            if error.code() == KafkaError._AUTO_OFFSET_RESET or error.fatal():
                raise BrokerAway(f"{self.topic}[{partition}] cannot be read at offset {offset}: {error.str()}")
        raise BrokerAway(f"no message received from {self.topic}[{partition}] at offset {offset} for {SECONDS:.0f} s")


@contextmanager
def leader_epochs(options: Mapping[str, str], topic: str) -> Generator[KafkaLeaderEpochs]:
    """A consumer of its own, for as long as the block runs. `options` are librdkafka's."""
    consumer = Consumer({**options, **READING, **ONE_BY_ONE}, logger=LIBRDKAFKA)
    try:
        yield KafkaLeaderEpochs(consumer, topic)
    finally:
        consumer.close()
