"""Pipelines whose log is not the planned one (created again or truncated by retention: tests/chaos/kafka/topics.py):
each trap, set with the real broker.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import RunContext, plan_batch
from platform_defs.errors import BadInput, BrokerAway, Halt
from tests.chaos.moments import play
from tests.support.kafka.leaders import led_by_an_unheard_of_leader, led_later
from tests.support.kafka.logs import transaction
from tests.support.world import World, transfers


@pytest.mark.slow
def test_a_position_beyond_the_end_halts_as_a_log_that_was_cut(world: World) -> None:
    pipeline = world.caught_up()
    world.rows(
        "update tidegate.source_position set next_offset = 5 where pipeline = %s and partition = 1", pipeline.name
    )
    halt = _halts(world, pipeline, "log_truncated")
    assert halt.detail.to_json() == {"ranges": [{"partition": 1, "from_offset": 2, "until_offset": 5}]}


@pytest.mark.longest
def test_an_answer_without_a_partition_that_was_read_is_not_believed(world: World) -> None:
    pipeline = world.caught_up()
    world.rows(
        "insert into tidegate.source_position (pipeline, topic, partition, cluster_id, topic_id, start_offset,"
        " next_offset) select pipeline, topic, 9, cluster_id, topic_id, 0, 0 from tidegate.source_position"
        " where pipeline = %s and partition = 0",
        pipeline.name,
    )
    with pytest.raises(BrokerAway, match="no partition 9"):
        world.drain(pipeline)
    assert world.ledger.status(pipeline.name).state == "active"
    assert sorted(world.position(pipeline)) == [0, 1, 2, 3, 9]


def test_a_topic_that_does_not_exist_is_named(world: World) -> None:
    pipeline = world.new_pipeline()
    missing = replace(pipeline, contract=replace(pipeline.contract, topic="nowhere"))
    with pytest.raises(BadInput, match="topic nowhere does not exist"):
        world.drain(missing)


@pytest.mark.slow
def test_the_leaders_epoch_is_kept_behind_a_control_record_too(world: World) -> None:
    pipeline = world.new_pipeline(partitions=1)
    with transaction(world, pipeline, transfers(3)) as producer:
        producer.commit_transaction()
    world.drain(pipeline)
    (position,) = world.ledger.positions(pipeline.name)
    assert (position.next_offset, position.leader_epoch) == (4, 0)


@pytest.mark.longest
def test_the_leaders_epoch_is_kept_and_goes_with_the_next_range(world: World) -> None:
    pipeline = world.caught_up()
    positions = world.ledger.positions(pipeline.name)
    assert {position.leader_epoch for position in positions} == {0}
    world.send(pipeline, transfers(4, start=8))
    with world.open_run(pipeline) as context:
        pending = plan_batch(pipeline.contract, context)
    assert pending is not None
    assert {(item.leader_epoch, item.new_leader) for item in pending.ranges} == {(0, False)}
    assert [batch.messages for batch in world.drain(pipeline)] == [4]


@pytest.mark.longest
def test_a_log_that_was_cut_and_written_on_is_known_by_its_epochs_and_halts(world: World) -> None:
    pipeline = world.caught_up()
    world.send(pipeline, transfers(8, start=8))
    led_by_an_unheard_of_leader(world, pipeline, partition=1)
    halt = _halts(world, pipeline, "log_truncated", led_later)
    assert "[1] was truncated below 2 and then written again" in halt.detail.to_json()["error"]
    assert halt.detail.to_json()["partitions"] == [1]
    assert len(world.table(pipeline)) == 16


@pytest.mark.slow
def test_a_halt_is_remembered_and_blocks_every_run_until_it_is_settled(world: World) -> None:
    pipeline = world.caught_up()
    world.send(pipeline, transfers(8, start=8))
    world.rows("update tidegate.source_position set cluster_id = 'another' where pipeline = %s", pipeline.name)
    _halts(world, pipeline, "cluster_switched")
    world.rows(
        "update tidegate.source_position p set cluster_id = o.cluster_id from tidegate.source_position o"
        " where p.pipeline = %s and o.cluster_id <> 'another'",
        pipeline.name,
    )
    with pytest.raises(Halt, match="it has not been resolved"):  # repaired or not: a person decides
        world.drain(pipeline)
    assert len(world.table(pipeline)) == 16


def _halts(
    world: World, pipeline: Pipeline, code: str, change: Callable[[RunContext], RunContext] = lambda context: context
) -> Halt:
    """Assert that a run halts with `code`, is recorded as halted, and blocks the next run; return the halt."""
    with pytest.raises(Halt) as halt:
        play(world, pipeline, change)
    status: Any = world.ledger.status(pipeline.name)
    assert (halt.value.code, status.state, status.halt_code) == (code, "halted", code)
    assert status.halt_detail == halt.value.detail.to_json()
    with pytest.raises(Halt, match="it has not been resolved"):
        world.drain(pipeline)
    return halt.value
