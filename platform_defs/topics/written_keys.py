"""The partitioner that wrote a topic's keys: found from its newest messages, since Kafka does not record it."""

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from platform_defs.kafka.source import READING
from platform_defs.topics.declared import Declared
from platform_defs.topics.observed import Observed, ObservedTopic
from platform_defs.topics.rules import POLICY, said
from platform_defs.topics.violations import Violation

Hash = Literal["crc32", "murmur2"]
FAMILIES: Mapping[str, Hash] = {
    **dict.fromkeys(("keyed-crc32", "consistent", "consistent_random"), "crc32"),
    **dict.fromkeys(("keyed", "murmur2", "murmur2_random"), "murmur2"),
}
ENOUGH = 8  # keys: with four partitions, chance places this many like a hash once in 65,000 topics
SECONDS = 5.0  # for all topics together: what is not read by then is not evaluated
PARTITIONS = 4  # of a topic
MESSAGES = 25  # of a partition, at most
SMALL = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1_024, "fetch.message.max.bytes": 65_536}


@dataclass(frozen=True)
class Sample:
    """Some of a topic's newest messages: the partition of each key, and how many had no key."""

    partitions: int
    keys: Mapping[bytes, int]
    keyless: int = 0


def written_by(sample: Sample) -> Hash | None:
    """Return the hash that puts every key on its partition; None if none or both do, or too few keys were sampled."""
    if sample.partitions < 2 or len(sample.keys) < ENOUGH:
        return None
    fits: list[Hash] = [
        name
        for name, place in _PLACES.items()
        if all(place(k) % sample.partitions == p for k, p in sample.keys.items())
    ]
    return fits[0] if len(fits) == 1 else None


def partitioner_kept(topics: Mapping[str, Declared], samples: Mapping[str, Sample]) -> Iterator[Violation]:
    """Warn if the contract's producers would put keys on other partitions than before."""
    for topic, sample in samples.items():
        written = written_by(sample)
        for reader in topics[topic].readers:
            if written is not None and FAMILIES.get(reader.partitioner, written) != written:
                right = "keyed" if written == "murmur2" else "keyed-crc32"
                message = (
                    f"keys of {topic} were partitioned by {written}, but producers under the contract of "
                    f"{reader.pipeline} use {reader.partitioner}: they would put later messages of a key into another "
                    f"partition than earlier ones. Write producerOptions {{partitioner: {right}}}"
                )
                yield said(topics[topic], "warn", "partitioner_kept", message)


def keys_needed(
    topics: Mapping[str, Declared], observed: Observed, samples: Mapping[str, Sample]
) -> Iterator[Violation]:
    """Refuse compaction of a topic with keyless messages: Kafka refuses each of them in a compacted topic."""
    for topic, sample in samples.items():
        if sample.keyless and becomes_compacted(topics[topic], observed):
            message = (
                f"messages of {topic} have no key, and a compacted topic rejects messages without a key. Leave "
                f"{POLICY} delete"
            )
            yield said(topics[topic], "refuse", "keys_needed", message, f"config.{POLICY}")


def to_sample(topics: Mapping[str, Declared], observed: Observed) -> dict[str, ObservedTopic]:
    """Return the topics whose keys a rule needs."""
    found = {name: there for name, there in observed.topics.items() if name in topics}
    return {
        name: there
        for name, there in found.items()
        if (topics[name].readers and len(there.partitions) > 1) or becomes_compacted(topics[name], observed)
    }


def becomes_compacted(declared: Declared, observed: Observed) -> bool:
    there = observed.topics.get(declared.topic)
    before = there.effective.get(POLICY, "") if there else ""
    return "compact" in (declared.config.get(POLICY) or "") and "compact" not in before


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
    samples = dict[str, Sample]()
    for name, there in topics.items():
        mine = [message for message in found if message.topic() == name]
        keys = {key: int(message.partition() or 0) for message in mine if isinstance(key := message.key(), bytes)}
        samples[name] = Sample(len(there.partitions), keys, sum(message.key() is None for message in mine))
    return samples


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


def murmur2(key: bytes) -> int:
    """Return Java's org.apache.kafka.common.utils.Utils.murmur2, made positive as its partitioner does."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(key)) & mask
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if rest := key[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


_PLACES: Mapping[Hash, Callable[[bytes], int]] = {"crc32": zlib.crc32, "murmur2": murmur2}
