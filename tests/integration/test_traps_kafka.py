"""What Kafka does to a reader who is not careful: each trap that is known, set with the real broker."""

import json
import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, OffsetSpec

from platform_defs.engine.batch import plan
from platform_defs.engine.errors import BadInput
from platform_defs.engine.offsets import OffsetRange
from platform_defs.engine.ports import Pipeline, Source
from resources import kafka
from resources.kafka import READING, KafkaBroker, KafkaSource
from resources.outside import kafka_options
from tests.world import Budget, World, transfers

# ── Transactions and gaps ────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_behind_an_open_transaction_is_read_and_no_empty_run_is_started(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(5), partition=0)
    with _transaction(world, pipeline, transfers(7, start=5)) as producer:
        assert [batch.ranges for batch in world.drain(pipeline)] == [(_range(pipeline, 0, 5),)]
        with world.hold(pipeline) as outside:
            assert plan(pipeline.contract, outside) is None
        world.send(pipeline, transfers(3, start=12), partition=0)  # committed, and still behind the open one
        assert world.drain(pipeline) == []
        producer.commit_transaction()
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.dead_letters, world.position(pipeline)[0]) == (10, 0, 16)
    assert _gaps(world, pipeline) == [[], [[15, 16]]]


def test_aborted_messages_and_control_records_are_gaps_and_never_rows(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(4), partition=0)
    with _transaction(world, pipeline, [b"never to be seen"] * 5) as producer:
        producer.abort_transaction()
    world.send(pipeline, transfers(3, start=4), partition=0)
    with _transaction(world, pipeline, transfers(2, start=7)) as producer:
        producer.commit_transaction()
    started = time.monotonic()
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.rows, batch.dead_letters) == (9, 18, 0)
    assert _gaps(world, pipeline) == [[[4, 10], [15, 16]]]
    assert time.monotonic() - started < 15  # a control record at the tail is not waited for


def test_a_range_of_nothing_but_gaps_is_read_and_passed(world: World) -> None:
    pipeline = world.new_pipeline()
    with _transaction(world, pipeline, [b"never to be seen"] * 5) as producer:
        producer.abort_transaction()
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.rows, world.position(pipeline)[0]) == (0, 0, 6)
    assert _gaps(world, pipeline) == [[[0, 6]]]


@pytest.mark.parametrize("cut", [1, 3, 4, 6, 9])
def test_a_range_may_begin_or_end_inside_a_gap(world: World, cut: int) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, [b"0", b"1", b"2"], partition=0)
    with _transaction(world, pipeline, [b"3", b"4", b"5"]) as producer:
        producer.abort_transaction()
    world.send(pipeline, [b"7", b"8"], partition=0)
    source = KafkaSource(kafka_options(world.endpoints), patience=5)
    parts = [_range(pipeline, 0, cut), _range(pipeline, cut, 9)] if cut < 9 else [_range(pipeline, 0, 9)]
    assert [offset for part in parts for offset in _offsets(source, part)] == [0, 1, 2, 7, 8]


@pytest.fixture(scope="module")
def compacted(endpoints: Any, spark: Any) -> tuple[World, Pipeline]:
    """An upsert pipeline whose topic the broker's cleaner has been told to compact as soon as it can."""
    world = World(endpoints, spark)
    eager = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "max.compaction.lag.ms": "100"}
    pipeline = world.new_pipeline("upsert", config=eager)
    for number in range(6):  # segments of their own: the last one is never compacted
        world.send(pipeline, [customer(1, name=f"name {number}")], keys=[b"C1"], partition=0)
        time.sleep(0.15)
    world.send(pipeline, [customer(2)], keys=[b"C2"], partition=0)
    return world, pipeline


