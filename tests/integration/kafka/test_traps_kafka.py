"""Kafka's known traps for a careless reader, each set with the real broker."""

import gc
import json
import pickle
import time
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.interfaces.source_and_staging import Source
from platform_defs.kafka import broker as kafka_broker
from platform_defs.kafka import source as kafka
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.kafka.source import BLOCK, READING, KafkaSource
from platform_defs.offsets import OffsetRange
from tests.support.kafka.logs import add_partitions, gaps, transaction
from tests.support.waiting import wait_for
from tests.support.world import Budget, World, transfers

# ── Transactions and gaps ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cut", [1, 3, 4, 6, 9])
@pytest.mark.slow
def test_a_range_may_begin_or_end_inside_a_gap(world: World, cut: int) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, [b"0", b"1", b"2"], partition=0)
    with transaction(world, pipeline, [b"3", b"4", b"5"]) as producer:
        producer.abort_transaction()
    world.send(pipeline, [b"7", b"8"], partition=0)
    source = KafkaSource(world.endpoints.kafka_options(), patience=5)
    parts = [_range(pipeline, 0, cut), _range(pipeline, cut, 9)] if cut < 9 else [_range(pipeline, 0, 9)]
    assert [offset for part in parts for offset in _offsets(source, part)] == [0, 1, 2, 7, 8]


@pytest.fixture(scope="module")
def compacted(endpoints: Any, spark: Any) -> tuple[World, Pipeline]:
    """Return an upsert pipeline whose topic the broker's cleaner compacts as soon as it can."""
    world = World(endpoints, spark)
    eager = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "max.compaction.lag.ms": "100"}
    pipeline = world.new_pipeline("upsert", config=eager)
    for number in range(6):  # each in its own segment: the last one is never compacted
        world.send(pipeline, [customer(1, name=f"name {number}")], keys=[b"C1"], partition=0)
        time.sleep(0.15)
    world.send(pipeline, [customer(2)], keys=[b"C2"], partition=0)
    return world, pipeline


# ── Partitions added ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_an_upsert_reads_the_old_partitions_to_their_end_before_the_added_ones(world: World) -> None:
    pipeline = world.new_pipeline("upsert")
    world.send_and_drain(pipeline, [customer(1)], keys=[b"C1"], partition=3)
    world.send(pipeline, [customer(1, name="old") for _ in range(6)], keys=[b"C1"] * 6, partition=3)
    add_partitions(world, pipeline, 5)
    first, second = world.send_and_drain(pipeline, [customer(1, name="new")], keys=[b"C1"], partition=4)
    assert ([r.partition for r in first.ranges], [r.partition for r in second.ranges]) == ([3], [4])
    assert [row["name"] for row in world.rows(f"select name from {pipeline.contract.row_table.name}")] == ["new"]


@pytest.mark.slow
def test_the_added_partitions_of_an_upsert_get_their_turn_although_the_old_ones_never_run_dry(world: World) -> None:
    pipeline = world.new_pipeline("upsert", batch_messages=4)
    world.send_and_drain(pipeline, [customer(1)], keys=[b"C1"], partition=3)
    world.send(pipeline, [customer(1)] * 6, keys=[b"C1"] * 6, partition=3)
    add_partitions(world, pipeline, 5)
    world.send(pipeline, [customer(2)], keys=[b"C2"], partition=4)
    read = []
    for _ in range(3):
        (batch,) = world.drain(pipeline, Budget(batches=1))
        read.append([item.partition for item in batch.ranges])
        world.send(pipeline, [customer(1)] * 6, keys=[b"C1"] * 6, partition=3)  # more comes in than a batch takes
    assert read == [[3], [3], [3, 4]]


# ── The reader itself ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_reading_does_not_move_the_brokers_own_group_offsets(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send_and_drain(pipeline, transfers(8))
    source = KafkaSource(world.endpoints.kafka_options(), own={**READING, "group.id": f"g{uuid4().hex}"})
    assert _committed_after_reading(world, pipeline, source) == {-1001}
    moving = replace(source, own={**source.own, "enable.auto.commit": True, "enable.auto.offset.store": True})
    assert _committed_after_reading(world, pipeline, moving) == {2}  # what the defaults would do
    assert _committed(world, pipeline, READING["group.id"]) == {-1001}


