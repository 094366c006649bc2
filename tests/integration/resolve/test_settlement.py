"""Each halt, caused for real, shown and resolved, and verify's report on the tables."""

import time
from dataclasses import replace
from typing import Any

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import plan_batch
from platform_defs.errors import BadInput, Halt, Retryable
from platform_defs.errors.halts import KeepsFailing
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.resolve import settled_log, settlement
from platform_defs.resolve.choices import ResumeAt
from platform_defs.resolve.settlement import Settlement
from platform_defs.verify.verify import verify
from tests.chaos.moments import play
from tests.support.kafka.leaders import LedLater, led_by_an_unheard_of_leader, led_later
from tests.support.waiting import BOUND
from tests.support.world import World, transfers


def decide(
    world: World, pipeline: Pipeline, start: ResumeAt | None = None, broker: settled_log.Log | None = None
) -> Settlement:
    asked = broker or KafkaBroker(world.endpoints.kafka_options())
    decided = settlement.propose(pipeline.contract, world.ledger, asked, start)
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
    world.send_and_drain(pipeline, transfers(count))
    return pipeline


def recreate(world: World, pipeline: Pipeline) -> None:
    admin = world.admin()
    admin.delete_topics([pipeline.contract.topic])[pipeline.contract.topic].result(BOUND)
    for _ in range(100):
        if pipeline.contract.topic not in admin.list_topics(timeout=10).topics:
            break
        time.sleep(0.1)
    world.create_topic(pipeline.contract.topic)


@pytest.mark.longest
@pytest.mark.parametrize(("start", "rows"), [("beginning", 60), pytest.param("end", 0, marks=pytest.mark.slow)])
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
    world.send_and_drain(pipeline, transfers(8))
    again = verify(pipeline, world.endpoints, world.spark)
    assert again.ok, again
    assert again.rows == rows + 16


@pytest.mark.longest
def test_a_log_cut_below_the_position_goes_on_at_its_new_end(world: World) -> None:
    pipeline = filled(world)
    # The broker cannot be made to lose its tail here: the ledger records ten more messages as read than there are.
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
    world.send_and_drain(pipeline, transfers(40, 500))
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report
    assert report.messages == 120


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "read", "skipped"), [("cut", 15, 0), pytest.param("position", 5, 10, marks=pytest.mark.longest)]
)
def test_what_was_written_between_the_cut_and_the_position_is_read_or_declared(
    world: World, start: ResumeAt, read: int, skipped: int
) -> None:
    """The log is cut at 20 after 30 messages were read, and continues to 35 before the halt is resolved."""
    pipeline = filled(world)
    world.rows(
        "UPDATE tidegate.source_position SET next_offset = 30 WHERE pipeline = %s AND partition = 0", pipeline.name
    )
    more = "UPDATE tidegate.batch_range SET until_offset = 30, leader_epoch = NULL WHERE topic = %s AND partition = 0"
    world.rows(more, pipeline.contract.topic)
    assert halted(world, pipeline) == "log_truncated"
    world.send(pipeline, transfers(15, 500), partition=0)
    with pytest.raises(BadInput, match=r"(?s)at offset 20 and then written to again.*--from cut .*--from position "):
        decide(world, pipeline)
    settle(world, pipeline, decide(world, pipeline, start))
    (batch,) = world.drain(pipeline)
    assert batch.messages == read
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report
    assert (report.messages, report.skipped) == (80 + read, skipped)


@pytest.mark.longest
def test_a_log_of_which_nothing_that_was_read_is_missing_goes_on_where_it_was(world: World) -> None:
    pipeline = filled(world)
    world.send(pipeline, transfers(8, 500))
    led_by_an_unheard_of_leader(world, pipeline, partition=1)
    with pytest.raises(Halt, match="log_truncated"):
        play(world, pipeline, led_later)
    broker = LedLater(KafkaBroker(world.endpoints.kafka_options()))
    decided = decide(world, pipeline, broker=broker)
    assert decided.explanation.startswith("Everything that was read is still in the log")
    settle(world, pipeline, decided)
    (batch,) = world.drain(pipeline)
    assert (batch.messages, world.position(pipeline)) == (8, dict.fromkeys(range(4), 22))
    assert verify(pipeline, world.endpoints, world.spark).ok


