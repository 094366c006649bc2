"""A batch that is cut: the same offsets, once each, in the same order in each partition."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.engine.plan.split_batch import from_positions, next_part, split_pending
from platform_defs.offsets import OffsetRange, PendingBatch, Position, whole_spans


@st.composite
def batches(draw: st.DrawFn) -> PendingBatch:
    ranges: list[OffsetRange] = []
    for partition in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, 50))
        for number, length in enumerate(draw(st.lists(st.integers(1, 500), min_size=1, max_size=3))):
            ranges.append(OffsetRange("t", partition, at, at + length, None if number else 7))
            at += length
    return PendingBatch(1, "cluster", "topic", tuple(ranges), dead_letters_accepted=draw(st.booleans()))


@pytest.mark.slow
@given(batches(), st.integers(1, 600), st.integers(1, 600))
def test_the_parts_are_the_batch(pending: PendingBatch, messages: int, later: int) -> None:
    """Also if it is cut again after some of them."""
    partitions = len({item.partition for item in pending.ranges})
    cut: list[PendingBatch] = []
    part: PendingBatch | None = split_pending(pending, messages)
    while part is not None:
        assert sum(map(len, part.ranges)) <= messages + partitions
        assert part.dead_letters_accepted == pending.dead_letters_accepted
        cut.append(PendingBatch.from_json(part.to_json()))
        if len(cut) == 2:
            break
        part = next_part(part)
    again = next_part(cut[-1])
    while again is not None:
        again = split_pending(again, later)
        cut.append(again)
        again = next_part(again)
    assert whole_spans([item for part in cut for item in part.ranges]) == whole_spans(pending.ranges)
    for one, other in pairwise(cut):
        ends = {span.partition: span.until_offset for span in whole_spans(one.ranges)}
        for span in whole_spans(other.ranges):
            assert ends.get(span.partition, span.from_offset) == span.from_offset


def test_a_part_begins_with_the_leader_epoch_of_the_position() -> None:
    pending = PendingBatch(1, "cluster", "topic", (OffsetRange("t", 0, 5, 25, 3),))
    first = split_pending(pending, 10)
    assert [(str(item), item.leader_epoch) for item in first.ranges] == [("partition 0 [5, 15)", 3)]
    following = next_part(first)
    assert following is not None
    assert [item.leader_epoch for item in following.ranges] == [None]
    at = Position(0, "cluster", "topic", 15, 4)
    assert [item.leader_epoch for item in from_positions(following.ranges, [at])] == [4]
    assert [item.leader_epoch for item in from_positions(first.ranges, [at])] == [3]
