"""Kafka: what a topic looks like now (KafkaBroker, in the driver) and its messages (KafkaSource, in Spark's tasks)."""

import gc
import logging
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from platform_defs.engine.ports import Block
from platform_defs.errors import BadInput, BrokerAway, LogTruncated, StagingLost
from platform_defs.offsets import OffsetRange, PartitionView, TopicView

BLOCK = 10_000  # messages decoded at once: 2 MB of the usual JSON, which a core has in its cache, and 20 ms of work
POLL = 0.2  # seconds; consume() waits it out whenever fewer messages came than were asked for
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # what a broker answers that knows no topic ids (KIP-516)


class _Transient(Exception):  # inside this module only: try again
    """The broker could not answer just now."""


@dataclass(frozen=True)
class KafkaBroker:
    """Describes topics. `options` are librdkafka's, with `bootstrap.servers`."""

    options: Mapping[str, str]
    timeout: float = 30.0  # seconds, over all tries of one question

    def describe(self, topic: str) -> TopicView:
        """The topic's ids, low watermarks and last stable offsets, and whether its cleanup policy compacts.

        Raises BrokerAway when no complete answer came in time, BadInput when the topic does not exist.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(_Transient),
            stop=stop_after_delay(self.timeout),
            wait=wait_exponential_jitter(multiplier=0.1, max=2.0),
            reraise=True,
        )
        try:
            return retrying(self._describe, topic)
        except _Transient as error:
            raise BrokerAway(
                f"Kafka at {self.options['bootstrap.servers']} did not answer about topic {topic} for"
                f" {self.timeout:.0f} s: {error}. Nothing was changed; the next run goes on. Is the broker up"
                " (`tidegate stack status`)?"
            ) from error

    def _describe(self, topic: str) -> TopicView:
        admin = AdminClient(dict(self.options))
        cluster = _answer(admin.describe_cluster(request_timeout=5))
        described = _answer(admin.describe_topics(TopicCollection([topic]), request_timeout=5)[topic], topic)
        topic_id = str(described.topic_id)
        if topic_id == ZERO_ID or not cluster.cluster_id:
            raise BadInput(
                "the broker gives no topic id; without it a topic created again could not be told from the old "
                "one. Kafka 3.1 or later with topic ids is needed",
                field=topic,
            )
        partitions = [TopicPartition(topic, item.id) for item in described.partitions]
        return TopicView(topic, cluster.cluster_id, topic_id, _watermarks(admin, partitions), _compacts(admin, topic))


def _watermarks(admin: AdminClient, partitions: list[TopicPartition]) -> dict[int, PartitionView]:
    """Low watermark, last stable offset (the high watermark would start empty runs behind an open transaction), and
    that.
    """
    latest: dict[TopicPartition, Any] = dict.fromkeys(partitions, OffsetSpec.latest())
    earliest: dict[TopicPartition, Any] = dict.fromkeys(partitions, OffsetSpec.earliest())
    ends = admin.list_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=5)
    highs = admin.list_offsets(latest, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=5)
    lows = admin.list_offsets(earliest, request_timeout=5)
    end = {p.partition: _answer(future) for p, future in ends.items()}
    high = {p.partition: _answer(future).offset for p, future in highs.items()}
    low = {p.partition: _answer(future).offset for p, future in lows.items()}
    return {p: PartitionView(low[p], end[p].offset, end[p].leader_epoch, high[p]) for p in low}


def _compacts(admin: AdminClient, topic: str) -> bool:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    config = _answer(admin.describe_configs([resource], request_timeout=5)[resource])
    return "compact" in config["cleanup.policy"].value


def _answer(future: "Future[Any]", topic: str | None = None) -> Any:
    try:
        return future.result(timeout=10)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if topic and reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise BadInput(
                f"topic {topic} does not exist; create it, or start the stack that holds it", field=topic
            ) from error
        raise _Transient(reason.str()) from error
    except TimeoutError as error:
        raise _Transient("no answer within 10 s") from error


# What librdkafka says of its connections goes to Python's logging, not straight to stderr: a consumer that is kept
# would complain twenty times a second of a broker that has stopped. What matters comes back from `consume`.
LIBRDKAFKA = logging.getLogger("tidegate.librdkafka")
LIBRDKAFKA.addHandler(logging.NullHandler())

# One consumer for each Python worker and configuration: it costs 100 ms to create, and Spark reuses its workers.
_consumers: dict[tuple[tuple[str, str], ...], Consumer] = {}


@dataclass(frozen=True)
class KafkaSource:
    """Reads ranges inside a task. Picklable; `options` are librdkafka's, with `bootstrap.servers`."""

    options: Mapping[str, str]
    patience: float = 30.0  # seconds without a message before the broker counts as away
    own: Mapping[str, Any] = field(default_factory=lambda: dict(READING))

    def read(self, wanted: OffsetRange) -> Iterator[Block]:
        """Blocks of `wanted`, in order, until it is proven read (engine.ports.Source).

        librdkafka compares `leader_epoch` with the broker's log (KIP-320) only when it learns of a new leader. A
        consumer that knows the leader already would not ask, so a range with a new leader gets a new consumer.
        """
        if wanted.new_leader and (known := _consumers.pop(self._key, None)):
            known.close()
        consumer = self._consumer()
        epoch: dict[str, Any] = {} if wanted.leader_epoch is None else {"leader_epoch": wanted.leader_epoch}
        consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.from_offset, **epoch)])
        try:
            yield from self._blocks(consumer, wanted)
            consumer.unassign()
        except BaseException:
            _consumers.pop(self._key, None)  # whatever state it is in, the next range gets a new one
            consumer.close()
            raise

    def _blocks(self, consumer: Consumer, wanted: OffsetRange) -> Iterator[Block]:
        position, heard = wanted.from_offset, time.monotonic()
        while position < wanted.until_offset:
            polled = _consume(consumer, min(BLOCK, wanted.until_offset - position))
            messages, reached = _sort_out(polled, wanted, position)
            if messages:
                last: Any = messages[-1].offset()
                inside = messages if last < wanted.until_offset else _before(messages, wanted.until_offset)
                if inside:
                    yield _block(inside)
            if reached > position:
                position, heard = reached, time.monotonic()
            elif time.monotonic() - heard > self.patience:
                raise BrokerAway(
                    f"no message of {wanted.topic}[{wanted.partition}] at {position} (wanted up to "
                    f"{wanted.until_offset}) came for {self.patience:.0f} s"
                )

    @property
    def _key(self) -> tuple[tuple[str, str], ...]:
        return (("pid", str(os.getpid())), *sorted((k, str(v)) for k, v in {**self.options, **self.own}.items()))

    def _consumer(self) -> Consumer:
        if self._key not in _consumers:
            _consumers[self._key] = Consumer({**self.options, **self.own}, logger=LIBRDKAFKA)
        return _consumers[self._key]