@pytest.mark.longest
def test_a_halt_of_an_older_version_for_a_missing_partition_forgets_nothing(world: World) -> None:
    pipeline = filled(world)
    world.rows(
        "UPDATE tidegate.pipeline SET state = 'halted', halt_code = 'partition_missing',"
        " halt_detail = '{\"partitions\": [1]}' WHERE name = %s",
        pipeline.name,
    )
    decided = decide(world, pipeline)
    assert decided.steps == ()
    settle(world, pipeline, decided)
    (batch,) = world.send_and_drain(pipeline, transfers(8, 500))
    assert batch.messages == 8
    assert verify(pipeline, world.endpoints, world.spark).ok


@pytest.mark.longest
def test_a_topic_that_was_read_before_goes_on_where_that_ended(world: World) -> None:
    """Renamed, and renamed back: from its beginning, it would be in the tables twice."""
    first = filled(world)
    second = replace(first, contract=replace(first.contract, topic=f"{first.contract.topic}.v2"))
    world.create_topic(second.contract.topic)
    world.send(second, transfers(8, 500))
    for pipeline in (second, first):
        assert halted(world, pipeline) == "topic_changed"
        with pytest.raises(BadInput, match="were filled from topic"):
            verify(pipeline, world.endpoints, world.spark)
        settle(world, pipeline, decide(world, pipeline, "beginning"))
        world.send(first, transfers(4, 600))
        world.drain(pipeline)
    assert len(world.table(first)) == 2 * (80 + 8 + 8)
    report = verify(first, world.endpoints, world.spark)
    assert report.ok, report


@pytest.mark.slow
def test_a_log_that_was_truncated_and_then_left_goes_on_at_the_position_where_it_was_left(world: World) -> None:
    """It was read up to 30, truncated at 20, and read again up to 25: the batch up to 30 counts no longer."""
    first = filled(world)
    for table, column, of in (("source_position", "next_offset", "pipeline"), ("batch_range", "until_offset", "topic")):
        world.rows(f"UPDATE tidegate.{table} SET {column} = 30 WHERE {of} = %s AND partition = 0", first.name)
    assert halted(world, first) == "log_truncated"
    settle(world, first, decide(world, first))
    world.send_and_drain(first, transfers(5, 500), partition=0)
    second = replace(first, contract=replace(first.contract, topic=f"{first.contract.topic}.v2"))
    world.create_topic(second.contract.topic)
    assert halted(world, second) == "topic_changed"
    settle(world, second, decide(world, second, "beginning"))
    world.send(first, transfers(10, 600), partition=0)
    assert halted(world, first) == "topic_changed"
    decided = decide(world, first, "beginning")
    assert {step.partition: step.becomes and step.becomes.next_offset for step in decided.steps}[0] == 25
    settle(world, first, decided)
    (batch,) = world.drain(first)
    assert batch.messages == 10
    report = verify(first, world.endpoints, world.spark)
    assert report.ok, report


@pytest.mark.slow
def test_what_is_no_longer_as_it_was_shown_is_not_done(world: World) -> None:
    pipeline = world.new_pipeline("accumulate", dead_letter_share=0.1, dead_letter_minimum=5)
    world.send(pipeline, [b"bad"] * 10)
    assert halted(world, pipeline) == "too_many_dead_letters"
    decided = decide(world, pipeline)
    assert decided.fingerprint == decide(world, pipeline).fingerprint
    settle(world, pipeline, decided)
    with pytest.raises(Retryable, match="has changed since this was shown"):
        settle(world, pipeline, decided)
    assert len(world.rows("SELECT * FROM tidegate.settlement WHERE pipeline = %s", pipeline.name)) == 1


@pytest.mark.slow
def test_what_was_shown_is_done_although_producers_go_on_writing(world: World) -> None:
    """The log now ends below a planned batch, and the explanation names its current end."""
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as context:
        assert plan_batch(pipeline.contract, context)
        context.ledger.halt(KeepsFailing(10, "LedgerAway", "canceling statement due to statement timeout"))
    # The broker cannot be made to lose its tail here: the batch is to read ten more messages than there are.
    longer = "jsonb_set(pending, '{ranges,0,until_offset}', '20')"
    world.rows(f"UPDATE tidegate.pipeline SET pending = {longer} WHERE name = %s", pipeline.name)
    shown = decide(world, pipeline)
    world.send(pipeline, transfers(4, 500), partition=0)
    now = decide(world, pipeline)
    assert "partition 0 [10, 20)" in shown.explanation
    assert "partition 0 [14, 20)" in now.explanation
    assert now.fingerprint == shown.fingerprint
    assert replace(now, steps=()).fingerprint != shown.fingerprint
    settle(world, pipeline, now)
    assert sum(batch.messages for batch in world.drain(pipeline)) == 44
