"""A replay reads each batch that a person decided about by itself, wherever its own batches end."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from platform_defs.engine.plan.replay_plan import DecidedBatch, next_part

Part = tuple[Mapping[int, tuple[int, int]], Mapping[str, Any]]  # by partition, the offsets of a batch; and its marks
NextPart = Callable[
    [Sequence[DecidedBatch], Mapping[int, int], Mapping[int, int]], tuple[Mapping[int, int], Mapping[str, Any]]
]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[DecidedBatch], dict[int, int]]:
    """Return the decided batches of a live pipeline with up to three partitions, and where it ended."""
    at = dict.fromkeys(range(draw(st.integers(1, 3))), 0)
    decided = list[DecidedBatch]()
    for number in range(draw(st.integers(0, 5))):
        lengths = {partition: draw(st.integers(0, 3)) for partition in at}
        spans = {n: (at[n], at[n] + length) for n, length in lengths.items() if length}
        if spans and draw(st.booleans()):
            decided.append(DecidedBatch(number, {"set_aside": f"batch {number}"}, spans))
        at = {n: start + lengths[n] for n, start in at.items()}
    return decided, at


def parts(decided: Sequence[DecidedBatch], ends: Mapping[int, int], most: int, plan: NextPart) -> list[Part]:
    """Return the batches of a replay that reads at most `most` offsets of a partition at once."""
    at, found = dict.fromkeys(ends, 0), list[Part]()
    while at != ends:
        until, marks = plan(decided, at, ends)
        read = {n: (start, min(until[n], start + most)) for n, start in at.items() if start < until[n]}
        assert read, "it does not go on"
        found.append((read, marks))
        at = {n: read[n][1] if n in read else start for n, start in at.items()}
    return found


def decides_as_before(decided: Sequence[DecidedBatch], made: Sequence[Part]) -> bool:
    """Return True if each offset has the marks of the decided batch that had read it, and no others."""
    marks = {
        (n, at): one.marks for one in decided for n, (start, until) in one.spans.items() for at in range(start, until)
    }
    return all(
        marks.get((n, at), {}) == given_marks
        for read, given_marks in made
        for n, (start, until) in read.items()
        for at in range(start, until)
    )


@given(histories(), st.integers(1, 10))
def test_each_message_is_decided_about_as_it_was(history: tuple[list[DecidedBatch], dict[int, int]], most: int) -> None:
    decided, ends = history
    assert decides_as_before(decided, parts(decided, ends, most, next_part))


def _not_cut(
    decided: Sequence[DecidedBatch], at: Mapping[int, int], ends: Mapping[int, int]
) -> tuple[Mapping[int, int], Mapping[str, Any]]:
    return ends, next_part(decided, at, ends)[1]


def _not_marked(
    decided: Sequence[DecidedBatch], at: Mapping[int, int], ends: Mapping[int, int]
) -> tuple[Mapping[int, int], Mapping[str, Any]]:
    return next_part(decided, at, ends)[0], {}


@pytest.mark.parametrize("mutant", [_not_cut, _not_marked])
def test_a_plan_that_cuts_or_decides_otherwise_is_found(mutant: NextPart) -> None:
    find(histories(), lambda history: not decides_as_before(history[0], parts(history[0], history[1], 2, mutant)))