def test_one_consumer_reads_range_after_range_and_topic_after_topic_without_a_stale_message(world: World) -> None:
    pipelines = [world.new_pipeline("append"), world.new_pipeline("append")]
    for pipeline in pipelines:
        for partition in (0, 1):
            values = [f"{pipeline.contract.topic} {partition} {n}".encode() for n in range(300)]
            world.send(pipeline, values, partition=partition)
    source = KafkaSource(world.endpoints.kafka_options(), own={**READING, "client.id": uuid4().hex})
    for number in range(40):
        pipeline, partition, start = pipelines[number % 2], number // 2 % 2, number * 37 % 250
        wanted = OffsetRange(pipeline.contract.topic, partition, start, start + 1 + number)
        got = [value for block in source.read(wanted) for value in block.values.to_pylist()]
        assert got == [f"{wanted.topic} {partition} {n}".encode() for n in range(start, wanted.until_offset)]
    assert len([key for key in kafka._consumers if ("client.id", source.own["client.id"]) in key]) == 1


def test_a_reader_given_up_in_the_middle_leaves_nothing_to_the_next_one(world: World) -> None:
    pipeline = world.new_pipeline("append")
    world.send(pipeline, [str(n).encode() for n in range(100)], partition=0)
    source = KafkaSource(world.endpoints.kafka_options())
    blocks, collects = cast("Any", source.read(_range(pipeline, 0, 100))), gc.get_threshold()
    next(blocks)
    assert gc.get_threshold()[0] > 2 * BLOCK  # no collection walks through the messages
    blocks.close()
    assert gc.get_threshold() == collects
    assert _offsets(source, _range(pipeline, 40, 43)) == [40, 41, 42]


def test_a_topic_id_is_text_that_can_be_compared_and_sent_to_tasks(world: World) -> None:
    pipeline = world.new_pipeline()
    broker = KafkaBroker(world.endpoints.kafka_options())
    first, second = broker.describe(pipeline.contract.topic), broker.describe(pipeline.contract.topic)
    assert type(first.topic_id) is str
    assert first == second == pickle.loads(pickle.dumps(first))  # noqa: S301
    assert first.topic_id != kafka_broker.ZERO_ID
    assert first.topic_id != broker.describe(world.new_pipeline().contract.topic).topic_id


@pytest.mark.longest
def test_what_compaction_removed_is_a_gap_and_the_newest_of_each_key_is_there(
    compacted: tuple[World, Pipeline],
) -> None:
    world, pipeline = compacted
    source = KafkaSource(world.endpoints.kafka_options())
    wait_for(lambda: len(_offsets(source, _range(pipeline, 0, 7))) < 7, "the broker's cleaner removed a message")
    (batch,) = world.drain(pipeline)
    assert (batch.rows, batch.dead_letters) == (batch.messages, 0)
    (removed,) = gaps(world, pipeline)
    assert sum(until - start for start, until in removed) == 7 - batch.messages
    kept = world.rows(f"select _key, name from {pipeline.contract.row_table.name} order by _key")
    assert [tuple(row.values()) for row in kept] == [("C1", "name 5"), ("C2", "Ada")]


def customer(number: int, **more: Any) -> bytes:
    fields = {"customer_id": f"C{number}", "name": "Ada", "tier": "gold", "signed_up": "2026-11-01"}
    return json.dumps(fields | more).encode()


def _range(pipeline: Pipeline, start: int, until: int) -> OffsetRange:
    return OffsetRange(pipeline.contract.topic, 0, start, until)


def _offsets(source: Source, wanted: OffsetRange) -> list[int]:
    found = [block.offsets for block in source.read(wanted)]
    return [at for offsets in found for at in (offsets if isinstance(offsets, range) else _numbers(offsets))]


def _numbers(offsets: pa.Int64Array) -> list[int]:
    return [at for at in offsets.to_pylist() if at is not None]


def _committed(world: World, pipeline: Pipeline, group: str) -> set[int]:
    consumer = Consumer({**world.endpoints.kafka_options(), "group.id": group})
    asked = [TopicPartition(pipeline.contract.topic, partition) for partition in range(4)]
    found = {item.offset for item in consumer.committed(asked, timeout=10)}
    consumer.close()
    return found


def _committed_after_reading(world: World, pipeline: Pipeline, source: KafkaSource) -> set[int]:
    for partition in range(4):
        for _ in source.read(replace(_range(pipeline, 0, 2), partition=partition)):
            pass
        kafka._consumers.pop(source._key).close()  # a consumer that commits does so at the latest here
    return _committed(world, pipeline, source.own["group.id"])
