"""Changes that tests make to a topic's log: open and completed transactions, deleted records, a recreated topic, added
partitions.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import uuid4

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)

from platform_defs.contract.model.pipeline import Pipeline
from tests.support.waiting import wait_for
from tests.support.world import World

OPEN_FOR = 600_000  # ms until the coordinator aborts an abandoned transaction: longer than any test


def begin(
    options: Mapping[str, str], topic: str, values: Sequence[bytes], *, name: str | None = None, timeout: int = OPEN_FOR
) -> Producer:
    """Open a transaction with the transactional id `name` and send `values` to partition 0."""
    producer = Producer({**options, "transactional.id": name or uuid4().hex, "transaction.timeout.ms": timeout})
    producer.init_transactions(20)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(10) == 0
    return producer


@contextmanager
def transaction(world: World, pipeline: Pipeline, values: Sequence[bytes]) -> Iterator[Producer]:
    """Open a transaction that has sent `values` to partition 0; on exit, wait until its marker is written."""
    yield begin(world.endpoints.kafka_options(), pipeline.contract.topic, values)
    wait_until_none_is_open(world, pipeline)


def wait_until_none_is_open(world: World, pipeline: Pipeline) -> None:
    """Wait until no transaction is open in partition 0."""
    wait_until_all_have_ended(world.endpoints.kafka_options(), pipeline.contract.topic, 1)


def wait_until_all_have_ended(options: Mapping[str, str], topic: str, partitions: int) -> None:
    """Wait until no transaction is open in these partitions: markers are written some time after the response."""
    admin = AdminClient({**options})

    def ended() -> bool:
        found = [_ends(admin, TopicPartition(topic, number)) for number in range(partitions)]
        return all(stable == end for stable, end in found)

    wait_for(ended)


def ends(world: World, pipeline: Pipeline) -> tuple[int, int]:
    """Return the last stable offset and the high watermark of partition 0."""
    return _ends(world.admin(), TopicPartition(pipeline.contract.topic, 0))


def _ends(admin: AdminClient, place: TopicPartition) -> tuple[int, int]:
    levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    spec = OffsetSpec.latest()
    latest: dict[TopicPartition, OffsetSpec] = {place: spec}  # pyright: ignore[reportAssignmentType]  # cached
    asked = [admin.list_offsets(latest, isolation_level=level) for level in levels]
    stable, end = [answer[place].result(10).offset for answer in asked]
    return stable, end


def gaps(world: World, pipeline: Pipeline) -> list[list[list[int]]]:
    """Return the gaps of each committed range of partition 0, in order."""
    found = world.rows(
        "select array(select array[lower(g), upper(g)] from unnest(gaps) g) as gaps from tidegate.batch_range"
        " join tidegate.batch using (batch_id) where pipeline = %s and partition = 0 order by from_offset",
        pipeline.name,
    )
    return [row["gaps"] for row in found]


def create_again(world: World, pipeline: Pipeline, values: Sequence[bytes]) -> None:
    """Delete the topic, create it again under its name, and send `values` to its partition 0."""
    admin, topic = world.admin(), pipeline.contract.topic
    admin.delete_topics([topic])[topic].result(10)
    world.create_topic(topic)
    if values:
        world.send(pipeline, values, partition=0)


def delete_records(world: World, pipeline: Pipeline, before: Mapping[int, int]) -> None:
    """Delete the records before the given offset, by partition."""
    admin = world.admin()
    cuts = [TopicPartition(pipeline.contract.topic, partition, offset) for partition, offset in before.items()]
    for future in admin.delete_records(cuts).values():
        future.result(10)


def add_partitions(world: World, pipeline: Pipeline, total: int) -> None:
    admin, topic = world.admin(), pipeline.contract.topic
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(10)
    # Kafka responds before its brokers know the new partitions.
    wait_for(lambda: len(admin.list_topics(topic, 10).topics[topic].partitions) == total, "the new partitions")


def configure(world: World, pipeline: Pipeline, name: str, value: str) -> None:
    """Change a setting of the topic."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, pipeline.contract.topic, incremental_configs=[entry])
    admin = world.admin()  # named: a future is cancelled when its client is collected
    admin.incremental_alter_configs([topic])[topic].result(10)
