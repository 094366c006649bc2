"""Kafka for a Spark task: every message of a range, to its proven end."""

import gc
import os
import platform
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from platform_defs.errors import (
    BrokerAway,
    LogTruncated,
    MessageMisplaced,
    MessageUnreadable,
    OffsetsUnavailable,
    OtherCluster,
    TidegateError,
    error_policy,
)
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.formats.blocks.block import Block, message_blocks
from platform_defs.formats.blocks.block import Message as BlockMessage
from platform_defs.kafka.client.reader import FOLLOW_AFTER, Follower, Reader
from platform_defs.kafka.client.refusals import refusal, refusing
from platform_defs.kafka.client.rights import to_run
from platform_defs.offsets import OffsetRange

BLOCK = 10_000  # messages decoded at once: 2 MB of the usual JSON, which a core has in its cache, and 20 ms of work
POLL = 0.2  # seconds; consume() waits that long whenever fewer messages came than requested


# One consumer for each Python worker and configuration: it costs 100 ms to create, and Spark reuses its workers.
_consumers: dict[tuple[tuple[str, str], ...], Reader] = {}


@dataclass(frozen=True)
class KafkaSource:
    """Reads ranges inside a task. Picklable; `options` are librdkafka's, with `bootstrap.servers`."""

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    patience: float = 30.0  # seconds without progress before the broker counts as unavailable
    own: Mapping[str, Any] = field(default_factory=lambda: dict(READING))

    def read(self, wanted: OffsetRange, cluster_id: str | None = None) -> Iterator[Block]:
        """Yield blocks of `wanted`, in order, until it is proven read (Source).

        librdkafka compares `leader_epoch` with the broker's log (KIP-320) only when it learns of a new leader. A
        consumer that knows the leader already would not ask, so a range with a new leader gets a new consumer (tested:
        each new one asks).
        """
        if wanted.new_leader and (known := _consumers.pop(self._key, None)):
            known.close()
        consumer = self._consumer()
        start = _start(wanted, wanted.from_offset, wanted.leader_epoch)
        consumer.assign([start])
        try:
            with _collected_rarely():
                left = yield from self._blocks(consumer, wanted, start, cluster_id)
                consumer.unassign()
                if left.offset < wanted.until_offset:
                    follower = Follower({**self.options, **self.own}, left)
                    with closing(follower):
                        yield from self._blocks(follower, wanted, left, cluster_id)
        except BaseException:
            _consumers.pop(self._key, None)  # in an unknown state, so the next range gets a new one
            consumer.close()
            raise

    def _blocks(
        self, consumer: Reader, wanted: OffsetRange, start: TopicPartition, cluster_id: str | None
    ) -> Generator[Block, None, TopicPartition]:
        """Yield the blocks from `start` on. Return their end: a Follower continues there, if the range goes on, with
        the leader epoch of the last message, so that a new leader checks whether its log was truncated below it.
        """
        position, epoch, last_progress = start.offset, start.leader_epoch, time.monotonic()
        while position < wanted.until_offset:
            fetched = consumer.fetched if isinstance(consumer, Follower) else position
            polled = consumer.consume(min(BLOCK, wanted.until_offset - position), POLL)
            self._compare(consumer, cluster_id)
            try:
                messages, reached = self._sort_out(polled, wanted, position)
            except MessageUnreadable:  # also a coordinator's, whose connection closed with the batch that is too large
                consumer.connection_log.refuse_too_large(_place(wanted, position))
                raise
            if messages:
                inside, until = messages, wanted.until_offset
                if _offset(messages[-1]) >= until:
                    inside = [item for item in messages if _offset(item) < until]
                yield from message_blocks(cast("list[BlockMessage]", inside))
            if not polled:
                reached = max(position, fetched)
            if reached > position:
                # After the last message there may be control records of a later epoch.
                epoch = messages[-1].leader_epoch() if messages and _offset(messages[-1]) + 1 == reached else None
                position, last_progress = reached, time.monotonic()
                consumer.connection_log.forget()
                continue
            consumer.connection_log.refuse_too_large(_place(wanted, position))
            silence = time.monotonic() - last_progress
            if not isinstance(consumer, Follower) and silence > self.patience * FOLLOW_AFTER:
                break
            if silence > self.patience * (1 - FOLLOW_AFTER):
                raise self._silence(consumer, wanted, position)
        return _start(wanted, position, epoch)

    def _silence(self, consumer: Reader, wanted: OffsetRange, position: int) -> TidegateError:
        """Return the error after `patience` without a message. A restarting broker may briefly refuse every login."""
        place = f"{_place(wanted, position)} (of a range up to {wanted.until_offset})"
        denied = consumer.connection_log.denied or _hidden(consumer, wanted.topic)
        refused = None if denied is None else refusal(denied, f"to read {place}", (to_run(wanted.topic),), self.options)
        return refused or BrokerAway(f"no message received from {place} for {self.patience:.0f} s")

    def _sort_out(self, polled: list[Message], wanted: OffsetRange, position: int) -> tuple[list[Message], int]:
        """Return the messages in the result of `consume`, and the offset up to which the partition is now known."""
        faults = [item for item in polled if item.error() is not None] if any(map(Message.error, polled)) else []
        messages = [item for item in polled if item.error() is None] if faults else polled
        _belong(messages, wanted, position)
        reached = _offset(messages[-1]) + 1 if messages else position
        for item in faults:
            if cast("KafkaError", item.error()).code() == KafkaError._PARTITION_EOF:
                _belong([item], wanted, position)
                reached = max(reached, _offset(item))
            else:
                self._raise(cast("KafkaError", item.error()), wanted, position)
        return messages, reached

    def _raise(self, reason: KafkaError, wanted: OffsetRange, position: int) -> None:
        """Raise the meaning of an error in place of a message. librdkafka recovers by itself from an unavailable
        system, and `patience` bounds the wait; the group's coordinator, which it searches anyway, is not needed here.
        """
        if reason.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return
        if _CUT in reason.str():
            raise LogTruncated(
                f"{wanted.topic}[{wanted.partition}] was truncated below {position} and then written again: "
                f"{reason.str()}."
            )
        if reason.code() in _GONE:
            raise OffsetsUnavailable(
                f"{wanted.topic}[{wanted.partition}] cannot be read at offset {position}: {reason.str()}. The next run "
                "asks the broker why."
            )
        place = f"{wanted.topic}[{wanted.partition}] at {position}"
        if (refused := refusal(reason, f"to read {place}", (to_run(wanted.topic),), self.options)) is not None:
            raise refused
        if error_policy.of_kafka(reason.name()) is not ErrorPolicy.AWAY:
            raise MessageUnreadable(
                f"{wanted.topic}[{wanted.partition}] has data at or after offset {position} that cannot be read: "
                f"{reason.str()}. Nothing was skipped; the batch will be read again."
            )
        if reason.fatal():
            raise BrokerAway(f"{place}: {reason.str()}")

    def _compare(self, consumer: Consumer, cluster_id: str | None) -> None:
        """Raise OtherCluster unless the brokers belong to `cluster_id`.

        Sends no request: librdkafka keeps the last metadata, and gets new metadata on each new connection.
        """
        if not cluster_id:
            return
        try:
            found = consumer.cluster_id(timeout=0)
        except KafkaException:  # before the first answer, and so the first message
            return
        if found and found != cluster_id:
            raise OtherCluster(
                f"on {platform.node()}, the broker address {self.options['bootstrap.servers']} leads to cluster "
                f"{found}, but the batch was planned on cluster {cluster_id}. Nothing was kept from that read. Make "
                "the name resolve to the same brokers on every machine that runs tasks"
            )

    @property
    def _key(self) -> tuple[tuple[str, str], ...]:
        return (("pid", str(os.getpid())), *sorted((k, str(v)) for k, v in {**self.options, **self.own}.items()))

    def _consumer(self) -> Reader:
        if self._key not in _consumers:
            with refusing("a consumer", self.options):
                _consumers[self._key] = Reader({**self.options, **self.own})
        return _consumers[self._key]


