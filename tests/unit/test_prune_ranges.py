"""What is left of pruned batches says the same of every offset as they did, whatever pages they were pruned in."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_defs.operations import prune_ranges
from platform_defs.operations.prune_ranges import PrunedRange, put_together

Read = tuple[int, int, int, int]  # partition, from, until, batch


def _range(partition: int, start: int, until: int, batch: int) -> PrunedRange:
    gaps = f"{{[{until - 1},{until})}}" if batch % 3 == 0 else "{}"
    return PrunedRange("t", "id", partition, start, until, until - start, gaps, int(batch % 3 == 0), batch, batch)


@st.composite
def histories(draw: st.DrawFn) -> list[PrunedRange]:
    """What batches read, in their order. Now and then one skips offsets, or reads some again, as after a cut."""
    at = {0: 0, 1: 0}
    found: list[PrunedRange] = []
    for batch in range(1, draw(st.integers(1, 12)) + 1):
        for partition in draw(st.sets(st.integers(0, 1), min_size=1)):
            start = max(0, at[partition] + draw(st.sampled_from([0, 0, 0, 2, -3])))
            at[partition] = start + draw(st.integers(1, 4))
            found.append(_range(partition, start, at[partition], batch))
    return found


def _written(table: dict[tuple[int, int, int], PrunedRange], found: Sequence[PrunedRange]) -> None:
    """As sql/prune.sql writes them: the gaps are added."""
    for item in found:
        key = (item.partition, item.first_batch, item.from_offset)
        before = table.get(key)
        table[key] = item if before is None else replace(item, gaps=f"{{{before.gaps[1:-1]},{item.gaps[1:-1]}}}")


def _newest(table: dict[tuple[int, int, int], PrunedRange]) -> list[PrunedRange]:
    """As sql/prune.sql gives them, without their gaps."""
    newest = {item.place: item for item in sorted(table.values(), key=lambda i: (i.last_batch, i.from_offset))}
    return [replace(item, gaps="{}") for item in newest.values()]


def _of_each_offset(ranges: Sequence[PrunedRange], lost: Sequence[int]) -> list[tuple[int, int, tuple[bool, ...]]]:
    """Every offset as often as it was read, with which records of lost history are about it."""
    return sorted(
        (item.partition, offset, tuple(item.last_batch <= until for until in lost))
        for item in ranges
        for offset in range(item.from_offset, item.until_offset)
    )


@given(histories(), st.lists(st.integers(0, 12), max_size=3, unique=True).map(sorted), st.integers(1, 5))
def test_each_offset_is_covered_as_often_and_lost_by_the_same_records(
    history: list[PrunedRange], lost: list[int], page: int
) -> None:
    table: dict[tuple[int, int, int], PrunedRange] = {}
    for start in range(0, len(history), page):
        _written(table, put_together(_newest(table), history[start : start + page], lost))
    left = list(table.values())
    assert _of_each_offset(left, lost) == _of_each_offset(history, lost)
    assert sum(item.messages for item in left) == sum(item.messages for item in history)
    assert sum(item.gaps.count("[") for item in left) == sum(item.gaps.count("[") for item in history)


def test_what_lies_next_to_each_other_is_one_row_however_many_batches_there_were() -> None:
    history = [_range(0, n, n + 1, n + 1) for n in range(1000)]
    (left,) = put_together([], history, [])
    assert (left.from_offset, left.until_offset, left.first_batch, left.last_batch) == (0, 1000, 1, 1000)


def test_a_row_takes_only_so_many_gaps() -> None:
    many = [_range(0, n, n + 1, 3 * n + 3) for n in range(prune_ranges.MOST_SPANS + 1)]
    assert len(put_together([], many, [])) == 2
