"""Sets of offsets as spans, however many, behave as sets of integers do."""

from collections.abc import Iterable

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.verify.source.partitions import LostHistory, gaps_of
from platform_defs.verify.source.spans import ManySpans, Span, less, missing, united, within

SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda one: (one[0], one[0] + one[1])), max_size=8
)
GAPS = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 4), SPANS.map(united)), max_size=4)
LOST = st.builds(LostHistory, st.integers(0, 1), st.integers(0, 20), st.integers(20, 40), st.integers(0, 4))
SCHEMA = pa.schema([(name, pa.int64()) for name in ("partition", "batch_id", "start", "until")])


def offsets(spans: Iterable[Span]) -> set[int]:
    return {offset for start, until in spans for offset in range(start, until)}


def many(spans: Iterable[Span]) -> ManySpans:
    listed = [*spans]
    return ManySpans([start for start, _ in listed], [until for _, until in listed])


@given(SPANS, SPANS)
def test_spans_less_others_hold_what_only_they_hold(spans: list[Span], taken: list[Span]) -> None:
    left = less(spans, taken)
    assert offsets(left) == offsets(spans) - offsets(taken)
    assert left == united(left)


@given(SPANS, st.integers(0, 40), st.integers(0, 40))
def test_many_spans_give_the_part_that_is_asked_for(spans: list[Span], start: int, until: int) -> None:
    assert many(spans).within(start, until) == within(spans, start, until)
    assert [*many(spans)] == united(spans)


@given(st.sets(st.integers(5, 20)), st.integers(0, 5), st.integers(21, 25))
def test_what_is_missing_is_all_that_is_not_there(there: set[int], start: int, until: int) -> None:
    found = missing(sorted(there), start, until)
    assert offsets(found) == {*range(start, until)} - there
    assert found == united(found)
    assert missing([], until, until) == []


@given(GAPS, st.lists(LOST, max_size=3))
def test_gaps_of_a_log_that_is_gone_are_left_out(
    gaps: list[tuple[int, int, list[Span]]], lost: list[LostHistory]
) -> None:
    rows = [(number, batch, *span) for number, batch, spans in gaps for span in spans]
    columns = [pa.array([row[n] for row in rows], pa.int64()) for n in range(4)]
    found = gaps_of(pa.Table.from_arrays(columns, schema=SCHEMA), lost)
    for number in (0, 1):
        wanted = set[int]()
        for partition, batch, spans in gaps:
            gone = [
                (item.from_offset, item.until_offset)
                for item in lost
                if item.partition == partition and batch <= item.until_batch
            ]
            wanted |= offsets(spans) - offsets(gone) if partition == number else set()
        assert offsets(found.get(number, ManySpans()).within(0, 100)) == wanted
