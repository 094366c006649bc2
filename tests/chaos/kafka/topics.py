"""Faults of the topic under a pipeline: deleted, created again, truncated at its beginning, given partitions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import RunContext
from platform_defs.errors import BrokerAway, OffsetsUnavailable, OtherCluster
from platform_defs.kafka.source import KafkaSource
from platform_defs.stack.endpoints import Endpoints
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.kafka.three_brokers import THREE_BROKERS, three_brokers
from tests.chaos.moments import before_the_publication, before_the_read, mark, play, within_a_range
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.logs import add_partitions, configure, create_again, delete_records
from tests.support.waiting import wait_for
from tests.support.world import World, transfer, transfers

# ── The beginning of the log moves ───────────────────────────────────────────────────────────────────────────────────


@scenario(FaultClass.RECORDS_DELETED)
def records_deleted_past_the_position(chaos: Chaos) -> Verdict:
    """Halt with exactly the missing offsets; `resolve` records the skip, who and why, and the pipeline continues."""
    world = chaos.world
    pipeline = world.caught_up()
    world.send(pipeline, transfers(40, start=8))
    delete_records(world, pipeline, {0: 7, 2: 12})
    detail = halted(world, pipeline, "retention_passed")
    assert detail == {"ranges": [_span(0, 2, 7), _span(2, 2, 12)]}
    decided = resolve_halt(world, pipeline)
    assert [(step.partition, step.skip) for step in decided.steps] == [(0, (2, 7)), (2, (2, 12))]
    assert _skipped(world, pipeline) == detail["ranges"]
    (kept,) = world.rows("select * from tidegate.settlement where pipeline = %s", pipeline.name)
    assert (kept["reason"], kept["settled_by"], kept["halt_code"]) == ("a scenario", "chaos", "retention_passed")
    return chaos.judge(pipeline, 1, "halted; skipped what resolve showed; continued")


@scenario(FaultClass.RECORDS_DELETED)
def records_of_a_planned_batch_deleted_before_it_is_read(chaos: Chaos) -> Verdict:
    """The task reports that its offsets are gone; the next run asks the broker for the reason, and halts with it."""
    world = chaos.world
    pipeline = world.caught_up()
    world.send(pipeline, transfers(40, start=8))
    with pytest.raises(OffsetsUnavailable, match="cannot be read at offset 2"):
        play(world, pipeline, before_the_read(lambda: delete_records(world, pipeline, {0: 7})))
    assert halted(world, pipeline, "retention_passed") == {"ranges": [_span(0, 2, 7)]}
    assert len(world.table(pipeline)) == 16
    resolve_halt(world, pipeline)
    assert _skipped(world, pipeline) == [_span(0, 2, 7)]
    return chaos.judge(pipeline, 1, "nothing published; halted; skipped; continued")


@scenario(FaultClass.RECORDS_DELETED, representative=True)
def records_deleted_between_the_last_task_and_publish(chaos: Chaos) -> Verdict:
    """All of the batch was already read: it is published, and nothing halts."""
    world = chaos.world
    pipeline = world.caught_up()
    world.send(pipeline, transfers(40, start=8))
    gone = {0: 7, 2: 12}
    (batch,) = play(world, pipeline, before_the_publication(lambda: delete_records(world, pipeline, gone)))
    assert batch.messages == 40
    assert len(world.table(pipeline)) == 2 * 48
    assert _skipped(world, pipeline) == []
    return chaos.judge(pipeline, 1, "published", messages=48 - sum(gone.values()))


@scenario(FaultClass.RECORDS_DELETED, shares=THREE_BROKERS)
def retention_passes_the_position(chaos: Chaos) -> Verdict:
    """Kafka itself deletes messages past retention.ms: halt, exactly those offsets; `resolve` continues after them."""
    world = three_brokers().world(chaos.world)
    pipeline = world.caught_up()
    world.send(pipeline, transfers(40, start=8))
    configure(world, pipeline, "retention.ms", "1")
    wait_for(lambda: all(held.low == 12 for held in world.ends(pipeline).values()), "retention takes everything")
    configure(world, pipeline, "retention.ms", "-1")
    detail = halted(world, pipeline, "retention_passed")
    assert detail == {"ranges": [_span(partition, 2, 12) for partition in range(4)]}
    resolve_halt(world, pipeline)
    assert _skipped(world, pipeline) == detail["ranges"]
    world.send(pipeline, transfers(8, start=48))
    return replace(chaos, world=world).judge(pipeline, 1, "halted; skipped what resolve showed; continued")


# ── Another log under the same name ──────────────────────────────────────────────────────────────────────────────────


@scenario(FaultClass.TOPIC_RECREATED)
def topic_created_again_and_shorter(chaos: Chaos) -> Verdict:
    """Halt; nothing of it is read until `resolve` makes it a new generation."""
    return _created_again(chaos, transfers(2, start=100))


@scenario(FaultClass.TOPIC_RECREATED)
def topic_created_again_and_as_long(chaos: Chaos) -> Verdict:
    """Halt, although the position is the end: its offsets alone would look caught up."""
    return _created_again(chaos, transfers(5, start=100))


@scenario(FaultClass.TOPIC_RECREATED)
def topic_created_again_and_longer(chaos: Chaos) -> Verdict:
    """Halt, although every offset from the position on is there."""
    return _created_again(chaos, transfers(9, start=100))


@scenario(FaultClass.TOPIC_RECREATED)
def topic_created_again_before_a_planned_batch_is_read(chaos: Chaos) -> Verdict:
    """All planned offsets are there, but in another topic: none of them is published; halt."""
    world, values = chaos.world, transfers(9, start=100)
    pipeline = _filled(world)
    run = partial(play, world, pipeline, before_the_read(lambda: create_again(world, pipeline, values)))
    return _halts_and_begins_anew(chaos, pipeline, run)


@scenario(FaultClass.TOPIC_RECREATED)
def topic_created_again_and_empty_before_a_planned_batch_is_read(chaos: Chaos) -> Verdict:
    """The offsets never come: the run gives up within its limit; the next one queries the broker, and halts."""
    world = chaos.world
    pipeline = _filled(world)
    emptied = before_the_read(lambda: create_again(world, pipeline, []))
    with pytest.raises((BrokerAway, OffsetsUnavailable)):
        play(world, pipeline, lambda context: emptied(_impatient(context)))
    return _halts_and_begins_anew(chaos, pipeline, partial(world.drain, pipeline))


@scenario(FaultClass.TOPIC_RECREATED)
def topic_created_again_while_a_range_is_read(chaos: Chaos) -> Verdict:
    """The consumer continues with the new log's messages without an error: the check before publish halts the run."""
    world = chaos.world
    pipeline = _filled(world)
    happened = mark(pipeline)
    values = [transfer(n, "999.00") for n in range(5)]
    splice = partial(create_again_from_a_worker, world.endpoints, replace(pipeline, transform=None), values)
    run = partial(play, world, pipeline, within_a_range(splice, happened))
    verdict = _halts_and_begins_anew(chaos, pipeline, run)
    assert happened.exists()
    return verdict


