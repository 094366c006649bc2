"""Consumer groups: what a crash does to one that is used by hand, and what becomes of ours, which is only for show."""

import os
import signal
from typing import Literal

import psycopg
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from resources.endpoints import Endpoints
from resources.kafka.broker import show_progress
from tests.chaos.runs import FORKS
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.waiting import BOUND, wait_for
from tests.world import World, transfers

MESSAGES = 40
Order = Literal["rows first", "offsets first"]


@scenario(FaultClass.COMPARED, representative=True)
def consumer_group_that_commits_after_its_rows(chaos: Chaos) -> Verdict:
    """Not ours, for comparison: two systems, so a crash between the two commits repeats what was written."""
    lost, twice = _by_hand(chaos.world, "rows first")
    assert (lost, twice) == (0, MESSAGES)
    return Verdict(1, lost, twice, "repeated, as groups do", allows=("duplicated",))


@scenario(FaultClass.COMPARED)
def consumer_group_that_commits_before_its_rows(chaos: Chaos) -> Verdict:
    """Not ours, for comparison: the crash between the two commits loses what was not written yet."""
    lost, twice = _by_hand(chaos.world, "offsets first")
    assert (lost, twice) == (MESSAGES, 0)
    return Verdict(1, lost, twice, "lost, as groups do", allows=("lost",))


@scenario(FaultClass.CONSUMER_GROUP, representative=True)
def our_consumer_group_moved_and_deleted_behind_our_back(chaos: Chaos) -> Verdict:
    """It shows where the ledger stands and is never read: moved or deleted, it changes nothing."""
    world, pipeline = chaos.world, chaos.world.new_pipeline()
    group, admin = f"tidegate-{pipeline.name}", world.admin()
    for step in ("kept", "moved", "deleted"):
        world.send(pipeline, transfers(MESSAGES))
        if step == "moved":
            places = [TopicPartition(pipeline.contract.topic, number, 1) for number in range(4)]
            moved = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
            moved[group].result(20)
        elif step == "deleted":
            admin.delete_consumer_groups([group])[group].result(20)
        (batch,) = world.drain(pipeline)
        assert batch.messages == MESSAGES
        show_progress(world.endpoints.kafka_options(), group, pipeline.contract.topic, world.position(pipeline))
        assert _offsets(world, group) == world.position(pipeline), "the group does not show what the ledger says"
    return chaos.judge(pipeline, 2, "shown again, never read")


def _offsets(world: World, group: str) -> dict[int, int]:
    admin = world.admin()  # kept: a future is cancelled when its client is collected
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {item.partition: item.offset for item in asked[group].result(20).topic_partitions}


def _by_hand(world: World, order: Order) -> tuple[int, int]:
    """Messages lost, and messages written twice, when a group's consumer is killed between its two commits."""
    pipeline = world.new_pipeline()
    places = world.send(pipeline, transfers(MESSAGES))
    world.rows(f"create schema {pipeline.name}")
    world.rows(f"create table {pipeline.name}.seen (partition int, at bigint)")
    for dies in (True, False):
        process = FORKS.Process(target=_consume, args=(world.endpoints, pipeline.name, order, dies))
        process.start()
        process.join(BOUND)
        assert process.exitcode == (-signal.SIGKILL if dies else 0)
    seen = [(row["partition"], row["at"]) for row in world.rows(f"select * from {pipeline.name}.seen")]
    return len(set(places) - set(seen)), len(seen) - len(set(seen))


def _consume(endpoints: Endpoints, topic: str, order: Order, dies: bool) -> None:
    """Read what the group has not committed, up to the end, and commit rows and offsets in this order. In a process."""
    consumer = Consumer(
        {
            **endpoints.kafka_options(),
            "group.id": topic,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign(_committed(consumer, topic))
    found = _all(consumer)
    steps = [lambda: _write(endpoints, topic, found), lambda: found and consumer.commit(asynchronous=False)]
    for step in steps if order == "rows first" else reversed(steps):
        step()
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)


def _committed(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Where the group continues in each of the four partitions. A broker that has just started answers NOT_COORDINATOR
    for a moment, and librdkafka never reads partitions that were assigned without an offset in that moment.
    """
    partitions = [TopicPartition(topic, number) for number in range(4)]

    def answer() -> list[TopicPartition]:
        try:
            return consumer.committed(partitions, BOUND)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
            return []

    found = wait_for(answer, "the coordinator of the group answers")
    return [TopicPartition(topic, at.partition, at.offset if at.offset >= 0 else OFFSET_BEGINNING) for at in found]


def _all(consumer: Consumer) -> list[tuple[int, int]]:
    """(partition, offset) of everything that the group has not committed, up to the end of its four partitions."""
    found, ended = list[tuple[int, int]](), set[int]()
    while len(ended) < 4:
        for message in consumer.consume(100, 0.2):
            if (error := message.error()) is None:
                found.append((message.partition(), message.offset()))  # pyright: ignore[reportArgumentType]
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())  # pyright: ignore[reportArgumentType]
            else:
                raise AssertionError(error)
    return found


def _write(endpoints: Endpoints, schema: str, found: list[tuple[int, int]]) -> None:
    with psycopg.connect(endpoints.postgres_url) as session, session.cursor() as cursor:
        cursor.executemany(f"insert into {schema}.seen values (%s, %s)".encode(), found)