@pytest.mark.parametrize("disposition", ["append", "accumulate"])
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_topic_that_compacts_is_refused_for_tables_that_append(world: World, disposition: str, policy: str) -> None:
    pipeline = world.new_pipeline(disposition, config={"cleanup.policy": policy})
    with pytest.raises(BadInput, match=r"compacts \(cleanup.policy\).*Make the table upsert, or the policy delete"):
        world.drain(pipeline)
    assert world.position(pipeline) == {}


# ── Partitions added ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_partitions_added_to_the_topic_are_read_from_their_first_message(world: World) -> None:
    pipeline = world.caught_up()
    _add_partitions(world, pipeline, 6)
    world.send(pipeline, transfers(3, start=8), partition=5)
    world.send(pipeline, transfers(2, start=11), partition=0)
    (batch,) = world.drain(pipeline)
    assert (batch.messages, world.position(pipeline)) == (5, {0: 4, 1: 2, 2: 2, 3: 2, 4: 0, 5: 3})
    assert len(world.table(pipeline)) == 26


def test_an_upsert_reads_the_old_partitions_to_their_end_before_the_added_ones(world: World) -> None:
    pipeline = world.new_pipeline("upsert")
    world.send(pipeline, [customer(1)], keys=[b"C1"], partition=3)
    world.drain(pipeline)
    world.send(pipeline, [customer(1, name="old") for _ in range(6)], keys=[b"C1"] * 6, partition=3)
    _add_partitions(world, pipeline, 5)
    world.send(pipeline, [customer(1, name="new")], keys=[b"C1"], partition=4)
    first, second = world.drain(pipeline)
    assert ([r.partition for r in first.ranges], [r.partition for r in second.ranges]) == ([3], [4])
    assert [row["name"] for row in world.rows(f"select name from {pipeline.contract.row_table.name}")] == ["new"]


def test_the_added_partitions_of_an_upsert_get_their_turn_although_the_old_ones_never_run_dry(world: World) -> None:
    pipeline = world.new_pipeline("upsert", batch_messages=4)
    world.send(pipeline, [customer(1)], keys=[b"C1"], partition=3)
    world.drain(pipeline)
    world.send(pipeline, [customer(1)] * 6, keys=[b"C1"] * 6, partition=3)
    _add_partitions(world, pipeline, 5)
    world.send(pipeline, [customer(2)], keys=[b"C2"], partition=4)
    read = []
    for _ in range(3):
        (batch,) = world.drain(pipeline, Budget(batches=1))
        read.append([item.partition for item in batch.ranges])
        world.send(pipeline, [customer(1)] * 6, keys=[b"C1"] * 6, partition=3)  # more comes in than a batch takes
    assert read == [[3], [3], [3, 4]]


# ── The reader itself ────────────────────────────────────────────────────────────────────────────────────────────────


def test_reading_does_not_move_the_brokers_own_group_offsets(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(8))
    world.drain(pipeline)
    source = KafkaSource(kafka_options(world.endpoints), own={**READING, "group.id": f"g{uuid4().hex}"})
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
    source = KafkaSource(kafka_options(world.endpoints), own={**READING, "client.id": uuid4().hex})
    for number in range(40):
        pipeline, partition, start = pipelines[number % 2], number // 2 % 2, number * 37 % 250
        wanted = OffsetRange(pipeline.contract.topic, partition, start, start + 1 + number)
        got = [message.value() for block in source.read(wanted) for message in block.messages]
        assert got == [f"{wanted.topic} {partition} {n}".encode() for n in range(start, wanted.until_offset)]
    assert len([key for key in kafka._consumers if ("client.id", source.own["client.id"]) in key]) == 1


def test_a_reader_given_up_in_the_middle_leaves_nothing_to_the_next_one(world: World) -> None:
    pipeline = world.new_pipeline("append")
    world.send(pipeline, [str(n).encode() for n in range(100)], partition=0)
    source = KafkaSource(kafka_options(world.endpoints))
    blocks = source.read(_range(pipeline, 0, 100))
    next(blocks)
    blocks.close()
    assert _offsets(source, _range(pipeline, 40, 43)) == [40, 41, 42]


