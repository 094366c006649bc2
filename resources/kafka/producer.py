"""Writing to a topic: a producer that neither loses nor repeats a message, and the topic's partitions."""

import time
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from confluent_kafka import KafkaError, Producer

from platform_defs.errors import BrokerAway

QUIET = {"log_level": 2}  # what librdkafka would log of a broker that is away is said once, in the error raised
BATCH = 1_000  # messages handed to librdkafka at once
PATIENCE = 60  # seconds that a message may take until it is acknowledged


class Message(Protocol):
    """What is sent; None is a tombstone's value, or no key."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class Sender:
    """Sends messages to one topic, acknowledged by all in-sync replicas and without repetition.

    A message goes to the partition that the CRC-32 of its key says, without a key to each in turn.
    """

    def __init__(
        self, options: Mapping[str, Any], topic: str, partitions: int, headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """`headers` are those of every message."""
        self.topic, self.partitions = topic, partitions
        self._headers: list[tuple[str, str | bytes | None]] = list(headers)
        self.total, self.sent = 0, Counter[int]()  # messages handed over, and the same by partition
        self._errors: list[str] = []
        self._servers = options.get("bootstrap.servers", "")
        self._started = self._ended = time.monotonic()
        self._producer = Producer(
            {
                **options,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "compression.type": "lz4",
                "delivery.report.only.error": True,
                "on_delivery": self._failed,
                "queue.buffering.max.messages": 500_000,
                "message.timeout.ms": PATIENCE * 1_000,
                **QUIET,
            }
        )

    @property
    def seconds(self) -> float:
        """From the start until everything was acknowledged (`finish`)."""
        return self._ended - self._started

    def send(self, messages: Iterable[Message]) -> None:
        """Hand `messages` over; waits while librdkafka's queue is full. Raises BrokerAway for an earlier failure."""
        rest = iter(messages)
        while batch := list(islice(rest, BATCH)):
            by_partition: dict[int, list[dict[str, bytes | None]]] = {}
            for message in batch:
                wanted = {"value": message.value, "key": message.key}
                by_partition.setdefault(self._partition(message.key), []).append(wanted)
            for partition, wanted in by_partition.items():
                self._send(partition, wanted)

    def finish(self) -> None:
        """Wait until everything is acknowledged. Raises BrokerAway when it is not."""
        left = self._producer.flush(PATIENCE)
        self._ended = time.monotonic()
        self._check()
        if left:
            raise BrokerAway(
                f"{left} messages to {self.topic} were not acknowledged by Kafka at {self._servers} within {PATIENCE} s"
            )

    def _partition(self, key: bytes | None) -> int:
        """Count a message about to be sent; the partition it goes to."""
        partition = (self.total if key is None else zlib.crc32(key)) % self.partitions
        self.total += 1
        self.sent[partition] += 1
        return partition

    def _send(self, partition: int, messages: list[dict[str, Any]]) -> None:
        while messages and not self._headers:
            self._producer.produce_batch(self.topic, messages, partition=partition)
            messages = [{"value": item["value"], "key": item["key"]} for item in messages if "_error" in item]
            self._producer.poll(0.1 if messages else 0)  # the queue was full
            self._check()
        for message in messages:
            self._send_one(partition, message)

    def _send_one(self, partition: int, message: dict[str, Any]) -> None:
        """With headers, which `produce_batch` does not take."""
        while True:
            try:
                self._producer.produce(self.topic, **message, partition=partition, headers=self._headers)
                self._producer.poll(0)
                return
            except BufferError:  # the queue is full
                self._producer.poll(0.1)
                self._check()

    def _failed(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._errors.append(error.str())

    def _check(self) -> None:
        if self._errors:
            raise BrokerAway(
                f"Kafka at {self._servers} did not acknowledge {len(self._errors)} messages to {self.topic}: "
                f"{self._errors[0]}"
            )
