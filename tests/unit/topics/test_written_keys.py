"""The partitioning of a topic's keys, inferred from some of its messages."""

import zlib
from collections.abc import Callable

import pytest

from platform_defs.ledger.answers import Reader
from platform_defs.topics.declared import Declared
from platform_defs.topics.violations import Place
from platform_defs.topics.written_keys import (
    Sample,
    keys_needed,
    murmur2,
    partitioner_kept,
    to_sample,
    written_by,
)
from tests.unit.topics.topic_model import cluster, topic

KEYS = [f"key-{number}".encode() for number in range(40)]
# From Kafka's own UtilsTest.testMurmur2, as positive numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def declared(partitioner: str) -> dict[str, Declared]:
    return {"t": Declared("t", readers=(Reader("p", "append", 30, partitioner),), places={"": Place("t.odcs.yaml", 3)})}


def sample(place: Callable[[bytes], int], count: int = 40) -> Sample:
    return Sample(6, {key: place(key) % 6 for key in KEYS[:count]})


@pytest.mark.parametrize(("key", "hashed"), KNOWN.items())
def test_murmur2_is_that_of_java(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0x7FFFFFFF


def test_the_hash_is_told_from_where_keys_are() -> None:
    assert written_by(sample(zlib.crc32)) == "crc32"
    assert written_by(sample(murmur2)) == "murmur2"
    assert written_by(sample(len)) is None
    assert written_by(sample(murmur2, 5)) is None
    assert written_by(Sample(1, dict.fromkeys(KEYS, 0))) is None


def test_producers_that_would_put_keys_elsewhere_are_warned_of() -> None:
    (violation,) = partitioner_kept(declared("keyed"), {"t": sample(zlib.crc32)})
    assert (violation.severity, violation.place) == ("warn", Place("t.odcs.yaml", 3))
    assert "keys of t were partitioned by crc32, but producers under the contract of p use keyed" in violation.message
    assert "{partitioner: keyed-crc32}" in violation.message


@pytest.mark.parametrize("partitioner", ["keyed-crc32", "consistent_random", "round-robin"])
def test_producers_that_put_keys_where_they_are_and_others_that_keep_none_are_not(partitioner: str) -> None:
    assert list(partitioner_kept(declared(partitioner), {"t": sample(zlib.crc32)})) == []


def test_a_topic_whose_messages_have_no_key_is_not_compacted() -> None:
    topics = {"t": Declared("t", config={"cleanup.policy": "compact"})}
    plain, compacted = cluster(("t", topic((1,)))), cluster(("t", topic((1,), cleanup_policy="compact")))
    (violation,) = keys_needed(topics, plain, {"t": Sample(2, {}, keyless=3)})
    assert (violation.severity, violation.rule) == ("refuse", "keys_needed")
    assert list(keys_needed(topics, plain, {"t": Sample(2, {b"a": 1})})) == []
    assert list(keys_needed(topics, compacted, {"t": Sample(2, {}, keyless=3)})) == []
    assert to_sample(topics, plain).keys() == {"t"}
    assert to_sample(topics, compacted) == {}