def test_a_topic_id_is_text_that_can_be_compared_and_sent_to_tasks(world: World) -> None:
    pipeline = world.new_pipeline()
    broker = KafkaBroker(kafka_options(world.endpoints))
    first, second = broker.describe(pipeline.contract.topic), broker.describe(pipeline.contract.topic)
    assert type(first.topic_id) is str
    assert first == second == pickle.loads(pickle.dumps(first))  # noqa: S301
    assert first.topic_id != kafka.ZERO_ID
    assert first.topic_id != broker.describe(world.new_pipeline().contract.topic).topic_id


def test_what_compaction_removed_is_a_gap_and_the_newest_of_each_key_is_there(
    compacted: tuple[World, Pipeline],
) -> None:
    world, pipeline = compacted
    source = KafkaSource(kafka_options(world.endpoints))
    deadline = time.monotonic() + 40
    while len(_offsets(source, _range(pipeline, 0, 7))) == 7:
        if time.monotonic() > deadline:
            pytest.fail("the broker's cleaner did not come by in 40 s")
        time.sleep(1)
    (batch,) = world.drain(pipeline)
    assert (batch.rows, batch.dead_letters) == (batch.messages, 0)
    (gaps,) = _gaps(world, pipeline)
    assert sum(until - start for start, until in gaps) == 7 - batch.messages
    kept = world.rows(f"select _key, name from {pipeline.contract.row_table.name} order by _key")
    assert [tuple(row.values()) for row in kept] == [("C1", "name 5"), ("C2", "Ada")]


def customer(number: int, **more: Any) -> bytes:
    fields = {"customer_id": f"C{number}", "name": "Ada", "tier": "gold", "signed_up": "2026-11-01"}
    return json.dumps(fields | more).encode()


def _range(pipeline: Pipeline, start: int, until: int) -> OffsetRange:
    return OffsetRange(pipeline.contract.topic, 0, start, until)


def _offsets(source: Source, wanted: OffsetRange) -> list[int]:
    return [offset for block in source.read(wanted) for offset in block.offsets]


def _gaps(world: World, pipeline: Pipeline) -> list[list[list[int]]]:
    """The gaps of each range of partition 0, in order."""
    found = world.rows(
        "select array(select array[lower(g), upper(g)] from unnest(gaps) g) as gaps from tidegate.batch_range"
        " join tidegate.batch using (batch_id) where pipeline = %s and partition = 0 order by from_offset",
        pipeline.name,
    )
    return [row["gaps"] for row in found]


@contextmanager
def _transaction(world: World, pipeline: Pipeline, values: list[bytes]) -> Iterator[Producer]:
    """An open transaction that has sent `values` to partition 0; on leaving, it has ended and its marker is written."""
    own = {"transactional.id": uuid4().hex, "transaction.timeout.ms": 600_000}
    producer = Producer({**kafka_options(world.endpoints), **own})
    producer.init_transactions(20)
    producer.begin_transaction()
    for value in values:
        producer.produce(pipeline.contract.topic, value, partition=0)
    assert producer.flush(10) == 0
    yield producer
    _wait_for_marker(world, pipeline)


def _wait_for_marker(world: World, pipeline: Pipeline) -> None:
    """Until no transaction is open: the coordinator writes a marker some time after it has answered."""
    admin, place = world.admin(), TopicPartition(pipeline.contract.topic, 0)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        asked = [admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=level) for level in levels]
        stable, end = [answer[place].result(10).offset for answer in asked]
        if stable == end:
            return
        time.sleep(0.05)
    pytest.fail("the transaction did not end within 20 s")


def _add_partitions(world: World, pipeline: Pipeline, total: int) -> None:
    admin, topic = world.admin(), pipeline.contract.topic
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(10)


def _committed(world: World, pipeline: Pipeline, group: str) -> set[int]:
    consumer = Consumer({**kafka_options(world.endpoints), "group.id": group})
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