@scenario(FaultClass.TOPIC_RECREATED, representative=True)
def topic_created_again_between_the_last_task_and_publish(chaos: Chaos) -> Verdict:
    """The messages were read from a log that is gone: nothing is published; halt."""
    world, values = chaos.world, transfers(9, start=100)
    pipeline = _filled(world)
    run = partial(play, world, pipeline, before_the_publication(lambda: create_again(world, pipeline, values)))
    return _halts_and_begins_anew(chaos, pipeline, run)


@scenario(FaultClass.OTHER_CLUSTER, representative=True, shares=THREE_BROKERS)
def bootstrap_address_leads_to_another_cluster(chaos: Chaos) -> Verdict:
    """Identical topic name and offsets, another cluster: halt; `resolve` begins at its beginning or its end."""
    other = three_brokers().world(chaos.world)
    pipelines = [_moved(chaos.world, other) for _ in range(2)]
    for pipeline in pipelines:
        detail = halted(other, pipeline, "cluster_switched")
        assert detail == {"was": _cluster_id(chaos.world), "is": _cluster_id(other)}
        assert len(other.table(pipeline)) == 10
    beginning, end = pipelines
    resolve_halt(other, end, "end")
    there = replace(chaos, world=other)
    there.judge(end, 1, "nothing of what was there", messages=0)
    resolve_halt(other, beginning, "beginning")
    verdict = there.judge(beginning, 2, "halted; a new generation after resolve")
    assert len(other.table(beginning)) == 10 + 18
    return verdict


