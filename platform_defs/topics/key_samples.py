"""Some of the newest keys of topics, to detect how they were partitioned."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from platform_defs.kafka.source import READING
from platform_defs.topics.observed import ObservedTopic
from platform_defs.topics.written_keys import Sample

SECONDS = 5.0  # for all topics together: what is not read by then is not evaluated
PARTITIONS = 4  # of a topic
MESSAGES = 25  # of a partition, at most
SMALL = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1_024, "fetch.message.max.bytes": 65_536}


def sample_keys(options: Mapping[str, str], topics: Mapping[str, ObservedTopic]) -> dict[str, Sample]:
    """Return a sample of each topic; an empty one if nothing could be read."""
    if not topics:
        return {}
    consumer = Consumer({**options, **READING, **SMALL})
    try:
        found = _read(consumer, _beginnings(consumer, topics))
    except KafkaException:
        found = []  # no right to read, or no answer: the keys' partitioner stays unknown
    finally:
        consumer.close()
    return {name: _sample(name, len(there.partitions), found) for name, there in topics.items()}


def _beginnings(consumer: Consumer, topics: Mapping[str, ObservedTopic]) -> list[tuple[TopicPartition, int]]:
    """Return the start in each partition that has messages, and the end of its messages."""
    until, places = time.monotonic() + SECONDS / 2, list[tuple[TopicPartition, int]]()
    for name, there in topics.items():
        for number in range(min(PARTITIONS, len(there.partitions))):
            if time.monotonic() > until:
                return places
            with suppress(KafkaException):  # it has no leader, or may not be read: the others are still sampled
                low, high = consumer.get_watermark_offsets(TopicPartition(name, number), timeout=1.0)
                if high > low:
                    places.append((TopicPartition(name, number, max(low, high - MESSAGES)), high))
    return places


def _read(consumer: Consumer, places: Sequence[tuple[TopicPartition, int]]) -> list[Message]:
    """Return the messages from each place to its end, as far as they come in time."""
    until, found = time.monotonic() + SECONDS / 2, list[Message]()
    open_ends = {(at.topic, at.partition): end for at, end in places}
    consumer.assign([at for at, _ in places])
    while open_ends and time.monotonic() < until:
        for message in consumer.consume(500, timeout=0.2):
            place = (str(message.topic()), int(message.partition() or 0))
            if (error := message.error()) is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue  # about a coordinator, which is not needed here
            if error is not None or int(message.offset() or 0) + 1 >= open_ends.get(place, 0):
                open_ends.pop(place, None)
            if error is None:
                found.append(message)
    return found


def _sample(topic: str, partitions: int, found: Sequence[Message]) -> Sample:
    mine = [message for message in found if message.topic() == topic]
    keyless = Counter(message.key() is None for message in mine)[True]
    keys = {key: int(message.partition() or 0) for message in mine if isinstance(key := message.key(), bytes)}
    return Sample(partitions, keys, keyless)
