"""A producer's delivery reports match the log."""

import os
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from platform_defs.errors import (
    BadInput,
    NotDelivered,
    ProducerBroken,
    ProducerFenced,
    TopicMissing,
    TransactionAborted,
)
from platform_defs.producer_options.config import choose
from platform_defs.producer_options.partitioners import chooser
from platform_defs.producer_options.presets import PRESETS
from platform_defs.producers.message import Delivered, Message
from platform_defs.producers.producer import Producer
from platform_defs.stack.endpoints import Endpoints
from tests.support.kafka.fake_servers import Misleading
from tests.support.kafka.logs import wait_until_all_have_ended
from tests.support.world import World

PARTITIONS = 4
KEYS = [f"key{number}".encode() for number in range(20)]


@pytest.fixture
def topic(world: World) -> str:
    """Create a topic with PARTITIONS partitions that takes messages of up to 2,000 bytes."""
    name = f"t{uuid4().hex[:10]}"
    world.create_topic(name, PARTITIONS, {"max.message.bytes": "2000"})
    return name


def logged(endpoints: Endpoints, topic: str, isolation: str = "read_committed") -> Iterator[tuple[Message, int, int]]:
    """Yield each message of the topic with its partition and offset. No transaction may stay open for good."""
    wait_until_all_have_ended(endpoints.kafka_options(), topic, PARTITIONS)
    conf = {**endpoints.kafka_options(), "group.id": "none", "isolation.level": isolation, "enable.partition.eof": True}
    conf["fetch.wait.max.ms"] = 10
    consumer = Consumer({**conf, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    left = PARTITIONS
    while left:
        found: Any = consumer.consume(1, 30)[0]
        if found.error() is None:
            yield Message(found.value(), found.key(), tuple(found.headers() or ())), found.partition(), found.offset()
        else:
            assert found.error().code() == KafkaError._PARTITION_EOF
            left -= 1
    consumer.close()


def commit(producer: Producer, *values: bytes) -> None:
    """Write the values in a separate transaction."""
    with producer.transaction():
        for value in values:
            producer.send(Message(value))


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "fire_and_forget"])
def test_every_preset_with_acknowledgements_writes_what_it_is_given(
    endpoints: Endpoints, topic: str, name: str
) -> None:
    with Producer(endpoints.kafka_options(), topic, name) as producer:
        if PRESETS[name].waits == "commit":
            with producer.transaction():
                for key in KEYS:
                    producer.send(Message(key, key))
        else:
            for key in KEYS:
                producer.send(Message(key, key))
    assert (producer.sent, producer.counts.delivered, producer.counts.failed) == (20, 20, {})
    found = [*logged(endpoints, topic)]
    assert Counter(message.key for message, *_ in found) == Counter(KEYS)
    assert Counter(partition for _, partition, _ in found) == producer.counts.partitions
    ids = [UUID((dict(message.headers)["tidegate-id"] or b"").decode()) for message, *_ in found]
    assert {one.version for one in ids} == {7}
    assert len({*ids}) == 20


def test_without_acknowledgements_a_message_counts_as_delivered_and_is_said_to_be_nowhere(
    endpoints: Endpoints, topic: str
) -> None:
    producer = Producer(endpoints.kafka_options(), topic, "fire_and_forget")
    assert producer.send_and_wait(Message(b"1")).offset is None
    assert producer.counts.delivered == 1


def test_a_message_is_where_its_acknowledgement_says(endpoints: Endpoints, topic: str) -> None:
    producer = Producer(endpoints.kafka_options(), topic, "synchronous", ids=False)
    sent = [Message(key, key, (("a", key), ("b", None))) for key in KEYS]
    places = {producer.send_and_wait(message)[:2]: message for message in sent}
    assert {(partition, offset): message for message, partition, offset in logged(endpoints, topic)} == places


