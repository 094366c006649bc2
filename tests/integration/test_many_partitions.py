"""A topic of many partitions with little in each."""

import pytest
from confluent_kafka import Producer

from tests.world import World, transfers

PARTITIONS = 150


@pytest.mark.slow
def test_sessions_of_tasks_are_as_many_as_cores_and_not_as_partitions(world: World) -> None:
    pipeline = world.new_pipeline(partitions=PARTITIONS)
    world.drain(pipeline)
    producer = Producer({**world.endpoints.kafka_options(), "linger.ms": 50})
    for number, value in enumerate(transfers(2 * PARTITIONS)):
        producer.produce(pipeline.contract.topic, value, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    before = _sessions(world)
    (batch,) = world.drain(pipeline)
    assert (len(batch.ranges), batch.messages, batch.rows) == (PARTITIONS, 2 * PARTITIONS, 4 * PARTITIONS)
    assert (
        _sessions(world) - before < 30
    )  # two in each of three tasks, and those of the run; the server counts ours too


def _sessions(world: World) -> int:
    """How many sessions the database has had."""
    (row,) = world.rows("select sessions from pg_stat_database where datname = current_database()")
    return row["sessions"]
