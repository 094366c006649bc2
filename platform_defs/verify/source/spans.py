"""Sets of offsets as spans [from, until), and the coverage of a partition by committed spans."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]  # from (included), until (excluded)
Offsets: TypeAlias = NDArray[np.int64]


def format_span(partition: int, span: Span) -> str:
    """Return the span as OffsetRange formats itself: partition 3 [10, 20)."""
    return f"partition {partition} [{span[0]}, {span[1]})"


def united(spans: Iterable[Span]) -> list[Span]:
    """Return the same offsets in ascending spans that neither overlap nor touch."""
    result: list[Span] = []
    for start, until in sorted(span for span in spans if span[0] < span[1]):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], until))
        else:
            result.append((start, until))
    return result


def less(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """Return `spans` without the offsets in `taken`."""
    holes, passed = united(taken), 0
    result: list[Span] = []
    for start, until in united(spans):
        while passed < len(holes) and holes[passed][0] < until:
            low, high = holes[passed]
            if start < low:
                result.append((start, low))
            start = max(start, high)
            if high > until:
                break  # it may reach into the next span as well
            passed += 1
        if start < until:
            result.append((start, until))
    return result


def within(spans: Iterable[Span], start: int, until: int) -> list[Span]:
    """Return the part of `spans` in [start, until)."""
    return united((max(low, start), min(high, until)) for low, high in spans)


def size(spans: Iterable[Span]) -> int:
    """Return the number of offsets in `spans`, which do not overlap."""
    return sum(until - start for start, until in spans)


def missing(offsets: Iterable[int], start: int, until: int) -> list[Span]:
    """Return the part of [start, until) that is not in `offsets` (ascending, all inside)."""
    places = np.fromiter((start - 1, *offsets, until), np.int64)
    jumps = np.flatnonzero(np.diff(places) > 1)
    return list(zip((places[jumps] + 1).tolist(), places[jumps + 1].tolist(), strict=True))


class ManySpans:
    """Ascending spans that neither overlap nor touch, in arrays, so that there may be many."""

    def __init__(self, starts: Sequence[int] | Offsets = (), untils: Sequence[int] | Offsets = ()) -> None:
        """Build from spans in any order, which may overlap."""
        lows, highs = np.asarray(starts, np.int64), np.asarray(untils, np.int64)
        some = lows < highs
        lows, highs = lows[some], highs[some]
        order = np.argsort(lows, kind="stable")
        lows, reached = lows[order], np.maximum.accumulate(highs[order])
        first = np.ones(len(lows), np.bool_)
        first[1:] = lows[1:] > reached[:-1]
        last = np.ones(len(lows), np.bool_)
        last[:-1] = first[1:]
        self._starts, self._untils = lows[first], reached[last]

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Span]:
        return zip(self._starts.tolist(), self._untils.tolist(), strict=True)

    def within(self, start: int, until: int) -> list[Span]:
        """Return the part in [start, until)."""
        if start >= until:
            return []
        low = np.searchsorted(self._untils, start, side="right")
        high = np.searchsorted(self._starts, until, side="left")
        starts, untils = self._starts[low:high], self._untils[low:high]
        return list(zip(np.maximum(starts, start).tolist(), np.minimum(untils, until).tolist(), strict=True))


def tiling(covered: Iterable[Span], start: int, until: int) -> tuple[list[Span], list[Span], list[Span]]:
    """Return the part of [start, until) that is not in `covered`, the part that is in it more than once, and the part
    of `covered` outside. All three are empty if each offset is covered once.
    """
    twice: list[Span] = []
    reached = None
    for low, high in sorted(covered := list(covered)):
        if reached is not None and low < reached:
            twice.append((low, min(high, reached)))
        reached = high if reached is None else max(reached, high)
    whole = [(start, until)] if start < until else []
    return less(whole, covered), united(twice), less(covered, whole)
