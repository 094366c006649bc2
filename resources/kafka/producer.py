"""Writing to a topic: a producer that keeps what its preset promises."""

import logging
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from platform_defs.errors import (
    BadInput,
    BrokerAway,
    NotDelivered,
    TopicMissing,
)
from platform_defs.producing.chosen import Chosen, choose, unused
from platform_defs.producing.message import ID, Delivered, Ids, Message, Told
from platform_defs.producing.options import OPTIONS, own_name
from platform_defs.producing.outcomes import outcome_of
from platform_defs.producing.partitioners import Chooser, chooser, librarys, one_partition
from platform_defs.producing.presets import DEFAULT
from platform_defs.words import plural
from resources.kafka.transactions import Transactions

QUIET = {"log_level": 2}  # what librdkafka would log of a broker that is away is said once, in the error raised
ANSWER = 10  # seconds that Kafka may take to describe a topic
PATIENCE = 60.0  # seconds that `send` waits for room in the queue, and a transaction for an answer
SLICE = 0.1  # seconds of one wait in librdkafka, which Ctrl-C does not interrupt

ANYWHERE = -1  # the partition that librdkafka's partitioner finds

Report = Callable[[Message, Delivered | NotDelivered], None]
_OfLibrary = Callable[[KafkaError | None, confluent_kafka.Message], None]


