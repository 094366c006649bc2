"""The offsets that `tidegate peek` reads, and its turns."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.errors import BadInput
from platform_defs.kafka.observed import check_partitions
from platform_defs.messages.peek import PART, no_leader, starts_at, turns
from platform_defs.offsets import OffsetRange, PartitionView

HELD = {0: PartitionView(10, 20, high=25), 1: PartitionView(0, 50), 2: PartitionView(7, 7)}


@given(
    ends=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=5),
    first=st.one_of(st.none(), st.integers(1, 10**6)),
)
def test_turns_read_each_offset_once_and_in_order_and_not_too_many_at_once(
    ends: list[tuple[int, int]], first: int | None
) -> None:
    ranges = [OffsetRange("t", n, min(pair), max(pair)) for n, pair in enumerate(ends)]
    taken = list(turns(ranges, first))
    assert all(sum(map(len, turn)) <= PART for turn in taken)
    for whole in ranges:
        parts = [part for turn in taken for part in turn if part.partition == whole.partition]
        assert all(one.until_offset == next_.from_offset for one, next_ in pairwise(parts))
        spans = [(part.from_offset, part.until_offset) for part in parts]
        assert not spans if not len(whole) else (spans[0][0], spans[-1][1]) == (whole.from_offset, whole.until_offset)


def test_the_first_turn_reads_no_more_than_is_shown() -> None:
    ranges = [OffsetRange("t", n, 0, 1_000_000) for n in range(2)]
    (one, two), (three, _), *_ = turns(ranges, 20)
    assert (one.until_offset, two.until_offset, len(three)) == (20, 20, 40)


def test_partitions_that_are_not_there_are_named_with_those_that_are() -> None:
    assert check_partitions("t", [0, 1, 2], []) == (0, 1, 2)
    assert check_partitions("t", [0, 1, 2], [2, 0, 2]) == (0, 2)
    with pytest.raises(BadInput, match="t has no partition 3; it has partitions 0 to 2"):
        check_partitions("t", [0, 1, 2], [3])
    with pytest.raises(BadInput, match="it has partition 0 alone"):
        check_partitions("t", [0], [1])


def test_an_offset_outside_a_partition_is_refused_with_the_range_that_is_there() -> None:
    starts, others = starts_at("t", HELD, 15, chosen=False, follows=False)
    assert starts == {0: 15, 1: 15}
    assert others == "offset 15 is not in every partition of t: partition 2 holds no message"
    with pytest.raises(BadInput, match="offset 15 is not in t: partition 2 holds no message"):
        starts_at("t", HELD, 15, chosen=True, follows=False)
    with pytest.raises(
        BadInput, match=r"partition 0 holds offsets 10 to 19 \(20 to 24 belong to an open transaction\)"
    ):
        starts_at("t", HELD, 60, chosen=False, follows=False)
    assert starts_at("t", {1: HELD[1]}, 50, chosen=True, follows=True) == ({1: 50}, None)
    with pytest.raises(BadInput, match="partition 1 holds offsets 0 to 49"):
        starts_at("t", {1: HELD[1]}, 50, chosen=True, follows=False)


def test_partitions_without_a_leader_are_named_with_the_way_to_read_others() -> None:
    assert no_leader("t", [1], [0, 1, 2]) == (
        "partition 1 of t cannot be read, because no leader answers. To read others: --partition 0 --partition 2"
    )
    assert no_leader("t", [0], [0]).endswith("no leader answers")