READING: Mapping[str, Any] = {
    "group.id": "tidegate-reader",  # librdkafka requires it; never joined: partitions are assigned
    "enable.auto.commit": False,  # the default moves the group's offsets even under assign
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # never jump: the planner decides what a missing offset means
    "isolation.level": "read_committed",
    "enable.partition.eof": True,  # the proof at the end of a range, where control records never arrive
    "queued.min.messages": 20_000,  # what is fetched beyond a range is fetched again: enough for two blocks, no more
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 5,  # the default lets a full queue run dry for a second: a third of the speed
    "fetch.wait.max.ms": 5,  # the next range waits for this one's last fetch, which has nothing to wait for
    "reconnect.backoff.max.ms": 1_000,  # a broker that is back is found soon, not after up to ten seconds
    "check.crcs": True,
}


def _start(wanted: OffsetRange, position: int, epoch: int | None) -> TopicPartition:
    """Return the place to read from; `epoch` is that of a leader whose log reached there, if it is known."""
    known: dict[str, Any] = {} if epoch is None else {"leader_epoch": epoch}
    return TopicPartition(wanted.topic, wanted.partition, position, **known)


def _place(wanted: OffsetRange, position: int) -> str:
    return f"{wanted.topic}[{wanted.partition}] at offset {position}"


def _hidden(consumer: Consumer, topic: str) -> KafkaError | None:
    """Return why the topic cannot be described: a consumer that may not see its topic waits silently."""
    try:
        found = consumer.list_topics(topic, timeout=5).topics.get(topic)
    except KafkaException:
        return None
    return found.error if found is not None else None


@contextmanager
def _collected_rarely() -> Generator[None]:
    """Collect cycles inside only when there are more new objects than two blocks' messages, which are in no cycles. The
    default of 700 would walk through all new messages, again and again, for half of the time that reading takes. No
    user code runs in a worker while it reads.
    """
    before = gc.get_threshold()
    gc.set_threshold(3 * BLOCK, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


_CUT = KafkaError(KafkaError._LOG_TRUNCATION).str()  # librdkafka reports it under the code _AUTO_OFFSET_RESET
_GONE = {
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


def _belong(messages: list[Message], wanted: OffsetRange, position: int) -> None:
    """Raise MessageMisplaced unless the first and the last of `messages` are in the partition of `wanted`, and not
    before `position`. Leftovers of an earlier range in a kept consumer would come first.
    """
    for message in (*messages[:1], *messages[-1:]):
        place = message.topic(), message.partition()
        if place != (wanted.topic, wanted.partition) or _offset(message) < position:
            found = f"{place[0]}[{place[1]}] at offset {_offset(message)}, but {position} is the next expected offset"
            raise MessageMisplaced.between(wanted.topic, wanted, found)


def _offset(message: Message) -> int:
    """Return the offset of a message, or of an end of partition. Only an unsent message has none."""
    return cast("int", message.offset())
