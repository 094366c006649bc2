"""Windows cut a pipeline's batches without a gap, and a check in windows sees the same ledger as one of all."""

from dataclasses import replace
from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.verify.compare.report import Findings
from platform_defs.verify.compare.sums import added
from platform_defs.verify.source.ledger import Checkpoint
from platform_defs.verify.source.partitions import Partition
from platform_defs.verify.source.spans import ManySpans, Span, within
from platform_defs.verify.source.windows import BACK, VOID, WHOLE, Window, next_window, why_void
from platform_defs.verify.verify import cover

BROAD = Context(prec=100)
BASIS = dict.fromkeys(VOID, "1")
BATCHES = st.lists(st.integers(0, 50), max_size=20).map(lambda counts: [(3 * n + 1, c) for n, c in enumerate(counts)])


def _windows(batches: list[tuple[int, int]], most: int, page: int) -> list[Window]:
    """Return the windows of a check: of at most `most` messages, from at most `page` batches."""
    found, at = list[Window](), Checkpoint()
    while not found or not found[-1].last:
        rest = [item for item in batches if item[0] > at.batch_id]
        found.append(next_window(at, rest[:page], most, more=len(rest) > page))
        at = replace(at, batch_id=found[-1].until)
    return found


@given(BATCHES, st.integers(1, 100), st.integers(1, 8))
def test_windows_are_of_whole_batches_one_after_another_and_as_large_as_asked_for(
    batches: list[tuple[int, int]], most: int, page: int
) -> None:
    windows = _windows(batches, most, page)
    assert [window.after for window in windows] == [0, *(window.until for window in windows[:-1])]
    assert windows[-1].until == (batches[-1][0] if batches else 0)
    for window in windows:
        inside = [count for batch, count in batches if window.after < batch <= window.until]
        assert sum(inside) <= most or len(inside) == 1
        assert len(inside) <= page
    assert not any(window.whole for window in windows)


@st.composite
def _histories(draw: st.DrawFn) -> tuple[Partition, list[tuple[int, Span]]]:
    """Return what batches read of a partition, with skips, and sometimes a hole, a range twice or another position."""
    at, skips, ranges = draw(st.integers(0, 5)), list[Span](), list[tuple[int, Span]]()
    start = at
    for number in range(draw(st.integers(0, 8))):
        if draw(st.booleans()):
            skips.append((at, at := at + draw(st.integers(1, 4))))
        if draw(st.integers(0, 3)):  # a batch need not read of each partition
            ranges.append((3 * number + 1, (at, at := at + draw(st.integers(1, 9)))))
        if draw(st.integers(0, 9)) == 0:
            at += 2  # nobody read it
    if ranges and draw(st.booleans()):
        batch, span = draw(st.sampled_from(ranges))
        ranges.append((draw(st.sampled_from([batch, 3 * 8 + 1])), span))
    until = max(start, at + draw(st.sampled_from([0, 0, 0, 3, -2])))
    return Partition(0, "id", start, until, [span for _, span in ranges], ManySpans(), skips), ranges


def _bad(part: Partition) -> bool:
    findings = Findings("p")
    cover(part, findings)
    return not findings.ok


@given(_histories(), st.integers(1, 4))
def test_what_the_ledger_lacks_or_has_twice_is_seen_in_windows_if_and_only_if_it_is_seen_in_all(
    history: tuple[Partition, list[tuple[int, Span]]], at_once: int
) -> None:
    part, ranges = history
    ids = sorted({batch for batch, _ in ranges})
    starts, seen, parts = dict[int, int](), False, list[Partition]()
    pieces = [ids[n : n + at_once] for n in range(0, len(ids), at_once)] or [[0]]
    for number, piece in enumerate(pieces):
        covered = [span for batch, span in ranges if batch in piece]
        window = Window(piece[0] - 1, piece[-1], starts, last=number == len(pieces) - 1)
        parts.append(window.of(replace(part, covered=covered)))
        seen = seen or _bad(parts[-1])
        starts = {0: parts[-1].next}
    assert seen is _bad(part)
    if not seen:
        assert [item.start for item in parts] == [part.start, *(item.next for item in parts[:-1])]
        assert parts[-1].next == part.next
        assert within([span for item in parts for span in item.skips], part.start, part.next) == within(
            part.skips, part.start, part.next
        )


def test_a_skip_past_the_position_is_seen_in_the_last_window() -> None:
    part = Partition(0, "id", 0, 1, [(0, 1)], ManySpans(), [(1, 3)])
    assert _bad(part)
    assert _bad(Window(0, 1, last=True).of(part))


def test_pruned_ranges_count_from_where_the_window_begins_and_others_are_not_cut() -> None:
    pruned = Partition(0, "id", 0, 30, [(0, 10), (10, 25), (25, 30)], ManySpans(), [], forgotten=25)
    window = Window(5, 9, {0: 20})
    assert sorted(window.of(pruned).covered) == [(20, 25), (25, 30)]
    assert not _bad(window.of(pruned))
    again = replace(pruned, covered=[*pruned.covered, (8, 28)])  # committed a second time
    assert _bad(window.of(again))
    assert _bad(window.of(replace(pruned, forgotten=0, covered=[(12, 15), (20, 30)])))


def test_a_window_has_all_of_the_pruned_batches_after_the_checkpoint_or_none() -> None:
    at = Checkpoint(1, 5)
    assert next_window(at, [(12, 9), (13, 9)], 10, pruned=11) == Window(5, 12, last=False)
    assert next_window(at, [], 10, pruned=11) == Window(5, 11)
    assert next_window(at, [(12, 9)], 10, pruned=3) == Window(5, 12)
    assert next_window(at, [], 10, pruned=3) == Window(5, 5)


def test_a_window_of_everything_leaves_a_partition_as_it_is() -> None:
    part = Partition(0, "id", 3, 9, [(3, 9)], ManySpans(), [])
    assert WHOLE.of(part) is part


@pytest.mark.parametrize("name", VOID)
def test_a_checkpoint_is_void_once_anything_that_it_holds_for_is_another(name: str) -> None:
    checkpoint = Checkpoint(1, 5, {0: 10}, {}, BASIS)
    assert why_void(checkpoint, BASIS, {0: 10}) is None
    assert why_void(checkpoint, {**BASIS, name: "2"}, {0: 10}) == VOID[name]
    assert why_void(checkpoint, {**BASIS, name: None}, {0: 10}) == VOID[name]


def test_a_checkpoint_is_void_once_a_position_is_behind_it_and_not_for_a_new_partition() -> None:
    checkpoint = Checkpoint(1, 5, {0: 10, 1: 4}, {}, BASIS)
    assert why_void(checkpoint, BASIS, {0: 12, 1: 4, 2: 0}) is None
    assert why_void(checkpoint, BASIS, {0: 9, 1: 4}) == BACK
    assert why_void(checkpoint, BASIS, {0: 12}) == BACK


@given(st.lists(st.integers(-(10**60), 10**60)))
def test_sums_are_added_without_rounding(values: list[int]) -> None:
    total = dict[str, str]()
    for value in values:
        total = added(total, {"t.c": str(Decimal(value).scaleb(-9, BROAD))})
    assert Decimal(total.get("t.c", "0")).scaleb(9, BROAD) == sum(values)
