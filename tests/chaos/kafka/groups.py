"""The pipeline's consumer group, which only shows progress, and queries about groups while brokers die."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from platform_defs.errors import TidegateError
from platform_defs.groups.child import KafkaGroups
from platform_defs.groups.groups import read_groups
from platform_defs.groups.own_groups import show_progress
from tests.chaos.kafka.three_brokers import NODES, THREE_BROKERS, three_brokers
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.waiting import BOUND, repeated
from tests.support.world import World, transfers

MESSAGES = 40
GROUPS = 120  # so that brokers die in the middle of a response


@scenario(FaultClass.CONSUMER_GROUP, representative=True)
def our_consumer_group_moved_and_deleted_behind_our_back(chaos: Chaos) -> Verdict:
    """The group shows the ledger's position and is never read: moved or deleted, it changes nothing."""
    world, pipeline = chaos.world, chaos.world.new_pipeline()
    group, admin = f"tidegate-{pipeline.name}", world.admin()
    for step in ("kept", "moved", "deleted"):
        world.send(pipeline, transfers(MESSAGES))
        if step == "moved":
            places = [TopicPartition(pipeline.contract.topic, number, 1) for number in range(4)]
            moved = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
            moved[group].result(BOUND)
        elif step == "deleted":
            admin.delete_consumer_groups([group])[group].result(BOUND)
        (batch,) = world.drain(pipeline)
        assert batch.messages == MESSAGES
        show_progress(world.endpoints.kafka_options(), group, pipeline.contract.topic, world.position(pipeline))
        assert _offsets(world, group) == world.position(pipeline), "the group does not show what the ledger says"
    return chaos.judge(pipeline, 2, "shown again, never read")


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def brokers_killed_while_they_are_asked_about_consumer_groups(chaos: Chaos) -> Verdict:
    """librdkafka may end the querying process (issue 4605): the caller gets a response or an error. A run commits its
    progress all the same.
    """
    cluster = three_brokers()
    chaos = replace(chaos, world=cluster.world(chaos.world))
    world = chaos.world
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(MESSAGES))
    group, options = f"tidegate-{pipeline.name}", world.endpoints.kafka_options()
    world.drain(pipeline)
    show_progress(options, group, pipeline.contract.topic, world.position(pipeline))
    names = {f"{group}-{number}" for number in range(GROUPS)}
    _commit(world, pipeline.contract.topic, names)
    client = KafkaGroups(options, timeout=5)
    with repeated(lambda: _answered(client)) as answered:
        for number in NODES:
            cluster.kill([number])
            cluster.wait_until_led_by_others(pipeline.contract.topic, number)
            cluster.start([number])
            cluster.wait_until_all_is_whole()
        answered.clear()
        assert answered.wait(BOUND), "no answer with all brokers up"
    _, found = read_groups(client)
    assert {one.group.name for one in found if one.committed} >= {group, *names}
    assert not any(one.problem for one in found)
    show_progress(options, group, pipeline.contract.topic, world.position(pipeline))
    return chaos.judge(pipeline, len(NODES), "each question was answered, or refused with an error")


def _answered(client: KafkaGroups) -> bool:
    """Query all groups. Return True if all necessary brokers have responded."""
    with suppress(TidegateError):
        read_groups(client)
        return True
    return False


def _commit(world: World, topic: str, groups: Collection[str]) -> None:
    admin = world.admin()
    asked = [
        admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])])[group]
        for group in groups
    ]
    for future in asked:
        future.result(BOUND)


def _offsets(world: World, group: str) -> dict[int, int]:
    admin = world.admin()  # named: a future is cancelled when its client is collected
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {item.partition: item.offset for item in asked[group].result(BOUND).topic_partitions}
