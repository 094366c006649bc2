"""A note that Kafka keeps with a transaction: it exists only if the transaction was committed.

It is the committed offset of its own consumer group, which has no readers: `TxnOffsetCommit` puts it into the
transaction of the messages, and no topic gets an extra record. Brokers forget it a week after it was written
(offsets.retention.minutes).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from platform_defs.errors import BrokerAway
from platform_defs.kafka.client.connection_log import NO_LOG
from platform_defs.kafka.client.reader import Reader
from platform_defs.kafka.client.refusals import refusal, refusing
from platform_defs.kafka.client.rights import Right
from platform_defs.producers.producer import Producer

ANSWER = 30.0  # seconds


@dataclass(frozen=True)
class Marker:
    """The note of `group` about `topic`. `options` are librdkafka's, with `bootstrap.servers`."""

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    group: str
    topic: str

    def read(self) -> str | None:
        """Return the note of the last committed transaction. Raises BrokerAway, BadInput without the right."""
        retrying = Retrying(
            retry=retry_if_exception_type(BrokerAway),  # a coordinator that moves, or was just elected
            stop=stop_after_delay(ANSWER),
            wait=wait_exponential_jitter(multiplier=0.1, max=2.0),
            reraise=True,
        )
        client = self._client()
        try:
            return retrying(self._read, client)
        finally:
            client.close()

    def write(self, producer: Producer, note: str, messages: int) -> None:
        """Write the note in the transaction of `producer`. `messages` is what tools show as the group's offset."""
        client = self._client()
        try:
            at = [TopicPartition(self.topic, 0, messages, note)]
            producer.note(at, self.group, client.consumer_group_metadata())
        finally:
            client.close()

    def _read(self, client: Any) -> str | None:
        try:
            (found,) = client.committed([TopicPartition(self.topic, 0)], timeout=ANSWER / 3)
        except KafkaException as error:
            raise self._refused(client, error) from error
        return None if found.offset < 0 else found.metadata

    def _client(self) -> Any:
        """Return a consumer that never joins its group."""
        with refusing("a client for committed offsets", self.options):
            conf = {**NO_LOG, **self.options, "group.id": self.group, "enable.auto.commit": False}
            return Reader(conf)

    def _refused(self, client: Any, error: KafkaException) -> Exception:
        """Return why there was no answer. The reason arrives separately: for a hidden group, as a message's error."""
        message = client.poll(0)
        reason = (message and message.error()) or client.connection_log.denied or error.args[0]
        servers = self.options["bootstrap.servers"]
        away = (
            f"could not find out from Kafka at {servers} whether this run has already written to {self.topic}: "
            f"{reason.str()}"
        )
        needed = (Right("group", self.group, ("Read",)), Right("topic", self.topic, ("Read",)))
        refused = refusal(reason, f"to read the offsets of group {self.group}", needed, self.options)
        return refused or BrokerAway(f"{away}. Nothing was sent")