class Producer:
    """Writes messages to one topic as a preset says. A context manager: at its end everything is acknowledged.

    One thread uses it. What it was told of its messages is in `told`, and goes to `on_delivery` while it sends or
    flushes; an error that `on_delivery` raises comes out of that call.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        topic: str,
        preset: Chosen | str = DEFAULT,
        *,
        client_id: str = "tidegate",
        ids: bool = True,
        partitions: int | None = None,
        patience: float = PATIENCE,
        on_delivery: Report | None = None,
    ) -> None:
        """`options`: a librdkafka configuration: addresses, passwords, and what TIDEGATE_KAFKA_* tune.

        `client_id`: tidegate.<pipeline>.<command>, also the transactional.id where none is given. `ids`: each message
        gets a header `tidegate-id`. `partitions`: how many the topic has; asked where it is needed and not given.
        Raises BadInput for options that contradict each other, TopicMissing, BrokerAway.
        """
        self.chosen = choose(preset, environment=options) if isinstance(preset, str) else preset
        self.topic, self.patience, self.told = topic, patience, Told()
        self.sent = 0  # messages handed to librdkafka
        _warn_of(unused(options), self.chosen.preset.name)
        self._servers = str(options.get("bootstrap.servers", ""))
        self._ids, self._on_delivery = (Ids() if ids else None), on_delivery
        self._failure: NotDelivered | None = None
        conf = {**_connection(options), **self._library_options(client_id), **QUIET}
        self._client = _client(conf, self.chosen.preset.name)
        self._choose = self._chooser(options, partitions)
        self._transactions = Transactions(self._client, topic, patience)
        self._ends_each = self.chosen.preset.waits == "each"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()

    def send(self, message: Message) -> None:
        """Hand a message over. Waits for room in the queue, and with a preset that waits for each message, for that.

        Raises NotDelivered where the message was not taken; ProducerBroken where none will be.
        """
        if self._ends_each:
            self.send_and_wait(message)
        else:
            self._hand_over(message, partial(self._reported, message))
            self._client.poll(0)

    def send_and_wait(self, message: Message) -> Delivered:
        """Send a message and wait until it is acknowledged: where it is. Raises NotDelivered where it is not."""
        found: list[Delivered | NotDelivered] = []

        def reported(error: KafkaError | None, report: confluent_kafka.Message) -> None:
            found.append(self._judge(message, error, report))

        self._hand_over(message, reported)
        while not found:  # message.timeout.ms ends it
            self._client.poll(SLICE)
        if isinstance(found[0], NotDelivered):
            raise found[0]
        return found[0]

    def flush(self) -> None:
        """Wait until what was sent is acknowledged or has failed, which takes message.timeout.ms at most.

        Raises NotDelivered, of the first message that failed since the last flush.
        """
        while self._client.flush(SLICE):
            pass
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @contextmanager
    def transaction(self) -> Generator[None]:
        """What is sent in it is committed at its end, or aborted where an error leaves it: then nobody reads it.

        Raises TransactionAborted, which may be sent again; ProducerFenced or ProducerBroken, after which this producer
        is of no more use; BrokerAway where the first transaction cannot begin.
        """
        before, self.told = self.told, Told()
        try:
            with self._transactions.one():
                yield
        except BaseException:
            self.told, self._failure = before, None
            raise
        before.add(self.told)
        self.told = before

    def note(self, offsets: Sequence[TopicPartition], group: object) -> None:
        """Commit a group's offsets with the transaction that this is in (resources/kafka/marker.py)."""
        self._transactions.add_offsets(offsets, group)

    def _hand_over(self, message: Message, reported: _OfLibrary) -> None:
        headers: list[tuple[str, str | bytes | None]] = [*message.headers]
        if self._ids is not None:
            headers.append((ID, self._ids.new()))
        partition = ANYWHERE if self._choose is None else self._choose(message.key)
        deadline = None
        while True:
            try:
                self._client.produce(
                    self.topic, message.value, message.key, partition, on_delivery=reported, headers=headers
                )
            except BufferError:
                deadline = deadline or time.monotonic() + self.patience
                self._wait_for_room(message, deadline)
            except KafkaException as error:
                raise self._not_taken(message, error.args[0]) from error
            else:
                self.sent += 1
                return

    def _wait_for_room(self, message: Message, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise self._not_taken(message, KafkaError(KafkaError._QUEUE_FULL))  # pyright: ignore[reportPrivateUsage]
        self._client.poll(SLICE)

    def _not_taken(self, message: Message, error: KafkaError) -> Exception:
        """The error to raise where librdkafka did not take a message."""
        broken = self._transactions.broken(error)
        return broken or self._failed(message, error)

    def _reported(self, message: Message, error: KafkaError | None, report: confluent_kafka.Message) -> None:
        """Called by librdkafka with what became of a message that nobody waits for."""
        found = self._judge(message, error, report)
        if isinstance(found, NotDelivered):
            self._failure = self._failure or found

    def _judge(
        self, message: Message, error: KafkaError | None, report: confluent_kafka.Message
    ) -> Delivered | NotDelivered:
        """Count what became of a message, and pass it on."""
        if error is not None:
            return self._failed(message, error)
        partition: Any = report.partition()
        self.told.delivered += 1
        self.told.partitions[partition] += 1
        self.told.latencies.add(report.latency() or 0.0)
        found = Delivered(partition, report.offset(), report.timestamp()[1])
        if self._on_delivery is not None:
            self._on_delivery(message, found)
        return found

    def _failed(self, message: Message, error: KafkaError) -> NotDelivered:
        failed = not_delivered(error, self.topic, self._servers)
        self.told.failed[failed.reason] += 1
        if self._on_delivery is not None:
            self._on_delivery(message, failed)
        return failed

    def _library_options(self, client_id: str) -> dict[str, Any]:
        """The chosen options as librdkafka has them."""
        options: dict[str, Any] = {"client.id": client_id, **self.chosen.options}
        if self.chosen.preset.waits == "commit":
            options.setdefault("transactional.id", options["client.id"])
        partitioner = librarys(self.chosen.partitioner)
        return {**options, "partitioner": partitioner or OPTIONS["partitioner"].default}

    def _chooser(self, options: Mapping[str, Any], partitions: int | None) -> Chooser | None:
        """How the partition of a message is found; None where librdkafka finds it."""
        if librarys(partitioner := self.chosen.partitioner) is not None:
            return None
        there = partitions or existing_partitions(options, self.topic)
        if (number := one_partition(partitioner)) is not None and number >= there:
            last = f"the last of its {plural(there, 'partition')} is {there - 1}"
            raise BadInput(f"{self.topic} has no partition {number}; {last}", field="partitioner")
        return chooser(partitioner, there)


def not_delivered(error: KafkaError, topic: str, servers: str) -> NotDelivered:
    """The error for a message whose delivery failed."""
    return NotDelivered(
        f"Kafka at {servers} did not acknowledge a message to {topic}: {error.str()} ({error.name()})",
        code=error.code(),
        reason=error.name(),
        outcome=outcome_of(error.code()),
    )


def existing_partitions(options: Mapping[str, Any], topic: str) -> int:
    """How many partitions the topic has. Raises TopicMissing, BrokerAway."""
    admin = AdminClient({**_connection(options), **QUIET})
    try:
        found = admin.list_topics(topic, timeout=ANSWER).topics.get(topic)
    except KafkaException as error:
        servers = str(options.get("bootstrap.servers", ""))
        raise BrokerAway(f"Kafka at {servers} did not answer: {error.args[0].str()}. Nothing was sent") from error
    if found is None or not found.partitions:
        raise TopicMissing.named(topic)
    return len(found.partitions)


def _connection(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a configuration that say where Kafka is and who asks, and not how messages are produced."""
    return {name: value for name, value in options.items() if own_name(name) not in OPTIONS}


def _client(conf: dict[str, Any], preset: str) -> confluent_kafka.Producer:
    try:
        return confluent_kafka.Producer(conf)
    except KafkaException as error:  # what choose() does not know of: a certificate that is not there, say
        said = error.args[0].str().strip()
        raise BadInput(f"librdkafka makes no producer of preset {preset}: {said}") from error


def _warn_of(names: Iterable[str], preset: str) -> None:
    for name in names:
        logging.getLogger("tidegate").warning(
            "%s is not taken from TIDEGATE_KAFKA_*: it would change what preset %s promises. Set it in the contract's "
            "producerOptions, or with --option",
            name,
            preset,
        )