READING: Mapping[str, Any] = {
    "group.id": "tidegate-reader",  # asked for by librdkafka, never joined: partitions are assigned
    "enable.auto.commit": False,  # the default moves the group's offsets even under assign
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # never jump: the planner decides what a missing offset means
    "isolation.level": "read_committed",
    "enable.partition.eof": True,  # the proof at the end of a range, where control records never arrive
    "queued.min.messages": 20_000,  # what is fetched beyond a range is fetched again: enough for two blocks, no more
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 5,  # the default lets a full queue run dry for a second: a third of the speed
    "fetch.wait.max.ms": 50,
    "reconnect.backoff.max.ms": 1_000,  # a broker that is back is found again soon, not after up to ten seconds
    "check.crcs": True,
}


def _consume(consumer: Consumer, most: int) -> list[Message]:
    """Up to `most` messages, without the collector of cycles: it would walk through all the new ones again and again,
    for half of the time that reading takes, and they hold none.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return consumer.consume(most, POLL)
    finally:
        if collecting:
            gc.enable()


def _sort_out(polled: list[Message], wanted: OffsetRange, position: int) -> tuple[list[Message], int]:
    """The messages among what `consume` gave, and the offset up to which the partition is now known."""
    if not any(map(Message.error, polled)):
        return polled, polled[-1].offset() + 1 if polled else position  # pyright: ignore[reportOptionalOperand]
    faults = [item for item in polled if item.error() is not None]
    messages = [item for item in polled if item.error() is None]
    reached = messages[-1].offset() + 1 if messages else position  # pyright: ignore[reportOptionalOperand]
    for item in faults:
        reason: KafkaError = item.error()  # pyright: ignore[reportAssignmentType]
        if reason.code() == KafkaError._PARTITION_EOF:
            reached = max(reached, item.offset())  # pyright: ignore[reportArgumentType]
        elif _CUT in reason.str():
            raise LogTruncated(
                f"{wanted.topic}[{wanted.partition}] was cut below {wanted.from_offset} and written on: {reason.str()}."
            )
        elif reason.code() in _GONE:
            raise StagingLost(
                f"{wanted.topic}[{wanted.partition}] cannot be read at {position}: {reason.str()}. "
                "The next run asks the broker what became of it."
            )
        elif reason.fatal() or reason.code() in _UNREADABLE:
            raise BrokerAway(f"{wanted.topic}[{wanted.partition}] at {position}: {reason.str()}")
        # anything else librdkafka mends by itself; `patience` bounds the wait
    return messages, reached


_CUT = KafkaError(KafkaError._LOG_TRUNCATION).str()  # as librdkafka tells it, under the code _AUTO_OFFSET_RESET
# librdkafka goes on behind what it cannot read: the message would look like a gap.
_UNREADABLE = {
    KafkaError._BAD_MSG,
    KafkaError._BAD_COMPRESSION,
    KafkaError._NOT_IMPLEMENTED,
    KafkaError._UNDERFLOW,
    KafkaError.MSG_SIZE_TOO_LARGE,
}
_GONE = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


def _before(messages: list[Message], until: int) -> list[Message]:
    return [item for item in messages if item.offset() < until]  # pyright: ignore[reportOptionalOperand]


def _block(messages: list[Message]) -> Block:
    first: int = messages[0].offset()  # pyright: ignore[reportAssignmentType]
    last: int = messages[-1].offset()  # pyright: ignore[reportAssignmentType]
    contiguous = last - first + 1 == len(messages)
    offsets = range(first, last + 1) if contiguous else [item.offset() for item in messages]
    return Block(messages, offsets)  # pyright: ignore[reportArgumentType]


def offsets_at(options: Mapping[str, str], topic: str, milliseconds: int) -> dict[int, int]:
    """By partition, the first offset whose timestamp is `milliseconds` since the epoch or later, or the end.

    Raises BadInput when the topic does not exist, BrokerAway when no answer came.
    """
    admin = AdminClient(dict(options))
    try:
        described = _answer(admin.describe_topics(TopicCollection([topic]), request_timeout=5)[topic], topic)
        places = [TopicPartition(topic, item.id) for item in described.partitions]
        found = admin.list_offsets(dict.fromkeys(places, OffsetSpec.for_timestamp(milliseconds)), request_timeout=5)
        at = {place.partition: _answer(future).offset for place, future in found.items()}
        ends = {number: held.end for number, held in _watermarks(admin, places).items()}
    except _Transient as error:
        raise BrokerAway(f"Kafka did not answer about the offsets of {topic} at a time: {error}") from error
    return {number: offset if offset >= 0 else ends[number] for number, offset in at.items()}


def show_progress(options: Mapping[str, str], group: str, topic: str, next_offsets: Mapping[int, int]) -> None:
    """Move a consumer group along, so that Kafka's own tools show where a pipeline is. Nobody ever reads it back.

    Raises BrokerAway; a member of that name in the group, of somebody else's, makes the broker refuse as well.
    """
    consumer = Consumer({**options, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.commit(
            offsets=[TopicPartition(topic, p, n) for p, n in sorted(next_offsets.items())], asynchronous=False
        )
    except KafkaException as error:
        raise BrokerAway(f"the consumer group {group} could not be moved along: {error.args[0].str()}") from error
    finally:
        consumer.close()


def topic_facts(options: Mapping[str, str], topic: str) -> dict[str, int | str]:
    """What a broker's operator knows of a topic: partitions, replication_factor, and retention_ms, retention_bytes,
    cleanup_policy, min_insync_replicas.

    Raises BadInput when the topic does not exist, BrokerAway when no answer came.
    """
    admin = AdminClient(dict(options))
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        described = _answer(admin.describe_topics(TopicCollection([topic]), request_timeout=5)[topic], topic)
        config = _answer(admin.describe_configs([resource], request_timeout=5)[resource], topic)
    except _Transient as error:
        raise BrokerAway(
            f"Kafka at {options['bootstrap.servers']} did not answer about topic {topic}: {error}"
        ) from error
    return {
        "partitions": len(described.partitions),
        "replication_factor": min(len(item.replicas) for item in described.partitions),
        "retention_ms": int(config["retention.ms"].value),
        "retention_bytes": int(config["retention.bytes"].value),
        "min_insync_replicas": int(config["min.insync.replicas"].value),
        "cleanup_policy": config["cleanup.policy"].value,
    }
