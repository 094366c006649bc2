"""Speculative batches, staged while another one is audited and published: the tables are the same, whatever happens."""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import Budget, RunContext
from platform_defs.engine.interfaces.source_and_staging import Source
from platform_defs.engine.job.job_limit import JobLimit
from platform_defs.errors import Fenced, GateFailed, Halt
from platform_defs.formats.blocks.block import Block
from platform_defs.ledger.published import Published
from platform_defs.offsets import OffsetRange
from tests.chaos.moments import before_the_publication
from tests.chaos.postgres.tables import with_impossible_sum
from tests.support.kafka.logs import create_again
from tests.support.staged_ahead import batch_by_batch, staged_ahead, wait_until_staged
from tests.support.waiting import wait_for, within
from tests.support.world import World, transfer, transfers

SIZE = 100  # messages per batch
ONE_BY_ONE = Budget(ahead=False)


@pytest.fixture
def adopted(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """Return a function that counts the adopted speculative batches."""
    caplog.set_level(logging.INFO, "platform_defs.engine.prefetch")
    return lambda: sum("was staged while" in record.getMessage() for record in caplog.records)


def backlog(world: World, batches: int, **limits: Any) -> Pipeline:
    pipeline = world.new_pipeline(batch_messages=SIZE, **limits)
    world.send(pipeline, transfers(batches * SIZE))
    return pipeline


def nothing_is_left(world: World, pipeline: Pipeline) -> bool:
    threads = [one.name for one in threading.enumerate() if one.name.startswith(f"ahead of {pipeline.name}")]
    return not threads and not world.rows("select * from tidegate.staging where pipeline = %s", pipeline.name)


def outcome(world: World, pipeline: Pipeline) -> Any:
    tables = [world.table(pipeline, number) for number in range(len(pipeline.contract.tables))]
    letters = [(one["partition"], one["offset"], one["value"]) for one in world.dead_letters(pipeline)]
    return tables, letters, world.position(pipeline)


@pytest.mark.longest
def test_a_backlog_becomes_the_same_tables_and_each_batch_but_the_first_is_staged_ahead(
    world: World, adopted: Callable[[], int]
) -> None:
    pipeline, alone = backlog(world, 4), backlog(world, 4)
    batches = world.drain(pipeline)
    assert [batch.messages for batch in batches] == [SIZE] * 4
    assert adopted() == 3
    assert [set(batch.timings) for batch in batches] == [{"plan", "stage", "audit", "publish"}] * 4
    assert nothing_is_left(world, pipeline)
    assert [batch.messages for batch in world.drain(alone, ONE_BY_ONE)] == [SIZE] * 4
    assert adopted() == 3
    assert outcome(world, pipeline) == outcome(world, alone)
    tables = world.rows("select * from tidegate.staging_table where pipeline = %s", pipeline.name)
    assert len(tables) == 2


@pytest.mark.longest
def test_a_trickle_is_cut_into_no_more_batches(world: World, adopted: Callable[[], int]) -> None:
    pipeline = backlog(world, 1)
    world.send(pipeline, transfers(SIZE // 2 - 10, start=SIZE))
    with batch_by_batch(world, pipeline) as batches:
        assert next(batches).messages == SIZE
        assert staged_ahead(world, pipeline) == []
        world.send(pipeline, transfers(10, start=SIZE * 2))
        assert [batch.messages for batch in batches] == [SIZE // 2]
    assert adopted() == 0


@pytest.mark.longest
def test_a_budget_that_is_spent_has_nothing_staged_in_vain(world: World, adopted: Callable[[], int]) -> None:
    pipeline = backlog(world, 4)
    assert len(world.drain(pipeline, Budget(batches=2))) == 2
    assert adopted() == 1
    assert len(world.drain(pipeline, Budget(seconds=0.0))) == 1
    assert adopted() == 1


@pytest.mark.longest
def test_what_is_staged_belongs_to_no_batch_until_the_one_before_has_committed(world: World) -> None:
    pipeline = backlog(world, 2)
    seen: list[Any] = []

    def look() -> None:
        wait_until_staged(world, pipeline)
        seen.append(world.rows("select pending from tidegate.pipeline where name = %s", pipeline.name)[0]["pending"])

    with batch_by_batch(world, pipeline, before_the_publication(look)) as batches:
        first = next(batches)
        assert seen[0]["batch_id"] == first.batch_id
        assert world.rows("select pending from tidegate.pipeline where name = %s", pipeline.name) == [{"pending": None}]
        wait_until_staged(world, pipeline)  # the sweep has kept it
    assert nothing_is_left(world, pipeline)
    assert world.position(pipeline) == dict.fromkeys(range(4), SIZE // 4)


@pytest.mark.longest
def test_a_position_that_moved_in_between_is_read_from_where_it_is(world: World, adopted: Callable[[], int]) -> None:
    pipeline = backlog(world, 3)
    with batch_by_batch(world, pipeline) as batches:
        next(batches)
        wait_until_staged(world, pipeline)
        world.rows(
            "update tidegate.source_position set next_offset = next_offset + 1 where pipeline = %s and partition = 2",
            pipeline.name,
        )
        second, third = batches
    assert second.messages + third.messages == 2 * SIZE - 1
    assert min(span.from_offset for span in second.ranges if span.partition == 2) == SIZE // 4 + 1
    assert adopted() == 1  # the third
    assert nothing_is_left(world, pipeline)


@pytest.mark.slow
def test_a_topic_that_is_created_again_in_between_halts_and_nothing_of_it_is_published(world: World) -> None:
    pipeline = backlog(world, 2)
    with batch_by_batch(world, pipeline) as batches:
        next(batches)
        wait_until_staged(world, pipeline)
        create_again(world, pipeline, transfers(2 * SIZE, start=7))
        with pytest.raises(Halt) as halt:
            next(batches)
    assert halt.value.code == "topic_recreated"
    assert nothing_is_left(world, pipeline)
    assert len(world.table(pipeline)) == 2 * SIZE


@pytest.mark.longest
def test_a_batch_that_fails_a_check_takes_what_is_staged_ahead_with_it(
    world: World, adopted: Callable[[], int]
) -> None:
    pipeline = backlog(world, 3)
    red = with_impossible_sum(pipeline)
    with pytest.raises(GateFailed):
        world.drain(red)
    assert staged_ahead(world, pipeline) == []
    assert world.table(pipeline) == []
    assert [batch.messages for batch in world.drain(pipeline)] == [SIZE] * 3
    assert adopted() == 0  # the first had failed before, and nothing is prefetched in that turn


@pytest.mark.slow
def test_a_halt_takes_what_is_staged_ahead_with_it(world: World) -> None:
    pipeline = world.new_pipeline(batch_messages=SIZE, dead_letter_minimum=10, dead_letter_share=0.1)
    world.send(pipeline, [b"garbage"] * SIZE + transfers(SIZE))
    with pytest.raises(Halt) as halt:
        world.drain(pipeline)
    assert halt.value.code == "too_many_dead_letters"
    assert staged_ahead(world, pipeline) == []
    assert world.ledger.status(pipeline.name).state == "halted"


def dividing(transform: Any) -> Callable[[DataFrame], DataFrame]:
    """Fail on the message whose memo is `poison`."""
    amount = F.expr("if(memo = 'poison', cast(amount / (amount - amount) as decimal(18, 2)), amount)")
    return lambda messages: transform(messages.withColumn("amount", amount))


@pytest.mark.longest
def test_a_message_on_which_the_transform_fails_ahead_is_found_in_its_own_batch(world: World) -> None:
    pipeline = backlog(world, 1)
    pipeline = replace(pipeline, transform=dividing(pipeline.transform))
    first, second = world.send_and_drain(pipeline, [*transfers(SIZE - 1, start=SIZE), transfer(7_000, memo="poison")])
    assert (first.messages, first.dead_letters, second.messages, second.dead_letters) == (SIZE, 0, SIZE, 1)
    (letter,) = world.dead_letters(pipeline)
    assert (letter["stage"], letter["batch_id"]) == ("transform", second.batch_id)
    assert nothing_is_left(world, pipeline)


TRIES = 4  # per task


@dataclass(frozen=True)
class Failing:
    """The real source, which fails on offsets from `start` on until it has failed a job; `failed` grows each time."""

    real: Source
    start: int
    failed: Path

    def read(self, wanted: OffsetRange, cluster_id: str | None = None) -> Iterator[Block]:
        if wanted.from_offset >= self.start and not self.over():
            with self.failed.open("a") as file:
                file.write("!")
            raise RuntimeError("not yet")
        yield from self.real.read(wanted, cluster_id)

    def over(self) -> bool:
        return self.failed.exists() and len(self.failed.read_text()) >= TRIES


@pytest.mark.longest
def test_a_guess_that_fails_fails_alone_and_counts_against_no_batch(
    world: World, adopted: Callable[[], int], tmp_path: Path
) -> None:
    pipeline = backlog(world, 3)

    def change(context: RunContext) -> RunContext:
        source = Failing(context.source, SIZE // 4, tmp_path / "failed")
        return before_the_publication(lambda: wait_for(source.over))(replace(context, source=source))

    with batch_by_batch(world, pipeline, change) as batches:
        assert [batch.messages for batch in batches] == [SIZE] * 3
    assert adopted() == 0  # nor is a third one prefetched after that
    counted = "select failed_tries, batch_failures from tidegate.pipeline where name = %s"
    assert world.rows(counted, pipeline.name) == [{"failed_tries": 0, "batch_failures": 0}]
    assert nothing_is_left(world, pipeline)


def sleeping(seconds: float) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def sleep(batches: Iterator[Any]) -> Iterator[Any]:

        time.sleep(seconds)  # as one would wait for a lookup's server
        yield from batches

    return sleep


@pytest.mark.longest
def test_a_job_of_the_transform_itself_cannot_hold_the_batch_before_longer_than_the_limit(
    world: World, adopted: Callable[[], int]
) -> None:
    world.caught_up()  # Spark is warm
    pipeline, calls = backlog(world, 2), list[int]()
    spark, transform = world.spark(), pipeline.transform
    assert transform

    def asking_first(messages: DataFrame) -> DataFrame:
        if not calls and staged_ahead(world, pipeline):  # called for the prefetch, not for the batch before
            calls.append(1)
            spark.range(0, 1, 1, 1).mapInArrow(sleeping(600.0), "id bigint").collect()
        return transform(messages)

    limited = partial(replace, limit=JobLimit(seconds=15.0))
    asked_first = replace(pipeline, transform=asking_first)
    with within(60), batch_by_batch(world, asked_first, limited) as batches:
        assert [batch.messages for batch in batches] == [SIZE] * 2
    assert calls
    assert adopted() == 0
    counted = "select failed_tries, batch_failures from tidegate.pipeline where name = %s"
    assert world.rows(counted, pipeline.name) == [{"failed_tries": 0, "batch_failures": 0}]
    assert nothing_is_left(world, pipeline)


@pytest.mark.longest
def test_a_run_that_is_overtaken_publishes_nothing_of_what_it_staged_ahead(world: World) -> None:
    pipeline, second = backlog(world, 3), list[Published]()
    with batch_by_batch(world, pipeline) as batches:
        next(batches)
        wait_until_staged(world, pipeline)
        second += world.drain(pipeline)
        with pytest.raises(Fenced):
            next(batches)
    assert [batch.messages for batch in second] == [SIZE] * 2
    assert len(world.table(pipeline)) == 2 * 3 * SIZE
    assert nothing_is_left(world, pipeline)


@dataclass(frozen=True)
class Endless:
    """The real source, which never reaches the end of a range that begins at `start`."""

    real: Source
    start: int

    def read(self, wanted: OffsetRange, cluster_id: str | None = None) -> Iterator[Block]:

        while wanted.from_offset >= self.start:
            time.sleep(0.1)  # until Spark ends this task
        yield from self.real.read(wanted, cluster_id)


@pytest.mark.longest
def test_a_job_that_is_staging_ahead_ends_with_its_run(world: World) -> None:
    pipeline = backlog(world, 2)
    with batch_by_batch(world, pipeline, lambda out: replace(out, source=Endless(out.source, SIZE // 4))) as batches:
        next(batches)
        assert staged_ahead(world, pipeline)
        batches.close()
        assert nothing_is_left(world, pipeline)
    tracker: Any = world.spark().sparkContext.statusTracker()
    wait_for(lambda: not tracker.getActiveStageIds())
    assert [batch.messages for batch in world.drain(pipeline)] == [SIZE]


@pytest.mark.longest
def test_no_thread_of_spark_is_left_of_what_was_staged_ahead(world: World, adopted: Callable[[], int]) -> None:
    """PySpark pins a thread of the JVM to each of Python's."""
    jvm: Any = world.spark().sparkContext._jvm

    def threads() -> int:
        gc.collect()
        found = jvm.java.lang.Thread.getAllStackTraces().keySet()
        return sum(str(one.getName()).startswith("Thread-") for one in found)

    world.drain(backlog(world, 2))
    before = threads()
    for _ in range(4):
        world.drain(backlog(world, 2))
    assert adopted() == 5
    wait_for(lambda: threads() <= before)
