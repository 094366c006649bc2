"""Ranges of pruned batches describe every offset as the batches did, whatever pages they were pruned in."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_defs.prune.prune import MAX_SPANS, PrunedRange, put_together

Read = tuple[int, int, int, int]  # partition, from, until, batch


def _range(partition: int, start: int, until: int, batch: int) -> PrunedRange:
    gaps = int(batch % 3 == 0)
    return PrunedRange("t", "id", partition, start, until, until - start, gaps, batch, batch, batch - 1)


@st.composite
def histories(draw: st.DrawFn) -> list[PrunedRange]:
    """Return what batches read, in order. Some skip offsets, or read some again, as after a cut."""
    at = {0: 0, 1: 0}
    found: list[PrunedRange] = []
    for batch in range(1, draw(st.integers(1, 12)) + 1):
        for partition in draw(st.sets(st.integers(0, 1), min_size=1)):
            start = max(0, at[partition] + draw(st.sampled_from([0, 0, 0, 2, -3])))
            at[partition] = start + draw(st.integers(1, 4))
            found.append(_range(partition, start, at[partition], batch))
    return found


Table = dict[tuple[int, int, int], tuple[PrunedRange, int]]


def _written(table: Table, found: Sequence[PrunedRange], page: Sequence[PrunedRange]) -> None:
    """Write rows as prune/prune.sql does: with the gaps of the page's batches that are to be added."""
    for item in found:
        key = (item.partition, item.first_batch, item.from_offset)
        _, gaps = table.get(key, (None, 0))
        here = [one for one in page if one.place == item.place and item.added_after < one.last_batch <= item.last_batch]
        inside = [one for one in here if item.from_offset <= one.from_offset and one.until_offset <= item.until_offset]
        table[key] = item, gaps + sum(one.spans for one in inside)


def _newest(table: Table) -> list[PrunedRange]:
    """Return the newest rows, as prune/prune.sql does."""
    rows = sorted((item for item, _ in table.values()), key=lambda item: (item.last_batch, item.from_offset))
    newest = {item.place: item for item in rows}
    return [replace(item, added_after=item.last_batch) for item in newest.values()]


def _of_each_offset(ranges: Sequence[PrunedRange], lost: Sequence[int]) -> list[tuple[int, int, tuple[bool, ...]]]:
    """Return each offset as often as it was read, with the records of lost history that are about it."""
    return sorted(
        (item.partition, offset, tuple(item.last_batch <= until for until in lost))
        for item in ranges
        for offset in range(item.from_offset, item.until_offset)
    )


@given(histories(), st.lists(st.integers(0, 12), max_size=3, unique=True).map(sorted), st.integers(1, 5))
def test_each_offset_is_covered_as_often_and_lost_by_the_same_records(
    history: list[PrunedRange], lost: list[int], page: int
) -> None:
    table: Table = {}
    for start in range(0, len(history), page):
        batches = history[start : start + page]
        _written(table, put_together(_newest(table), batches, lost), batches)
    left = [item for item, _ in table.values()]
    assert _of_each_offset(left, lost) == _of_each_offset(history, lost)
    assert sum(item.messages for item in left) == sum(item.messages for item in history)
    assert all(item.spans == gaps for item, gaps in table.values())
    assert sum(item.spans for item in left) == sum(item.spans for item in history)


def test_what_lies_next_to_each_other_is_one_row_however_many_batches_there_were() -> None:
    history = [_range(0, n, n + 1, n + 1) for n in range(1000)]
    (left,) = put_together([], history, [])
    assert (left.from_offset, left.until_offset, left.first_batch, left.last_batch) == (0, 1000, 1, 1000)


def test_a_row_takes_only_so_many_gaps() -> None:
    many = [_range(0, n, n + 1, 3 * n + 3) for n in range(MAX_SPANS + 1)]
    assert len(put_together([], many, [])) == 2
