"""The offsets to read next, from the ledger and the broker: no message skipped, none read twice."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.engine.plan.planning import first_positions, note_ends, old_before_new
from platform_defs.engine.plan.split_batch import split_pending
from platform_defs.errors import BrokerAway, Halt, Retryable, halts
from platform_defs.offsets import (
    MESSAGES_WORTH_A_TASK,
    RANGES_WORTH_A_TASK,
    OffsetRange,
    PartitionView,
    PendingBatch,
    Position,
    TopicView,
    check_positions,
    lag,
    mark_new_leaders,
    next_ranges,
    nth_offset,
    outdated,
    split,
    still_readable,
    still_there,
    tasks_for,
    whole_spans,
)

Place = tuple[int, int, int]  # low watermark, position, end


def view_of(places: list[Place], **changes: object) -> TopicView:
    held = {partition: PartitionView(low, end) for partition, (low, _, end) in enumerate(places)}
    return replace(TopicView("t", "cluster", "topic id", held), **changes)  # pyright: ignore[reportArgumentType]


def positions_of(places: list[Place]) -> list[Position]:
    return [Position(n, "cluster", "topic id", at, leader_epoch=n) for n, (_, at, _) in enumerate(places)]


def halt_of(positions: list[Position], view: TopicView) -> Halt | None:
    try:
        check_positions("p", positions, view)
    except Halt as halt:
        return halt
    return None


def ordered(numbers: tuple[int, int, int]) -> Place:
    low, at, end = sorted(numbers)
    return low, at, end


offset = st.integers(0, 300_000)
readable = st.lists(st.tuples(offset, offset, offset).map(ordered), min_size=1, max_size=6)


@given(readable, st.integers(1, 400_000), st.integers(1, 8))
def test_a_plan_starts_where_the_pipeline_is_and_never_passes_the_end(
    places: list[Place], most: int, tasks: int
) -> None:
    ranges = next_ranges(positions_of(places), view_of(places), batch_messages=most, tasks=tasks)
    for partition, (_, at, end) in enumerate(places):
        mine = [item for item in ranges if item.partition == partition]
        assert [item.from_offset for item in mine] == [at, *(item.until_offset for item in mine)][: len(mine)]
        assert all(at <= item.from_offset < item.until_offset <= end for item in mine)
        assert [item.leader_epoch for item in mine] == [partition, *[None] * len(mine)][: len(mine)]


@given(readable, st.integers(1, 400_000), st.integers(1, 8))
def test_a_plan_reads_all_there_is_or_as_much_as_a_batch_may_hold(places: list[Place], most: int, tasks: int) -> None:
    behind = lag(positions_of(places), view_of(places))
    planned = sum(map(len, next_ranges(positions_of(places), view_of(places), batch_messages=most, tasks=tasks)))
    total = sum(behind.values())
    if total <= most:
        assert planned == total
    else:  # every partition that lags gets its share, and at least one message
        assert most - len(places) < planned <= most + len(places)


@given(readable, st.integers(1, 400_000), st.integers(1, 8))
def test_every_partition_that_lags_gets_on(places: list[Place], most: int, tasks: int) -> None:
    positions, view = positions_of(places), view_of(places)
    planned = {item.partition for item in next_ranges(positions, view, batch_messages=most, tasks=tasks)}
    assert planned == {partition for partition, behind in lag(positions, view).items() if behind}


@given(offset, st.integers(1, 300_000), st.integers(1_000, 100_000))
def test_the_parts_of_a_range_are_of_one_size_and_join_without_a_seam(start: int, length: int, largest: int) -> None:
    whole = OffsetRange("t", 0, start, start + length, leader_epoch=7)
    parts = split(whole, largest)
    assert [start, *(part.until_offset for part in parts)] == [*(part.from_offset for part in parts), start + length]
    assert max(map(len, parts)) <= largest
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [part.leader_epoch for part in parts] == [7] + [None] * (len(parts) - 1)


def test_a_small_range_stays_whole_and_a_large_one_gives_each_task_its_part() -> None:
    small, large = [(0, 0, MESSAGES_WORTH_A_TASK)], [(0, 0, 10 * MESSAGES_WORTH_A_TASK)]
    assert len(next_ranges(positions_of(small), view_of(small), batch_messages=10**6, tasks=4)) == 1
    assert len(next_ranges(positions_of(large), view_of(large), batch_messages=10**6, tasks=4)) == 4


def test_nothing_is_planned_when_everything_is_read() -> None:
    places = [(0, 5, 5), (2, 9, 9)]
    assert next_ranges(positions_of(places), view_of(places), batch_messages=10, tasks=4) == ()


@given(st.lists(st.tuples(offset, offset, offset), min_size=1, max_size=5))
def test_the_log_is_judged_readable_exactly_where_it_holds_every_position(places: list[Place]) -> None:
    passed = [(n, at, low) for n, (low, at, _) in enumerate(places) if low > at]
    cut = [(n, end, at) for n, (_, at, end) in enumerate(places) if end < at]
    halt = halt_of(positions_of(places), view_of(places))
    assert (halt and halt.code) == ("retention_passed" if passed else "log_truncated" if cut else None)
    if halt:
        named = [tuple(span.values()) for span in halt.detail.to_json()["ranges"]]
        assert named == (passed or cut)


@given(readable)
def test_another_topic_or_cluster_halts_wherever_the_offsets_lie(places: list[Place]) -> None:
    positions = positions_of(places)
    recreated = halt_of(positions, view_of(places, topic_id="another"))
    assert recreated is not None
    assert recreated.detail == halts.TopicRecreated("topic id", "another")
    assert recreated.code == "topic_recreated"
    switched = halt_of(positions, view_of(places, cluster_id="another", topic_id="another"))
    assert switched is not None
    assert switched.code == "cluster_switched"


def test_an_answer_without_a_partition_that_was_read_is_stale_and_no_halt() -> None:
    """Kafka removes no partition within one topic id."""
    read, view = positions_of([(0, 1, 2), (0, 1, 2)]), view_of([(0, 1, 2)])
    assert outdated(read, view) == "it has no partition 1 of t, which was read"
    with pytest.raises(BrokerAway, match="no partition 1"):
        check_positions("p", read, view)
    assert outdated(read, replace(view, topic_id="another")) is None


@pytest.mark.parametrize(
    ("read", "answered", "stale"), [(3, 2, True), (3, 3, False), (3, 4, False), (None, 0, False), (3, None, False)]
)
def test_an_answer_of_a_leader_before_the_one_that_was_read_from_is_stale(
    read: int | None, answered: int | None, stale: bool
) -> None:
    at, view = replace(positions_of([(0, 1, 2)])[0], leader_epoch=read), view_of([(0, 1, 2)])
    held = {0: replace(view.partitions[0], leader_epoch=answered)}
    assert (outdated([at], replace(view, partitions=held)) is not None) == stale


@given(readable)
def test_another_topic_than_the_one_that_was_read_halts_wherever_its_offsets_lie(places: list[Place]) -> None:
    halt = halt_of([replace(at, topic="old") for at in positions_of(places)], view_of(places))
    assert halt is not None
    assert halt.detail == halts.TopicChanged("old", "t")


def test_what_was_read_may_be_gone_from_the_log_before_it_is_published_and_may_not_be_cut_off() -> None:
    read = positions_of([(0, 9, 9)])
    still_there("p", read, view_of([(9, 0, 9)]))
    with pytest.raises(Halt, match="log_truncated"):
        still_there("p", read, view_of([(0, 0, 8)]))


@given(readable)
def test_a_pipeline_begins_at_the_low_watermark(places: list[Place]) -> None:
    first = first_positions([], view_of(places))
    assert [(p.partition, p.next_offset) for p in first] == [(n, low) for n, (low, _, _) in enumerate(places)]
    assert {(p.cluster_id, p.topic_id) for p in first} == {("cluster", "topic id")}


@given(readable, readable)
def test_a_partition_added_later_is_read_from_zero(old: list[Place], new: list[Place]) -> None:
    added = first_positions(positions_of(old), view_of([*old, *new]))
    assert [(p.partition, p.next_offset) for p in added] == [(len(old) + n, 0) for n in range(len(new))]


@pytest.mark.parametrize(
    ("at", "noted", "end", "read"),
    [
        (3, 9, 9, [0]),
        (8, 9, 12, [0]),
        (9, 9, 12, [0, 1]),  # later messages need not be waited for: they never end
        (3, 9, 3, [0, 1]),  # the log was cut meanwhile
        (3, None, 9, [0, 1]),  # a new pipeline, or one that never saw a partition added
    ],
)
def test_an_upsert_reads_the_old_partitions_before_the_added_ones_up_to_where_they_then_ended(
    at: int, noted: int | None, end: int, read: list[int]
) -> None:
    view = view_of([(0, 0, end), (0, 0, 4)])
    old, added = Position(0, "cluster", "topic id", at, seen_end=noted), Position(1, "cluster", "topic id", 0)
    assert [p.partition for p in old_before_new([old, added], view)] == read


@pytest.mark.parametrize(
    ("places", "noted"),
    [
        ([(7, 7), (3, None)], [9, 9]),  # both are old ones from now on
        ([(12, 12), (0, None)], [12, 9]),  # an end never goes back
    ],
)
def test_when_partitions_are_added_the_others_note_where_they_end(
    places: list[tuple[int, int | None]], noted: list[int | None]
) -> None:
    known = [Position(n, "cluster", "topic id", at, seen_end=end) for n, (at, end) in enumerate(places)]
    assert [item.seen_end for item in note_ends(known, view_of([(0, 0, 9), (0, 0, 9), (0, 0, 4)]))] == noted


def test_a_partition_without_a_position_does_not_lag_by_what_the_broker_has_dropped() -> None:
    assert lag([], view_of([(5, 0, 9)])) == {0: 4}


@given(readable, st.integers(1, 400_000))
def test_a_pending_batch_comes_back_from_its_json_as_it_went(places: list[Place], most: int) -> None:
    ranges = next_ranges(positions_of(places), view_of(places), batch_messages=most, tasks=4)
    pending = PendingBatch(7, "cluster", "topic id", ranges)
    again = PendingBatch.from_json(pending.to_json())
    assert again == pending
    assert [item.leader_epoch for item in again.ranges] == [item.leader_epoch for item in ranges]


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ((0, 0, 90_000), None),
        ((0, 0, 80_000), None),
        ((0, 0, 79_999), "log_truncated"),
        ((10_000, 0, 90_000), None),
        ((10_001, 0, 90_000), "retention_passed"),
    ],
)
def test_a_planned_batch_is_readable_while_the_log_holds_all_of_it(place: Place, code: str | None) -> None:
    whole = OffsetRange("t", 0, 10_000, 80_000)
    pending = PendingBatch(1, "cluster", "topic id", tuple(reversed(split(whole, 20_000))))
    for batch in (pending, split_pending(pending, 5_000)):  # also if a person has split it: its rest is read later
        if code is None:
            still_readable("p", batch, view_of([place]))
            continue
        with pytest.raises(Halt) as halt:
            still_readable("p", batch, view_of([place]))
        assert halt.value.code == code


def test_a_partition_that_ends_below_several_planned_ranges_is_reported_once() -> None:
    pending = PendingBatch(1, "cluster", "topic id", tuple(split(OffsetRange("t", 0, 0, 80_000), 20_000)))
    with pytest.raises(Halt, match=r"planned batch: partition 0 \[30000, 80000\)\."):
        still_readable("p", split_pending(pending, 50_000), view_of([(0, 0, 30_000)]))


def test_a_range_is_marked_where_the_partition_got_a_leader_since_it_was_last_read() -> None:
    ranges = tuple(OffsetRange("t", n, 0, 5, leader_epoch=epoch) for n, epoch in enumerate([3, 3, None]))
    view = view_of([(0, 0, 5)] * 3)
    held = {
        n: replace(at, leader_epoch=epoch) for (n, at), epoch in zip(view.partitions.items(), [3, 4, 4], strict=True)
    }
    marked = mark_new_leaders(ranges, replace(view, partitions=held))
    assert [item.new_leader for item in marked] == [False, True, False]
    assert [item.end_epoch for item in marked] == [3, 4, 4]  # the positions get these once the ranges have been read


def test_a_planned_batch_of_another_topic_is_not_readable() -> None:
    pending = PendingBatch(1, "cluster", "topic id", (OffsetRange("t", 0, 0, 5),))
    with pytest.raises(Halt) as halt:
        still_readable("p", pending, view_of([(0, 0, 5)], topic_id="another"))
    assert halt.value.code == "topic_recreated"


def test_what_lies_in_an_open_transaction_is_read_before_partitions_added_meanwhile() -> None:
    """The same transaction may write a key's newer value to the new partition, at a lower offset."""
    positions = [Position(0, "c", "t", 100)]
    open_still = TopicView("topic", "c", "t", {0: PartitionView(0, 100, high=106), 1: PartitionView(0, 0, high=2)})
    every = [*note_ends(positions, open_still), *first_positions(positions, open_still)]
    assert [item.partition for item in old_before_new(every, open_still)] == [0]
    ended = TopicView("topic", "c", "t", {0: PartitionView(0, 106, high=106), 1: PartitionView(0, 2, high=2)})
    assert [item.partition for item in old_before_new(every, ended)] == [0]
    drained = [replace(every[0], next_offset=106), every[1]]
    assert [item.partition for item in old_before_new(drained, ended)] == [0, 1]


