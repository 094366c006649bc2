"""The partitioner that wrote a topic's keys: found from messages, since Kafka does not record it."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

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
                    f"{reader.pipeline} "
                )
                message += f"use {reader.partitioner}: they would put later messages of a key into another partition "
                message += f"than earlier ones. Write producerOptions {{partitioner: {right}}}"
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
