"""What becomes of a pipeline whose log is not the one it was planned on: each trap, set with the real broker."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from platform_defs.engine.batch import plan, run_batch
from platform_defs.engine.errors import BadInput, BrokerAway, Halt, StagingLost
from platform_defs.engine.offsets import OffsetRange
from platform_defs.engine.ports import Block, Pipeline
from tests.world import World, transfer, transfers

# ── Another topic under the same name ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("messages", "end"), [(2, "lower"), (5, "equal"), (9, "higher")])
def test_a_topic_created_again_halts_wherever_it_ends(world: World, messages: int, end: str) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(5), partition=0)
    world.drain(pipeline)
    before = world.table(pipeline)
    _create_again(world, pipeline, transfers(messages, start=100))
    _halts(world, pipeline, "topic_recreated")
    assert world.table(pipeline) == before
    assert world.position(pipeline)[0] == 5


def test_a_topic_created_again_between_plan_and_read_publishes_nothing_of_it(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(5), partition=0)
    with world.hold(pipeline) as outside:
        late = replace(outside, spark=_after(lambda: _create_again(world, pipeline, transfers(9)), world.spark))
        with pytest.raises(Halt) as halt:
            run_batch(pipeline, late)
    assert halt.value.code == "topic_recreated"
    _halts(world, pipeline, "topic_recreated")
    assert world.table(pipeline) == []


def test_a_topic_created_again_and_shorter_between_plan_and_read_halts_the_next_run(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(5), partition=0)
    with world.hold(pipeline) as outside:
        source = replace(outside.source, patience=2.0)  # pyright: ignore[reportArgumentType]
        late = replace(outside, source=source, spark=_after(lambda: _create_again(world, pipeline, []), world.spark))
        with pytest.raises((BrokerAway, StagingLost)):
            run_batch(pipeline, late)
    _halts(world, pipeline, "topic_recreated")
    assert world.table(pipeline) == []


def test_a_topic_created_again_in_the_middle_of_a_range_is_not_spliced(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(10), partition=0)
    with world.hold(pipeline) as outside:
        splicing = _Splicing(outside.source, world.endpoints, pipeline)
        with pytest.raises(Halt, match="deleted and created again") as halt:
            run_batch(pipeline, replace(outside, source=splicing))
    assert halt.value.code == "topic_recreated"
    _halts(world, pipeline, "topic_recreated")
    assert world.table(pipeline) == []
    assert world.position(pipeline)[0] == 0


def test_a_topic_created_again_between_stage_and_publish_publishes_nothing(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(5), partition=0)
    with world.hold(pipeline) as outside:
        lineage = _Before(outside.lineage, "of_batch", lambda: _create_again(world, pipeline, transfers(9)))
        with pytest.raises(Halt) as halt:
            run_batch(pipeline, replace(outside, lineage=lineage))
    assert halt.value.code == "topic_recreated"
    assert world.table(pipeline) == []


def test_another_cluster_halts(world: World) -> None:
    pipeline = world.caught_up()
    world.rows("update tidegate.source_position set cluster_id = 'another' where pipeline = %s", pipeline.name)
    halt = _halts(world, pipeline, "cluster_switched")
    assert halt.detail["was"] == "another"


# ── Offsets that are not there ───────────────────────────────────────────────────────────────────────────────────────


def test_retention_that_passed_the_position_halts_with_exactly_the_offsets_that_are_lost(world: World) -> None:
    pipeline = world.caught_up()
    world.send(pipeline, transfers(40, start=8))
    _delete_records(world, pipeline, {0: 7, 2: 12})
    halt = _halts(world, pipeline, "retention_passed")
    lost = [
        {"partition": 0, "from_offset": 2, "until_offset": 7},
        {"partition": 2, "from_offset": 2, "until_offset": 12},
    ]
    assert halt.detail == {"ranges": lost}
    assert "partition 0 [2, 7), partition 2 [2, 12)" in str(halt)


def test_retention_that_passes_a_planned_batch_before_it_is_read_publishes_nothing(world: World) -> None:
    pipeline = world.caught_up()
    world.send(pipeline, transfers(40, start=8))
    with world.hold(pipeline) as outside:
        late = replace(outside, spark=_after(lambda: _delete_records(world, pipeline, {0: 7}), world.spark))
        with pytest.raises(StagingLost, match="cannot be read at 2"):
            run_batch(pipeline, late)
    _halts(world, pipeline, "retention_passed")
    assert len(world.table(pipeline)) == 16


def test_a_position_beyond_the_end_halts_as_a_log_that_was_cut(world: World) -> None:
    pipeline = world.caught_up()
    world.rows(
        "update tidegate.source_position set next_offset = 5 where pipeline = %s and partition = 1", pipeline.name
    )
    halt = _halts(world, pipeline, "log_truncated")
    assert halt.detail == {"ranges": [{"partition": 1, "from_offset": 2, "until_offset": 5}]}


def test_a_partition_that_the_broker_does_not_know_any_more_halts(world: World) -> None:
    pipeline = world.caught_up()
    world.rows(
        "insert into tidegate.source_position (pipeline, topic, partition, cluster_id, topic_id, start_offset,"
        " next_offset) select pipeline, topic, 9, cluster_id, topic_id, 0, 0 from tidegate.source_position"
        " where pipeline = %s and partition = 0",
        pipeline.name,
    )
    halt = _halts(world, pipeline, "partition_missing")
    assert halt.detail == {"partitions": [9]}


def test_a_topic_that_does_not_exist_is_named(world: World) -> None:
    pipeline = world.new_pipeline()
    missing = replace(pipeline, contract=replace(pipeline.contract, topic="nowhere"))
    with pytest.raises(BadInput, match="topic nowhere does not exist"):
        world.drain(missing)


def test_the_epoch_of_the_last_message_is_kept_and_goes_with_the_next_range(world: World) -> None:
    pipeline = world.caught_up()
    positions = world.ledger.positions(pipeline.name, pipeline.contract.topic)
    assert {position.leader_epoch for position in positions} == {0}
    world.send(pipeline, transfers(4, start=8))
    with world.hold(pipeline) as outside:
        pending = plan(pipeline.contract, outside)
    assert pending is not None
    assert {(item.leader_epoch, item.new_leader) for item in pending.ranges} == {(0, False)}
    assert [batch.messages for batch in world.drain(pipeline)] == [4]


def test_a_log_that_was_cut_and_written_on_is_known_by_its_epochs_and_halts(world: World) -> None:
    pipeline = world.caught_up()
    world.send(pipeline, transfers(8, start=8))
    unheard_of = "update tidegate.source_position set leader_epoch = 99 where pipeline = %s and partition = 1"
    world.rows(unheard_of, pipeline.name)  # as if the messages read before were of a leader that this log never had
    halt = _halts(world, pipeline, "log_truncated")
    assert "[1] was cut below 2 and written on" in halt.detail["error"]
    assert halt.detail["partitions"] == [1]
    assert len(world.table(pipeline)) == 16


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
    with pytest.raises(Halt, match="nobody has settled it"):  # mended or not: a person says so
        world.drain(pipeline)
    assert len(world.table(pipeline)) == 16


def _halts(world: World, pipeline: Pipeline, code: str) -> Halt:
    """A run of the pipeline halts with `code`, the ledger remembers, and the next run is stopped at the door."""
    with pytest.raises(Halt) as halt:
        world.drain(pipeline)
    status: Any = world.ledger.status(pipeline.name)
    assert (halt.value.code, status["state"], status["halt_code"]) == (code, "halted", code)
    assert status["halt_detail"] == halt.value.detail
    with pytest.raises(Halt, match="nobody has settled it"):
        world.drain(pipeline)
    return halt.value


def _create_again(world: World, pipeline: Pipeline, values: list[bytes]) -> None:
    """Delete the topic, create it anew under its name, and send `values` to its partition 0."""
    admin, topic = world.admin(), pipeline.contract.topic
    admin.delete_topics([topic])[topic].result(10)
    world.create_topic(topic)
    if values:
        world.send(pipeline, values, partition=0)


def _delete_records(world: World, pipeline: Pipeline, before: dict[int, int]) -> None:
    admin = world.admin()
    cuts = [TopicPartition(pipeline.contract.topic, partition, offset) for partition, offset in before.items()]
    for future in admin.delete_records(cuts).values():
        future.result(10)


def _after(do: Callable[[], object], then: Callable[[], Any]) -> Callable[[], Any]:
    """`then`, with `do` done once before it."""
    waiting = [do]

    def both() -> Any:
        while waiting:
            waiting.pop()()
        return then()

    return both


class _Before:
    """Something real with somebody's hand in it, just before one of its methods."""

    def __init__(self, real: Any, method: str, do: Callable[[], object]) -> None:
        self._real, self._method, self._do = real, method, do

    def __getattr__(self, name: str) -> Any:
        if name == self._method:
            self._do()
        return getattr(self._real, name)


@dataclass(frozen=True)
class _Splicing:
    """The real source, with the topic deleted and created again after the first half of a range."""

    real: Any
    endpoints: Any
    pipeline: Pipeline

    def read(self, wanted: OffsetRange) -> Iterator[Block]:
        middle = wanted.from_offset + len(wanted) // 2
        yield from self.real.read(replace(wanted, until_offset=middle))
        world = World(self.endpoints, lambda: pytest.fail("no Spark in a task"))
        _create_again(
            world, replace(self.pipeline, transform=None), [transfer(n, "999.00") for n in range(len(wanted))]
        )
        yield from self.real.read(replace(wanted, from_offset=middle))