def test_keys_that_tidegate_wrote_before_stay_in_their_partitions(endpoints: Endpoints, topic: str) -> None:
    ours, librdkafkas, javas = (
        Producer(endpoints.kafka_options(), topic, choose("synchronous", {"partitioner": partitioner}))
        for partitioner in ("keyed-crc32", "consistent_random", "keyed")
    )
    before = [*map(chooser("keyed-crc32", PARTITIONS), KEYS)]
    assert [ours.send_and_wait(Message(b"", key)).partition for key in KEYS] == before
    assert [librdkafkas.send_and_wait(Message(b"", key)).partition for key in KEYS] == before
    assert [javas.send_and_wait(Message(b"", key)).partition for key in KEYS] != before


def test_round_robin_and_a_partition_of_ones_own(endpoints: Endpoints, topic: str) -> None:
    def partitions(partitioner: str) -> dict[int, int]:
        chosen = choose("asynchronous", {"partitioner": partitioner})
        with Producer(endpoints.kafka_options(), topic, chosen) as producer:
            for _ in range(20):
                producer.send(Message(b"", b"one key"))
        return producer.counts.partitions

    assert partitions("round-robin") == dict.fromkeys(range(4), 5)
    assert partitions("partition=2") == {2: 20}
    with pytest.raises(BadInput, match=r"has no partition 4; the last of its 4 partitions is 3"):
        partitions("partition=4")


def test_a_topic_that_is_missing_is_said(endpoints: Endpoints) -> None:
    with pytest.raises(TopicMissing, match="nowhere"):
        Producer(endpoints.kafka_options(), "nowhere", choose("asynchronous", {"partitioner": "round-robin"}))


def test_each_message_is_reported_and_the_one_that_no_broker_takes_as_poison(endpoints: Endpoints, topic: str) -> None:
    reported: dict[bytes | None, Delivered | NotDelivered] = {}
    chosen = choose("asynchronous", {"compression.type": "none"})
    producer = Producer(
        endpoints.kafka_options(), topic, chosen, on_delivery=lambda sent, found: reported.update({sent.key: found})
    )
    producer.send(Message(b"small", b"1"))
    producer.flush()
    producer.send(Message(b"x" * 5_000, b"2"))
    with pytest.raises(NotDelivered) as refused:
        producer.flush()
    assert (refused.value.outcome, refused.value.reason) == ("poison", "MSG_SIZE_TOO_LARGE")
    assert isinstance(reported[b"1"], Delivered)
    assert reported[b"2"] is refused.value
    assert producer.counts.failed == {"MSG_SIZE_TOO_LARGE": 1}
    producer.flush()  # it was reported once


def test_what_librdkafka_itself_does_not_take_is_poison_too(endpoints: Endpoints, topic: str) -> None:
    producer = Producer(endpoints.kafka_options(), topic)
    with pytest.raises(NotDelivered) as refused:
        producer.send(Message(b"x" * 2_000_000))
    assert refused.value.outcome == "poison"


def test_a_full_queue_is_waited_for_and_then_said(endpoints: Endpoints, topic: str) -> None:
    small = choose("asynchronous", {"queue.buffering.max.messages": 10, "linger.ms": 0})
    with Producer(endpoints.kafka_options(), topic, small) as producer:
        for key in KEYS:
            producer.send(Message(key))
    assert producer.counts.delivered == 20
    away = {"bootstrap.servers": "127.0.0.1:1"}
    producer = Producer(away, topic, choose("asynchronous", {"queue.buffering.max.messages": 1}), patience=0.1)
    producer.send(Message(b"1"))
    with pytest.raises(NotDelivered) as refused:
        producer.send(Message(b"2"))
    assert (refused.value.reason, refused.value.outcome) == ("_QUEUE_FULL", "not_written")


def test_nobody_reads_a_transaction_that_an_error_left(endpoints: Endpoints, topic: str) -> None:
    producer = Producer(endpoints.kafka_options(), topic, "transactional", client_id=topic)

    def fail() -> None:
        with producer.transaction():
            producer.send_and_wait(Message(b"never"))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert producer.counts.delivered == 0
    commit(producer, b"read")
    assert [message.value for message, *_ in logged(endpoints, topic)] == [b"read"]
    assert len([*logged(endpoints, topic, "read_uncommitted")]) == 2
    assert producer.counts.delivered == 1


