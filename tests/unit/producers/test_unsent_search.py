"""The messages that can be looked for in a log, and the ranges: never less than they may be in."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.offsets import PartitionView, TopicView
from platform_defs.producers.undelivered import LogEnds
from platform_defs.producers.unsent.ledger import UnsentLog
from platform_defs.producers.unsent.search import ranges, refusal

BEFORE = LogEnds("t", "cluster", "topic", (5, 10))
NOW = TopicView(
    "t", "cluster", "topic", {0: PartitionView(5, 8, high=9), 1: PartitionView(0, 10), 2: PartitionView(0, 3)}
)


def code_of(now: TopicView, *, blind: bool = False) -> str | None:
    found = refusal(UnsentLog(BEFORE, blind), now)
    return found and found.code


def partition(number: int, view: PartitionView) -> TopicView:
    return replace(NOW, partitions={**NOW.partitions, number: view})


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (NOW, None),
        (replace(NOW, cluster_id="another", topic_id="another"), "other_cluster"),
        (replace(NOW, topic_id="another"), "topic_recreated"),
        (partition(0, PartitionView(6, 8)), "retention_passed"),
        (partition(2, PartitionView(1, 3)), "retention_passed"),
        (partition(1, PartitionView(0, 9)), "log_truncated"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(now: TopicView, code: str | None) -> None:
    assert code_of(now) == code


def test_without_an_id_nothing_can_be_looked_for() -> None:
    assert code_of(NOW, blind=True) == "no_id"


def test_partitions_are_read_from_their_ends_and_those_added_since_from_the_beginning() -> None:
    found = {part.partition: (part.from_offset, part.until_offset) for part in ranges([BEFORE], NOW)}
    assert found == {0: (5, 9), 2: (0, 3)}


def test_in_a_topic_created_again_all_is_read() -> None:
    now = replace(NOW, topic_id="another")
    assert {(part.partition, part.from_offset) for part in ranges([BEFORE], now)} == {(0, 5), (1, 0), (2, 0)}


def test_all_is_read_for_messages_of_which_some_were_meant_for_the_topic_before() -> None:
    """A newer message of a key of theirs may be anywhere in it."""
    found = ranges([BEFORE, replace(BEFORE, topic_id="earlier")], NOW)
    assert {(part.partition, part.from_offset) for part in found} == {(0, 5), (1, 0), (2, 0)}


ENDS = st.lists(st.integers(0, 20), max_size=3)
HELD = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=3)


@given(st.lists(ENDS, min_size=1, max_size=4), HELD)
def test_every_offset_behind_any_of_the_ends_is_read(ends: list[list[int]], held: list[tuple[int, int]]) -> None:
    views = {number: PartitionView(low, low + length) for number, (low, length) in enumerate(held)}
    read = {
        (part.partition, offset)
        for part in ranges([replace(BEFORE, end_offsets=tuple(one)) for one in ends], replace(NOW, partitions=views))
        for offset in range(part.from_offset, part.until_offset)
    }
    behind = {
        (number, offset)
        for one in ends
        for number, view in views.items()
        for offset in range(max(view.low, one[number] if number < len(one) else 0), view.end)
    }
    assert behind == read