def test_the_ranges_of_a_partition_are_one_span_and_a_hole_between_them_is_refused() -> None:
    parts = [OffsetRange("t", 1, 5, 9), OffsetRange("t", 0, 0, 3), OffsetRange("t", 1, 2, 5)]
    assert [str(span) for span in whole_spans(parts)] == ["partition 0 [0, 3)", "partition 1 [2, 9)"]
    for wrong in (OffsetRange("t", 1, 10, 11), OffsetRange("t", 1, 4, 6)):
        with pytest.raises(Retryable, match="partition 1 have a gap or an overlap at"):
            whole_spans([*parts, wrong])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_each_offset_of_a_batch_has_its_number(lengths: list[int]) -> None:
    ranges = [OffsetRange("t", n, 10 * n, 10 * n + length) for n, length in enumerate(lengths)]
    places = [(item.partition, at) for item in ranges for at in range(item.from_offset, item.until_offset)]
    found = [nth_offset(ranges, number) for number in range(sum(lengths))]
    assert [(item.partition, item.from_offset) for item in found] == places
    assert {len(item) for item in found} == {1}
    with pytest.raises(IndexError):
        nth_offset(ranges, sum(lengths))


def test_small_ranges_share_a_task_and_large_ones_do_not() -> None:
    def sized(*lengths: int) -> list[OffsetRange]:
        return [OffsetRange("t", n, 0, length) for n, length in enumerate(lengths)]

    worth = MESSAGES_WORTH_A_TASK
    assert tasks_for(sized(1)) == 1
    assert tasks_for(sized(*[3] * 10)) == 1
    assert tasks_for(sized(worth, 1)) == 2
    assert tasks_for(sized(worth, worth, worth, worth)) == 4
    assert tasks_for(sized(9 * worth)) == 1  # a range is never read by two tasks
    assert tasks_for(sized(*[3] * 2 * RANGES_WORTH_A_TASK, 3)) == 3  # each task takes time to begin


def test_an_offset_that_was_deleted_is_not_unread_but_deleted() -> None:
    held = PartitionView(low=50, end=80)
    assert [(held.unread(at), held.deleted(at)) for at in (None, 10, 50, 60, 80, 90)] == [
        (30, 0),
        (30, 40),
        (30, 0),
        (20, 0),
        (0, 0),
        (0, 0),
    ]
