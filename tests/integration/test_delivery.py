"""at_least_once and at_most_once where their two transactions go wrong: what is reported, and what is refused."""

from dataclasses import replace

import pytest

from platform_defs.contract.model import Delivery
from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput, Halt, LedgerAway, RowsLost
from platform_defs.verification.verify import verify
from tests.chaos.proxy import CommitCutter, When
from tests.world import World, transfer, transfers


def delivering(world: World, delivery: Delivery) -> Pipeline:
    made = world.new_pipeline()
    return Pipeline(replace(made.contract, delivery=delivery), made.transform)


def cut(world: World, pipeline: Pipeline, when: When, nth: int) -> None:
    """A run whose connection is cut at its `nth` publishing COMMIT."""
    with CommitCutter(world.endpoints.postgres_url, when, nth=nth) as cutter:
        replace(world, endpoints=replace(world.endpoints, postgres_url=cutter.url)).drain(pipeline)


@pytest.mark.slow
def test_at_most_once_says_that_rows_are_lost_when_their_commit_is(world: World) -> None:
    pipeline = delivering(world, "at_most_once")
    world.send(pipeline, transfers(8))
    world.drain(pipeline)
    world.send(pipeline, transfers(8))
    with pytest.raises(RowsLost, match="its 16 rows were not written and cannot be"):
        cut(world, pipeline, "before", 2)
    world.drain(pipeline)
    report = verify(pipeline, world.endpoints, world.spark)
    assert (report.lost, report.duplicated) == (8, 0)


def test_at_least_once_does_not_take_rows_for_published_whose_commit_went_unanswered(world: World) -> None:
    pipeline = delivering(world, "at_least_once")
    world.send(pipeline, transfers(8))
    with pytest.raises(LedgerAway, match="it is unknown whether they were committed"):
        cut(world, pipeline, "after", 1)
    world.drain(pipeline)
    report = verify(pipeline, world.endpoints, world.spark)
    assert (report.lost, report.duplicated) == (0, 8)


def test_at_least_once_finds_offsets_committed_whose_commit_went_unanswered(world: World) -> None:
    pipeline = delivering(world, "at_least_once")
    world.send(pipeline, transfers(8))
    cut(world, pipeline, "after", 2)
    assert verify(pipeline, world.endpoints, world.spark).ok


@pytest.mark.slow
def test_at_most_once_asks_every_table_before_the_offsets_move(world: World) -> None:
    pipeline = delivering(world, "at_most_once")
    world.drain(pipeline)
    world.rows(f"alter table {pipeline.contract.accumulates[0].name} add constraint poor check (balance < 100)")
    world.rows(f"alter table {pipeline.contract.row_table.name} add constraint small check (amount < 50)")
    world.send(pipeline, [transfer(1, "60.00"), transfer(2, "40.00")])
    world.drain(pipeline)
    assert [row["stage"] for row in world.dead_letters(pipeline)] == ["publish"]
    world.send(pipeline, [transfer(number, "40.00") for number in range(3, 8)])
    before = world.position(pipeline)
    with pytest.raises(Halt) as halt:
        world.drain(pipeline)
    assert (halt.value.code, world.position(pipeline)) == ("accumulate_refused", before)


def test_at_least_once_is_refused_for_a_table_that_takes_a_row_only_once(world: World) -> None:
    pipeline = delivering(world, "at_least_once")
    world.drain(pipeline)
    world.rows(f"create unique index once on {pipeline.contract.row_table.name} (_partition, _offset, account)")
    with pytest.raises(BadInput, match="has a unique or exclusion constraint"):
        world.drain(pipeline)


def test_at_least_once_is_refused_for_an_upsert_in_which_two_keys_can_collide(world: World) -> None:
    """Written again after a crash, its own later rows would refuse its earlier messages."""
    pipeline = world.new_pipeline("upsert")
    pipeline = Pipeline(replace(pipeline.contract, delivery="at_least_once"), pipeline.transform)
    world.drain(pipeline)  # _key alone is no other constraint
    world.rows(f"alter table {pipeline.contract.row_table.name} add unique (customer_id)")
    with pytest.raises(
        BadInput, match=r"has another unique or exclusion constraint.*customer_id.*delivery: exactly_once"
    ):
        world.drain(pipeline)
