"""Kafka as a Spark task reads it: every message of a range, to its proven end."""

import gc
import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import (
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from platform_defs.errors import BrokerAway, LogTruncated, OffsetsUnavailable
from platform_defs.formats.block import Block, message_blocks
from platform_defs.formats.block import Message as BlockMessage
from platform_defs.offsets import OffsetRange

BLOCK = 10_000  # messages decoded at once: 2 MB of the usual JSON, which a core has in its cache, and 20 ms of work
POLL = 0.2  # seconds; consume() waits it out whenever fewer messages came than were asked for


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
                beyond = _offset(messages[-1]) >= wanted.until_offset
                inside = _before(messages, wanted.until_offset) if beyond else messages
                yield from message_blocks(cast("list[BlockMessage]", inside))
            if reached > position:
                position, heard = reached, time.monotonic()
            elif time.monotonic() - heard > self.patience:
                raise BrokerAway(
                    f"no message received from {wanted.topic}[{wanted.partition}] at offset {position} (of a range "
                    f"up to {wanted.until_offset}) for {self.patience:.0f} s"
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
    "fetch.wait.max.ms": 5,  # the next range waits for the last fetch of this one, which has nothing to wait for
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
        return polled, _offset(polled[-1]) + 1 if polled else position
    faults = [item for item in polled if item.error() is not None]
    messages = [item for item in polled if item.error() is None]
    reached = _offset(messages[-1]) + 1 if messages else position
    for item in faults:
        reason = cast("KafkaError", item.error())
        if reason.code() == KafkaError._PARTITION_EOF:
            reached = max(reached, _offset(item))
        elif _CUT in reason.str():
            raise LogTruncated(
                f"{wanted.topic}[{wanted.partition}] was truncated below {wanted.from_offset} and then written again: "
                f"{reason.str()}."
            )
        elif reason.code() in _GONE:
            raise OffsetsUnavailable.at(wanted.topic, wanted.partition, position, reason.str())
        elif reason.fatal() or reason.code() in _UNREADABLE:
            raise BrokerAway(f"{wanted.topic}[{wanted.partition}] at {position}: {reason.str()}")
        # librdkafka recovers from anything else by itself; `patience` bounds the wait
    return messages, reached


_CUT = KafkaError(KafkaError._LOG_TRUNCATION).str()  # librdkafka reports it under the code _AUTO_OFFSET_RESET
# librdkafka continues after what it cannot read: the message would look like a gap.
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
    return [item for item in messages if _offset(item) < until]


def _offset(message: Message) -> int:
    """A message's offset, or that of an end of partition. Only what is produced has none yet."""
    return cast("int", message.offset())
