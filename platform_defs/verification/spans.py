"""Sets of offsets as spans [from, until), and how committed spans cover a partition."""

from collections.abc import Iterable
from dataclasses import dataclass

Span = tuple[int, int]  # from (included), until (excluded)


def spelt(partition: int, span: Span) -> str:
    """As OffsetRange spells itself: partition 3 [10, 20)."""
    return f"partition {partition} [{span[0]}, {span[1]})"


def united(spans: Iterable[Span]) -> list[Span]:
    """The same offsets in ascending spans that neither overlap nor touch."""
    result: list[Span] = []
    for start, until in sorted(span for span in spans if span[0] < span[1]):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], until))
        else:
            result.append((start, until))
    return result


def less(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """`spans` without what `taken` holds."""
    holes = united(taken)
    result: list[Span] = []
    for start, until in united(spans):
        for low, high in holes:
            if high <= start or low >= until:
                continue
            if start < low:
                result.append((start, low))
            start = high
        if start < until:
            result.append((start, until))
    return result


def within(spans: Iterable[Span], start: int, until: int) -> list[Span]:
    """The part of `spans` in [start, until)."""
    return united((max(low, start), min(high, until)) for low, high in spans)


def size(spans: Iterable[Span]) -> int:
    """How many offsets `spans`, which do not overlap, hold."""
    return sum(until - start for start, until in spans)


def missing(offsets: Iterable[int], start: int, until: int) -> list[Span]:
    """The part of [start, until) that is not among `offsets` (ascending, all inside)."""
    result: list[Span] = []
    for offset in offsets:
        if offset > start:
            result.append((start, offset))
        start = offset + 1
    return [*result, (start, until)] if start < until else result


@dataclass(frozen=True)
class Tiling:
    """How committed ranges and skips cover [start, next). All three are empty where each offset is covered once."""

    holes: list[Span]  # not committed
    twice: list[Span]  # committed more than once
    outside: list[Span]  # committed, but not between start and next


def tiling(covered: Iterable[Span], start: int, until: int) -> Tiling:
    """How `covered` covers [start, until)."""
    twice: list[Span] = []
    reached = None
    for low, high in sorted(covered := list(covered)):
        if reached is not None and low < reached:
            twice.append((low, min(high, reached)))
        reached = high if reached is None else max(reached, high)
    whole = [(start, until)] if start < until else []
    return Tiling(less(whole, covered), united(twice), less(covered, whole))
