"""Producers' transactions: open, aborted, abandoned, and the control records that no reader ever sees."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import plan_batch
from platform_defs.errors import BadInput
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.offsets import OffsetRange, lag
from tests.chaos.kafka.three_brokers import THREE_BROKERS, three_brokers
from tests.chaos.runs import FORKS
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.logs import begin, configure, ends, gaps, transaction, wait_until_none_is_open
from tests.support.world import World, transfers

BRIEF = 3_000  # ms after which the cluster's coordinator aborts a transaction whose producer is gone


@scenario(FaultClass.TRANSACTIONS)
def open_transaction(chaos: Chaos) -> Verdict:
    """Nothing behind it is read and no empty run is started, until it commits; then all of it is read."""
    world = chaos.world
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(5), partition=0)
    with transaction(world, pipeline, transfers(7, start=5)) as producer:
        assert [_span(batch.ranges) for batch in world.drain(pipeline)] == [(0, 5)]
        world.send(pipeline, transfers(3, start=12), partition=0)  # committed, and still behind the open one
        assert ends(world, pipeline) == (5, 15)
        _nothing_to_read(world, pipeline)
        producer.commit_transaction()
    (batch,) = world.drain(pipeline)
    assert (batch.messages, _span(batch.ranges)) == (10, (5, 16))
    assert gaps(world, pipeline) == [[], [[15, 16]]]
    return chaos.judge(pipeline, 1, "read when it committed", messages=15)


@scenario(FaultClass.TRANSACTIONS, representative=True)
def aborted_transaction_and_a_control_record_at_the_tail(chaos: Chaos) -> Verdict:
    """The batch ends at the end of the log; aborted messages and markers are gaps recorded with the range."""
    world = chaos.world
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(4), partition=0)
    with transaction(world, pipeline, [b"never to be seen"] * 5) as producer:
        producer.abort_transaction()
    world.send(pipeline, transfers(3, start=4), partition=0)
    with transaction(world, pipeline, transfers(2, start=7)) as producer:
        producer.commit_transaction()
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.rows, batch.dead_letters) == (9, 18, 0)
    assert gaps(world, pipeline) == [[[4, 10], [15, 16]]]
    return chaos.judge(pipeline, 2, "gaps recorded with the range", messages=9)


@scenario(FaultClass.TRANSACTIONS)
def nothing_but_an_aborted_transaction(chaos: Chaos) -> Verdict:
    """A range without a single message is read to its proven end, and passed."""
    world = chaos.world
    pipeline = world.new_pipeline()
    with transaction(world, pipeline, [b"never to be seen"] * 5) as producer:
        producer.abort_transaction()
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.rows, world.position(pipeline)[0]) == (0, 0, 6)
    assert gaps(world, pipeline) == [[[0, 6]]]
    return chaos.judge(pipeline, 1, "passed, as one gap", messages=0)


@scenario(FaultClass.TRANSACTIONS, shares=THREE_BROKERS)
def hanging_transaction_ended_by_its_timeout(chaos: Chaos) -> Verdict:
    """Its producer was killed: nothing behind it is read until the coordinator aborts it; then it is a gap."""
    world = three_brokers().world(chaos.world)
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(5), partition=0)
    _abandon(world, pipeline, uuid4().hex, BRIEF)
    return _ended(replace(chaos, world=world), pipeline, 5)


@scenario(FaultClass.TRANSACTIONS)
def hanging_transaction_ended_by_the_next_producer(chaos: Chaos) -> Verdict:
    """Its producer was killed: nothing behind it is read until one of the same name aborts it; then it is a gap."""
    world, name = chaos.world, uuid4().hex
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(5), partition=0)
    _abandon(world, pipeline, name, 600_000)
    assert [_span(batch.ranges) for batch in world.drain(pipeline)] == [(0, 5)]
    world.send(pipeline, transfers(3, start=5), partition=0)
    _nothing_to_read(world, pipeline)
    Producer({**world.endpoints.kafka_options(), "transactional.id": name}).init_transactions(20)
    return _ended(chaos, pipeline, 8)


@scenario(FaultClass.COMPACTION, representative=True)
def topic_that_compacts(chaos: Chaos) -> Verdict:
    """Refused for append and accumulate, before anything is read; read once it deletes instead."""
    for disposition in ("append", "accumulate"):
        for policy in ("compact", "compact,delete"):
            pipeline = chaos.world.new_pipeline(disposition, config={"cleanup.policy": policy})
            with pytest.raises(
                BadInput, match=r"is compacted \(cleanup.policy\).*Make the table upsert, or the policy delete"
            ):
                chaos.world.drain(pipeline)
            assert chaos.world.position(pipeline) == {}
    configure(chaos.world, pipeline, "cleanup.policy", "delete")
    chaos.world.send(pipeline, transfers(8))
    return chaos.judge(pipeline, 4, "refused; read once it deletes instead")


def _ended(chaos: Chaos, pipeline: Pipeline, readable: int) -> Verdict:
    """Assert that the hanging transaction of two messages becomes a gap of three offsets, and that all `readable`
    messages are read.
    """
    wait_until_none_is_open(chaos.world, pipeline)
    chaos.world.drain(pipeline)
    found = [tuple(gap) for batch in gaps(chaos.world, pipeline) for gap in batch]
    assert sum(until - start for start, until in found) == 3, found
    return chaos.judge(pipeline, 1, "waited for; then a gap", messages=readable)


def _abandon(world: World, pipeline: Pipeline, name: str, timeout: int) -> None:
    """Let a process send two messages in a transaction, and kill it (SIGKILL)."""
    ear, mouth = FORKS.Pipe(duplex=False)
    process = FORKS.Process(
        target=_send_and_wait, args=(world.endpoints.kafka_options(), pipeline.contract.topic, name, timeout, mouth)
    )
    process.start()
    assert ear.poll(60), "the producer said nothing"
    assert process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    stable, end = ends(world, pipeline)
    assert (stable, end) == (5, 7), "the transaction is not open"


def _send_and_wait(options: dict[str, str], topic: str, name: str, timeout: int, mouth: Connection) -> None:
    producer = begin(options, topic, [b"never to be seen"] * 2, name=name, timeout=timeout)
    mouth.send("sent")
    time.sleep(60)
    producer.abort_transaction()


def _nothing_to_read(world: World, pipeline: Pipeline) -> None:
    """Assert no lag and no batch, although the log grows: neither a run nor a sensor would start for nothing."""
    broker = KafkaBroker(world.endpoints.kafka_options())
    positions = world.ledger.positions(pipeline.name)
    assert set(lag(positions, broker.describe(pipeline.contract.topic)).values()) == {0}
    with world.open_run(pipeline) as context:
        assert plan_batch(pipeline.contract, context) is None
    assert world.drain(pipeline) == []


def _span(ranges: Sequence[OffsetRange]) -> tuple[int, int]:
    """Return the start and end offset of a batch's only range."""
    (only,) = ranges
    return only.from_offset, only.until_offset