def test_nobody_reads_a_transaction_with_a_poison_and_the_next_can_be_tried_again(
    endpoints: Endpoints, topic: str
) -> None:
    chosen = choose("transactional", {"compression.type": "none"})
    producer = Producer(endpoints.kafka_options(), topic, chosen, client_id=topic)
    with pytest.raises(TransactionAborted) as aborted:
        commit(producer, b"small", b"x" * 5_000)
    assert aborted.value.outcome == "poison"
    for _ in range(3):  # the broker may miss the number of the message that it refused: that aborts the next as well
        with suppress(TransactionAborted):
            commit(producer, b"read")
            break
    assert [message.value for message, *_ in logged(endpoints, topic)] == [b"read"]


def test_after_a_failure_the_transaction_says_what_failed_first(endpoints: Endpoints, topic: str) -> None:
    producer = Producer(
        endpoints.kafka_options(), topic, choose("transactional", {"compression.type": "none"}), client_id=topic
    )

    def go_on() -> None:
        with producer.transaction():
            with suppress(NotDelivered):
                producer.send_and_wait(Message(b"x" * 5_000))
            producer.send(Message(b"small"))  # librdkafka reports _STATE

    with pytest.raises(TransactionAborted) as aborted:
        go_on()
    assert aborted.value.reason == "MSG_SIZE_TOO_LARGE"


def test_a_newer_producer_with_the_same_id_fences_the_older(endpoints: Endpoints, topic: str) -> None:
    older, newer = (
        Producer(endpoints.kafka_options(), topic, "transactional", client_id=topic, patience=20) for _ in range(2)
    )

    def be_fenced() -> None:
        with older.transaction():
            older.send_and_wait(Message(b"older"))
            commit(newer, b"newer")

    with pytest.raises(ProducerFenced, match=r"another producer of .* took over"):
        be_fenced()
    assert [message.value for message, *_ in logged(endpoints, topic)] == [b"newer"]


def test_a_transaction_that_Kafka_does_not_end_ends_the_producer(endpoints: Endpoints, topic: str) -> None:
    host, _, port = endpoints.bootstrap_servers.rpartition(":")
    ended = list[float]()

    def refuse(answer: bytes) -> bytes:
        """Redirect clients here, and respond to each EndTxn (the only response of ten bytes) with INVALID_REQUEST."""
        if len(answer) == 10:
            ended.append(time.monotonic())
            return answer[:8] + struct.pack(">h", 42)
        here, there = (host.encode() + struct.pack(">i", at) for at in (int(port), broker.port))
        return answer.replace(here, there)

    with Misleading(int(port), refuse) as broker:
        options = {**endpoints.kafka_options(), "bootstrap.servers": f"{host}:{broker.port}"}
        producer = Producer(options, topic, "transactional", client_id=topic, patience=1.0)
        with pytest.raises(ProducerBroken, match=r"INVALID_REQUEST.*Start again"), producer.transaction():
            producer.send(Message(b"1"))
    assert ended[-1] - ended[0] > 1.0, "the abort was not tried again"
    assert len(ended) < 30


def test_a_message_outside_a_transaction_is_refused(endpoints: Endpoints, topic: str) -> None:
    producer = Producer(endpoints.kafka_options(), topic, "transactional", client_id=topic)
    with pytest.raises(NotDelivered) as refused:
        producer.send(Message(b"1"))
    assert (refused.value.reason, refused.value.outcome) == ("_STATE", "not_written")


def test_a_fatal_error_ends_the_producer_and_loses_no_report(endpoints: Endpoints, topic: str) -> None:
    gapless = choose("asynchronous", given={"enable.gapless.guarantee": True, "linger.ms": 0})
    reported = list[Delivered | NotDelivered]()
    producer = Producer(endpoints.kafka_options(), topic, gapless, on_delivery=lambda _, found: reported.append(found))

    def send_all() -> None:
        with producer:
            producer.send(Message(os.urandom(3_000)))  # does not shrink
            for number in range(50):
                producer.send(Message(b"%d" % number))

    with pytest.raises(ProducerBroken, match="cannot continue"):
        send_all()
    assert len(reported) == producer.sent
    assert any(isinstance(found, NotDelivered) for found in reported)
    with pytest.raises(ProducerBroken):
        producer.send(Message(b"more"))
