"""Clock jumps, of the producers and of the database. The engine itself only measures durations.

A process' own clock is not moved: Python has no tool for it, and tests must not set the machine's clock.
"""

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import GateFailed
from platform_defs.kafka.source import READING
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.world import World, transfer, transfers

HOUR = 3_600_000  # ms
KEPT = {
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": str(24 * HOUR),
}  # whatever age the messages claim


@scenario(FaultClass.CLOCKS, representative=True)
def producers_clock_jumps_an_hour_both_ways(chaos: Chaos) -> Verdict:
    """Rows and offsets are the same whatever the timestamps; dead letters keep their message's timestamp."""
    pipeline = chaos.world.new_pipeline(config=KEPT, batch_messages=25)
    now = int(time.time() * 1000)
    stamps = [now, now + HOUR, now + HOUR, now - HOUR, now - HOUR, 1, now, now]
    for stamp in stamps:
        _send(chaos.world, pipeline, [*transfers(8), b"not json"], stamp)
    jumps = sum(abs(after - before) >= HOUR for before, after in pairwise(_stamps(chaos.world, pipeline)))
    assert sum(batch.messages for batch in chaos.world.drain(pipeline)) == 72
    assert [letter["timestamp_ms"] for letter in chaos.world.dead_letters(pipeline)] == stamps
    return chaos.judge(pipeline, jumps, "offsets and rows unaffected")


@scenario(FaultClass.CLOCKS)
def messages_of_one_timestamp_or_none(chaos: Chaos) -> Verdict:
    """The broker stamps all of them on arrival, or they have the same timestamp: their offsets tell them apart."""
    pipeline = chaos.world.new_pipeline(config={"message.timestamp.type": "LogAppendTime"})
    _send(chaos.world, pipeline, transfers(20), 1)
    same = chaos.world.new_pipeline(config=KEPT)
    _send(chaos.world, same, transfers(20), 1)
    stamps = _stamps(chaos.world, same)
    assert stamps == [1] * 20
    assert min(_stamps(chaos.world, pipeline)) > 1
    chaos.judge(pipeline, 1, "")
    return chaos.judge(same, len(stamps), "offsets and rows unaffected")


@scenario(FaultClass.CLOCKS)
def databases_clock_jumps_an_hour_forward(chaos: Chaos) -> Verdict:
    """A gate's back-off is over at once; the same offsets are evaluated again."""
    return _database_jumps(chaos, "-1 hour")


@scenario(FaultClass.CLOCKS)
def databases_clock_jumps_an_hour_back(chaos: Chaos) -> Verdict:
    """A back-off that no failed gate requires is not waited out; the same offsets are evaluated again."""
    return _database_jumps(chaos, "1 hour")


def _database_jumps(chaos: Chaos, stamps: str) -> Verdict:
    """Between a failed gate and the next try, move every timestamp in the ledger, as if its clock had jumped."""
    pipeline = chaos.world.caught_up()
    chaos.world.send(pipeline, [transfer(8), transfer(9, "900000.00")])
    with pytest.raises(GateFailed):
        chaos.world.drain(_strict(pipeline))
    assert _waiting(chaos.world, pipeline)
    chaos.world.rows(
        f"UPDATE tidegate.pipeline SET retry_at = retry_at + interval '{stamps}', updated_at = updated_at +"
        f" interval '{stamps}' WHERE name = '{pipeline.name}'"
    )
    chaos.world.rows(
        f"UPDATE tidegate.batch SET committed_at = committed_at + interval '{stamps}' WHERE pipeline ="
        f" '{pipeline.name}'"
    )
    assert not _waiting(chaos.world, pipeline)
    chaos.world.send(pipeline, transfers(40, start=10))
    batches = [batch.messages for batch in chaos.world.drain(pipeline)]
    assert batches == [2, 40]
    reported = [batch.messages for batch in chaos.world.ledger.unreported(pipeline.contract)]
    assert reported == [8, 2, 40]  # in the order of their offsets, not of their timestamps
    return chaos.judge(pipeline, 1, "offsets and rows unaffected")


def _strict(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with its warnings made blocking."""
    table = pipeline.contract.row_table
    rules = tuple(replace(rule, severity="blocking") for rule in table.batch_rules)
    tables = (replace(table, batch_rules=rules), *pipeline.contract.accumulates)
    return replace(pipeline, contract=replace(pipeline.contract, tables=tables))


def _waiting(world: World, pipeline: Pipeline) -> bool:
    return world.ledger.status(pipeline.name).backed_off


def _send(world: World, pipeline: Pipeline, values: list[bytes], stamp: int) -> None:
    """Send to partition 0, all with the same timestamp (ms)."""
    producer = Producer(world.endpoints.kafka_options())
    for value in values:
        producer.produce(pipeline.contract.topic, value, partition=0, timestamp=stamp)
    assert producer.flush(30) == 0


def _stamps(world: World, pipeline: Pipeline) -> list[int]:
    """Return the broker's timestamps for partition 0, in the order of offsets."""
    consumer = Consumer({**world.endpoints.kafka_options(), **READING, "enable.partition.eof": False})
    consumer.assign([TopicPartition(pipeline.contract.topic, 0, 0)])
    end = world.ends(pipeline)[0].end
    try:
        found = consumer.consume(end, 20)
        assert len(found) == end
        return [message.timestamp()[1] for message in found]
    finally:
        consumer.close()
