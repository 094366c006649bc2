"""The consumer group of a pipeline, which is only for show."""

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from resources.kafka.groups.progress import show_progress
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.world import World, transfers

MESSAGES = 40


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
