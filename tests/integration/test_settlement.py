"""Each halt, brought about for real, shown, settled, and verify's word on what became of the tables."""

import time
from typing import Any

import pytest

from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput, Halt, Retryable
from platform_defs.operations import settlement
from platform_defs.operations.settled_log import ResumeAt
from platform_defs.operations.settlement import Settlement
from platform_defs.verification.verify import verify
from resources.kafka.broker import KafkaBroker
from tests.world import World, transfers


def decide(world: World, pipeline: Pipeline, start: ResumeAt | None = None) -> Settlement:
    broker = KafkaBroker(world.endpoints.kafka_options())
    decided = settlement.propose(pipeline.contract, world.ledger, broker, start)
    assert decided is not None
    return decided


def settle(world: World, pipeline: Pipeline, decided: Settlement) -> int:
    return settlement.settle(world.endpoints.postgres_url, pipeline.contract, decided, "a test", "tester")


def halted(world: World, pipeline: Pipeline) -> str:
    with pytest.raises(Halt) as halt:
        world.drain(pipeline)
    return halt.value.code


def filled(world: World, count: int = 80, disposition: str = "accumulate", **limits: Any) -> Pipeline:
    pipeline = world.new_pipeline(disposition, **limits)
    world.send(pipeline, transfers(count))
    world.drain(pipeline)
    return pipeline


def recreate(world: World, pipeline: Pipeline) -> None:
    admin = world.admin()
    admin.delete_topics([pipeline.contract.topic])[pipeline.contract.topic].result(20)
    for _ in range(100):
        if pipeline.contract.topic not in admin.list_topics(timeout=10).topics:
            break
        time.sleep(0.1)
    world.create_topic(pipeline.contract.topic)


@pytest.mark.parametrize(("start", "rows"), [("beginning", 60), ("end", 0)])
def test_a_topic_created_again_is_a_new_generation(world: World, start: ResumeAt, rows: int) -> None:
    pipeline = filled(world)
    recreate(world, pipeline)
    world.send(pipeline, [*transfers(30), b"bad"], partition=1)
    assert halted(world, pipeline) == "topic_recreated"
    with pytest.raises(BadInput, match="--from beginning"):
        decide(world, pipeline)
    settle(world, pipeline, decide(world, pipeline, start))
    world.drain(pipeline)
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report
    assert (report.rows, report.unverifiable) == (rows, 160)
    world.send(pipeline, transfers(8))
    world.drain(pipeline)
    again = verify(pipeline, world.endpoints, world.spark)
    assert again.ok, again
    assert again.rows == rows + 16


def test_a_log_cut_below_the_position_goes_on_at_its_new_end(world: World) -> None:
    pipeline = filled(world)
    # The broker cannot be made to lose its tail here: the ledger is made to have read ten messages more than there are.
    world.rows(
        "UPDATE tidegate.source_position SET next_offset = 30 WHERE pipeline = %s AND partition = 0", pipeline.name
    )
    world.rows(
        "UPDATE tidegate.batch_range SET until_offset = 30 WHERE topic = %s AND partition = 0", pipeline.contract.topic
    )
    assert halted(world, pipeline) == "log_truncated"
    decided = decide(world, pipeline)
    assert [(step.partition, step.lost) for step in decided.steps] == [(0, (20, 30))]
    settle(world, pipeline, decided)
    world.send(pipeline, transfers(40, 500))
    world.drain(pipeline)
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report
    assert report.messages == 120


def test_a_log_that_was_cut_and_written_on_goes_on_where_it_was(world: World) -> None:
    pipeline = filled(world)
    world.send(pipeline, transfers(8, 500))
    unheard_of = "UPDATE tidegate.source_position SET leader_epoch = 99 WHERE pipeline = %s AND partition = 1"
    world.rows(unheard_of, pipeline.name)  # as if the messages read before were of a leader that this log never had
    assert halted(world, pipeline) == "log_truncated"
    settle(world, pipeline, decide(world, pipeline))
    (batch,) = world.drain(pipeline)
    assert (batch.messages, world.position(pipeline)) == (8, dict.fromkeys(range(4), 22))
    assert verify(pipeline, world.endpoints, world.spark).ok


def test_a_partition_that_is_gone_is_forgotten_and_the_others_go_on(world: World) -> None:
    pipeline = filled(world)
    # Kafka never takes a partition away: the ledger is made to have read five messages of a ninth.
    world.rows(
        "INSERT INTO tidegate.source_position (pipeline, topic, partition, cluster_id, topic_id, start_offset,"
        " next_offset) SELECT pipeline, topic, 9, cluster_id, topic_id, 0, 5 FROM tidegate.source_position"
        " WHERE pipeline = %s AND partition = 0",
        pipeline.name,
    )
    assert halted(world, pipeline) == "partition_missing"
    decided = decide(world, pipeline)
    assert [(step.partition, step.becomes, step.lost) for step in decided.steps] == [(9, None, (0, 5))]
    settle(world, pipeline, decided)
    world.send(pipeline, transfers(8, 500))
    (batch,) = world.drain(pipeline)
    assert batch.messages == 8
    assert sorted(world.position(pipeline)) == [0, 1, 2, 3]
    assert verify(pipeline, world.endpoints, world.spark).ok


def test_what_is_no_longer_as_it_was_shown_is_not_done(world: World) -> None:
    pipeline = world.new_pipeline("accumulate", dead_letter_share=0.1, dead_letter_minimum=5)
    world.send(pipeline, [b"bad"] * 10)
    assert halted(world, pipeline) == "too_many_dead_letters"
    decided = decide(world, pipeline)
    assert decided.fingerprint == decide(world, pipeline).fingerprint
    settle(world, pipeline, decided)
    with pytest.raises(Retryable, match="no longer as it was shown"):
        settle(world, pipeline, decided)
    assert len(world.rows("SELECT * FROM tidegate.settlement WHERE pipeline = %s", pipeline.name)) == 1
