"""Consumers of a group, each in its own thread, for as long as a block runs."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import Any, Literal

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.waiting import BOUND, wait_for

# A classic member notices a rebalance at its next heartbeat; the broker notifies members under KIP-848.
SOON = {"heartbeat.interval.ms": 200, "session.timeout.ms": 10_000}


@contextmanager
def member(
    options: Mapping[str, Any], group: str, topic: str, name: str, protocol: Literal["classic", "consumer"] = "classic"
) -> Iterator[None]:
    """Run a consumer with the client id `name` that commits nothing and leaves the group at the end of the block."""
    own = {"group.id": group, "client.id": name, "group.protocol": protocol, "enable.auto.commit": False}
    consumer = Consumer({**options, **own, **(SOON if protocol == "classic" else {})})
    consumer.subscribe([topic])
    stop = Event()

    def consume() -> None:
        while not stop.is_set():
            consumer.poll(0.05)
        consumer.close()

    thread = Thread(target=consume, name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def members(
    options: Mapping[str, Any],
    group: str,
    topic: str,
    count: int,
    protocol: Literal["classic", "consumer"] = "classic",
) -> Iterator[None]:
    """Run `count` members, with the client ids c1, c2 and so on."""
    with ExitStack() as stack:
        for number in range(count):
            stack.enter_context(member(options, group, topic, f"c{number + 1}", protocol))
        yield


def commit(admin: AdminClient, group: str, topic: str, *offsets: int) -> None:
    """Commit these offsets, for partition 0 and up, on behalf of a group without members."""
    places = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
    request = [ConsumerGroupTopicPartitions(group, places)]

    def committed() -> bool:
        try:
            done = admin.alter_consumer_group_offsets(request, request_timeout=5)[group].result(BOUND)
        except KafkaException:  # the first group of a cluster waits for its coordinator
            return False
        return all(one.error is None for one in done.topic_partitions)

    wait_for(committed, f"{group} has committed {offsets}")
