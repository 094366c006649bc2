"""The plan of a batch, decided without any system: a run executes it and `tidegate plan` shows it."""

from dataclasses import replace

import pytest

from platform_defs.contract.model.contract import Contract
from platform_defs.engine.plan.planning import decide
from platform_defs.errors import BadInput, Halt
from platform_defs.offsets import OffsetRange, PartitionView, PendingBatch, Position, TopicView
from platform_defs.settings.contracts import find_pipeline


def contract_of(pipeline: str, batch_messages: int = 100) -> Contract:
    contract = find_pipeline(pipeline).contract
    return replace(contract, limits=replace(contract.limits, batch_messages=batch_messages))


def view_of(*held: tuple[int, int]) -> TopicView:
    return TopicView("t", "cluster", "log", {n: PartitionView(*place) for n, place in enumerate(held)})


def at(partition: int, offset: int, seen_end: int | None = None) -> Position:
    return Position(partition, "cluster", "log", offset, seen_end=seen_end)


def test_a_new_pipeline_adds_every_partition_and_reads_it_from_its_low_watermark() -> None:
    plan = decide(contract_of("bank_transfers"), [], None, view_of((2, 7), (0, 3)))
    assert [(item.partition, item.next_offset) for item in plan.added] == [(0, 2), (1, 0)]
    assert [(item.partition, item.from_offset, item.until_offset) for item in plan.ranges] == [(0, 2, 7), (1, 0, 3)]
    assert (plan.offsets, plan.lag, plan.left) == (8, {0: 5, 1: 3}, {0: 0, 1: 0})


def test_a_pending_batch_is_the_plan_whatever_came_after_it() -> None:
    pending = PendingBatch(9, "cluster", "log", (OffsetRange("t", 0, 0, 4),))
    plan = decide(contract_of("bank_transfers"), [at(0, 0)], pending, view_of((0, 7), (0, 5)))
    assert (plan.pending, plan.ranges, plan.added) == (pending, pending.ranges, ())
    assert (plan.lag, plan.left) == ({0: 7, 1: 5}, {0: 3, 1: 5})


def test_what_a_batch_may_not_hold_is_left() -> None:
    plan = decide(contract_of("bank_transfers", 10), [at(0, 5), at(1, 0)], None, view_of((0, 20), (0, 5)))
    assert (plan.offsets, sum(plan.lag.values()), sum(plan.left.values())) == (9, 20, 11)


def test_an_upsert_notes_where_the_others_end_and_lets_the_added_partition_wait() -> None:
    plan = decide(contract_of("crm_customers"), [at(0, 3, 3), at(1, 0)], None, view_of((0, 7), (0, 0), (0, 4)))
    assert [(item.partition, item.seen_end) for item in plan.positions] == [(0, 7), (1, 0), (2, None)]
    assert ([item.partition for item in plan.ranges], plan.waiting) == ([0], (2,))
    again = decide(contract_of("crm_customers"), [at(0, 7, 7), *plan.positions[1:]], None, plan.view)
    assert ([item.partition for item in again.ranges], again.waiting, again.added) == ([2], (), ())


def test_an_upsert_adds_no_partition_while_others_wait_for_the_old_ones() -> None:
    """A key may have moved from partition 0 to 1 and from there to 3: each is read to its end before the next."""
    view = view_of((0, 7), (0, 5), (0, 4), (0, 2))
    draining = decide(contract_of("crm_customers"), [at(0, 3, 7), at(1, 0)], None, view)
    assert ([item.partition for item in draining.ranges], draining.added) == ([0], ())
    assert (draining.waiting, sum(draining.lag.values())) == ((1, 2, 3), 15)
    drained = decide(contract_of("crm_customers"), [at(0, 7, 7), at(1, 0)], None, view)
    assert ([item.partition for item in drained.ranges], drained.waiting) == ([1], (2, 3))
    assert [(item.partition, item.seen_end) for item in drained.positions] == [(0, 7), (1, 5), (2, None), (3, None)]


def test_an_upsert_adds_at_most_as_many_partitions_as_it_has() -> None:
    """The count was doubled twice or more since the last run: a key may have moved from 0 to 1 to 3 to 7."""
    view, positions, read = view_of((0, 9), *[(0, 2)] * 7), [at(0, 9, 7)], []
    while any(decide(contract_of("crm_customers"), positions, None, view).lag.values()):
        plan = decide(contract_of("crm_customers"), positions, None, view)
        read.append([item.partition for item in plan.ranges])
        until = {item.partition: item.until_offset for item in plan.ranges}
        positions = [replace(item, next_offset=until.get(item.partition, item.next_offset)) for item in plan.positions]
    assert read == [[1], [2, 3], [4, 5, 6, 7]]


def test_an_append_reads_old_and_added_partitions_together() -> None:
    plan = decide(contract_of("web_page_views"), [at(0, 3, 3)], None, view_of((0, 7), (0, 4)))
    assert ([item.partition for item in plan.ranges], plan.waiting) == ([0, 1], ())


def test_an_added_partition_that_lost_messages_before_it_was_seen_is_stored_and_then_halts() -> None:
    plan = decide(contract_of("bank_transfers"), [at(0, 3)], None, view_of((0, 3), (2, 4)))
    assert ([item.partition for item in plan.added], plan.ranges) == ([1], ())
    assert plan.halt is not None
    assert plan.halt.detail.to_json() == {"ranges": [{"partition": 1, "from_offset": 0, "until_offset": 2}]}


def test_a_halt_of_what_is_known_is_raised_and_nothing_is_to_be_stored() -> None:
    with pytest.raises(Halt, match="retention_passed"):
        decide(contract_of("bank_transfers"), [at(0, 3)], None, view_of((5, 9), (0, 4)))


def test_a_topic_that_compacts_does_not_suit_a_table_that_appends() -> None:
    compacted = replace(view_of((0, 3)), compacted=True)
    with pytest.raises(BadInput, match="is compacted"):
        decide(contract_of("bank_transfers"), [], None, compacted)
    assert decide(contract_of("crm_customers"), [], None, compacted).offsets == 3
