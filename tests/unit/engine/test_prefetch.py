"""Speculative batches, and when one is the next batch: decided without any connection."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.contract.model.contract import Contract
from platform_defs.engine.plan.budget import Budget, Spent
from platform_defs.engine.plan.planning import BatchPlan, decide
from platform_defs.engine.prefetch import SpeculativeBatch, left_by, may_leave_more, plan_after
from platform_defs.errors import Halt
from platform_defs.offsets import OffsetRange, PartitionView, PendingBatch, Position, Rest, TopicView
from tests.model.runs import new_contract

LIMIT = 10


def contract(*, keyed: bool = False, **changes: Any) -> Contract:
    return replace(new_contract("t", keyed=keyed, batch_messages=LIMIT), **changes)


def seen(*ends: int, epoch: int = 3, topic_id: str = "id", cluster_id: str = "c") -> TopicView:
    return TopicView("t", cluster_id, topic_id, {n: PartitionView(0, end, epoch) for n, end in enumerate(ends)})


def at(*offsets: int) -> list[Position]:
    return [Position(n, "c", "id", offset, 3, None, "t") for n, offset in enumerate(offsets)]


def pending(plan: BatchPlan, number: int = 7) -> PendingBatch:
    return PendingBatch(number, plan.view.cluster_id, plan.view.topic_id, plan.ranges)


def guessed(view: TopicView) -> tuple[SpeculativeBatch, list[Position]]:
    """Return the speculative batch after a first batch of two partitions, and the positions after that one."""
    first = pending(decide(contract(), at(0, 0), None, view))
    plan = plan_after(contract(), first, at(0, 0), view)
    assert plan is not None
    return SpeculativeBatch(pending(plan, 8), plan.positions), left_by(first, at(0, 0))


def test_a_guess_begins_where_the_batch_before_ends() -> None:
    speculative, positions = guessed(seen(20, 20))
    assert [(span.partition, span.from_offset) for span in speculative.batch.ranges] == [(0, 5), (1, 5)]
    assert [(one.next_offset, one.leader_epoch, one.seen_end) for one in positions] == [(5, 3, 5), (5, 3, 5)]


def test_a_guess_is_the_next_batch_though_more_has_come_since() -> None:
    speculative, positions = guessed(seen(20, 20))
    assert speculative.is_next(decide(contract(), positions, None, seen(99, 70)))


@pytest.mark.parametrize(
    "view",
    [seen(20, 20, epoch=4), seen(20, 20, 5), seen(9, 20)],
    ids=["another leader", "a new partition", "an end below it"],
)
def test_a_guess_is_not_the_next_batch_of_another_view(view: TopicView) -> None:
    speculative, positions = guessed(seen(20, 20))
    assert not speculative.is_next(decide(contract(), positions, None, view))


def test_a_guess_is_not_the_next_batch_from_other_positions_or_of_another_log() -> None:
    speculative, positions = guessed(seen(20, 20))
    moved = [replace(positions[0], next_offset=6), positions[1]]
    assert not speculative.is_next(decide(contract(), moved, None, seen(20, 20)))
    for view in (seen(20, 20, topic_id="other"), seen(20, 20, cluster_id="other")):
        elsewhere = [replace(one, cluster_id=view.cluster_id, topic_id=view.topic_id) for one in positions]
        assert not speculative.is_next(decide(contract(), elsewhere, None, view))
        with pytest.raises(Halt):
            decide(contract(), positions, None, view)


def test_a_guess_is_not_the_next_batch_while_one_is_pending() -> None:
    speculative, positions = guessed(seen(20, 20))
    plan = decide(contract(), positions, None, seen(20, 20))
    assert speculative.is_next(plan)
    assert not speculative.is_next(replace(plan, pending=pending(plan)))


def test_nothing_is_guessed_that_is_small_or_not_plain() -> None:
    first = pending(decide(contract(), at(0, 0), None, seen(20, 20)))
    assert plan_after(contract(), first, at(0, 0), seen(8, 6)) is None  # fewer than half a batch
    assert plan_after(contract(), first, at(0, 0), seen(8, 7)) is not None
    assert plan_after(contract(), first, at(0, 0), seen(20, 20, 1)) is None  # a partition is to be added first
    assert may_leave_more(contract(), first)
    assert not may_leave_more(contract(publication="direct"), first)
    assert not may_leave_more(contract(), replace(first, rest=Rest(5, first.ranges)))
    small = replace(first, ranges=(OffsetRange("t", 0, 0, 2, 3, end_epoch=3),))
    assert not may_leave_more(contract(), small)  # it has read all there was


@given(st.booleans(), st.lists(st.integers(0, 30), min_size=1, max_size=4))
def test_with_nothing_in_between_a_guess_is_always_the_next_batch(keyed: bool, ends: list[int]) -> None:
    view, start = seen(*ends), at(*[0] * len(ends))
    first = pending(decide(contract(keyed=keyed), start, None, view))
    plan = plan_after(contract(keyed=keyed), first, start, view)
    if plan is not None and may_leave_more(contract(keyed=keyed), first):
        after = decide(contract(keyed=keyed), left_by(first, start), None, view)
        assert after.ranges == plan.ranges
        assert SpeculativeBatch(pending(plan), plan.positions).is_next(after)


def test_a_budget_lets_no_batch_begin_ahead_that_it_would_not_let_begin() -> None:
    spent = Spent(Budget(batches=2))
    assert spent.may_begin()
    spent.begun = 2
    assert not spent.may_begin()
    assert not spent.may_go_ahead()
    late = Spent(Budget(seconds=-1.0))
    assert late.may_begin()  # the first one
    late.begun = 1
    assert not late.may_go_ahead()
    assert not Spent(Budget(ahead=False)).may_go_ahead()