@scenario(FaultClass.OTHER_CLUSTER, shares=THREE_BROKERS)
def tasks_are_led_to_another_cluster(chaos: Chaos) -> Verdict:
    """The run's own process reaches the right one, its tasks a mirror with the same offsets: refused, nothing of it is
    kept; read once the tasks reach the right one.
    """
    other = three_brokers().world(chaos.world)
    pipeline = _moved(chaos.world, other)
    chaos.world.send(pipeline, transfers(4, start=5), partition=0)
    mirror = KafkaSource(other.endpoints.kafka_options())
    with pytest.raises(OtherCluster, match=rf"leads to cluster {_cluster_id(other)}.*{_cluster_id(chaos.world)}"):
        play(chaos.world, pipeline, lambda context: replace(context, source=mirror))
    assert len(chaos.world.table(pipeline)) == 10
    return chaos.judge(pipeline, 1, "refused; read once the names led right")


# ── Partitions ───────────────────────────────────────────────────────────────────────────────────────────────────────


@scenario(FaultClass.PARTITIONS_ADDED, representative=True)
def partitions_added_while_a_batch_runs(chaos: Chaos) -> Verdict:
    """The batch publishes what it planned; the next one reads the new partitions from 0."""
    world = chaos.world
    pipeline = world.caught_up()
    world.send(pipeline, transfers(2, start=8), partition=0)

    def grow() -> None:
        add_partitions(world, pipeline, 6)
        world.send(pipeline, transfers(3, start=10), partition=5)

    first, second = play(world, pipeline, before_the_read(grow))
    assert [(item.partition, item.from_offset, item.until_offset) for item in first.ranges] == [(0, 2, 4)]
    assert [(item.partition, item.from_offset, item.until_offset) for item in second.ranges] == [(5, 0, 3)]
    assert world.position(pipeline) == {0: 4, 1: 2, 2: 2, 3: 2, 4: 0, 5: 3}
    return chaos.judge(pipeline, 1, "read from 0 in the next batch")


def _filled(world: World) -> Pipeline:
    """Return a pipeline whose topic has five unread messages in partition 0."""
    pipeline = world.new_pipeline()
    world.drain(pipeline)  # its tables exist, and are empty
    world.send(pipeline, transfers(5), partition=0)
    return pipeline


def _created_again(chaos: Chaos, values: Sequence[bytes]) -> Verdict:
    """Create the topic again, with `values`, once five messages of it have been read."""
    pipeline = _filled(chaos.world)
    chaos.world.drain(pipeline)
    create_again(chaos.world, pipeline, values)
    return _halts_and_begins_anew(chaos, pipeline, partial(chaos.world.drain, pipeline))


def _halts_and_begins_anew(chaos: Chaos, pipeline: Pipeline, run: Callable[[], object]) -> Verdict:
    """Assert that the run halts because the topic was created again, and changes nothing; the new log is read after
    `resolve`.
    """
    world = chaos.world
    before, position = world.table(pipeline), world.position(pipeline)[0]
    detail = halted(world, pipeline, "topic_recreated", run)
    assert detail["was"] != detail["is"]
    assert (world.table(pipeline), world.position(pipeline)[0]) == (before, position)
    resolve_halt(world, pipeline, "beginning")
    return chaos.judge(pipeline, 1, "halted; a new generation after resolve")


def _moved(world: World, other: World) -> Pipeline:
    """Return a pipeline that has read five messages; the other cluster also has its topic, with nine other messages."""
    pipeline = _filled(world)
    world.drain(pipeline)
    other.create_topic(pipeline.contract.topic)
    other.send(pipeline, transfers(9, start=100), partition=0)
    return pipeline


def _cluster_id(world: World) -> str:
    admin = world.admin()
    return admin.describe_cluster(request_timeout=10).result(10).cluster_id


def create_again_from_a_worker(endpoints: Endpoints, pipeline: Pipeline, values: Sequence[bytes]) -> None:
    create_again(World(endpoints, _no_spark), pipeline, values)


def _no_spark() -> Any:
    raise AssertionError("no Spark in a task")


def _impatient(context: RunContext) -> RunContext:
    return replace(context, source=replace(context.source, patience=2.0))  # pyright: ignore[reportArgumentType]


def _skipped(world: World, pipeline: Pipeline) -> list[dict[str, Any]]:
    found = (
        "select partition, from_offset, until_offset from tidegate.declared_skip where pipeline = %s order by partition"
    )
    return world.rows(found, pipeline.name)


def _span(partition: int, from_offset: int, until_offset: int) -> dict[str, int]:
    return {"partition": partition, "from_offset": from_offset, "until_offset": until_offset}
