"""What the ledger knows of a partition: what was read of it, by which batches and contracts, and what never came."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa

from platform_defs.verification.source.pins import Judged, Pinned
from platform_defs.verification.source.spans import ManySpans, Span, less, size, within


@dataclass(frozen=True)
class CountedRange:
    """Offsets [start, until) of one batch, and what the ledger counts of them."""

    start: int
    until: int
    messages: int
    skipped_records: int


@dataclass(frozen=True)
class Undeclared:
    """Spans that the ledger declares neither as gaps nor as skipped, and how many offsets it does."""

    spans: list[Span]
    gaps: int
    skipped: int


@dataclass(frozen=True)
class Partition:
    """A partition as the ledger knows it: what was read of [start, next). Spans are of the log that exists now."""

    number: int
    topic_id: str
    start: int
    next: int
    covered: list[Span]  # by committed batches; an offset may be in two of them
    gaps: ManySpans  # that the broker never delivered, according to the batches
    skips: list[Span]  # that a person declared as skipped
    counted: tuple[CountedRange, ...] = ()  # ascending
    settled: ManySpans = field(default_factory=ManySpans)  # dead letters that were settled and pruned
    forgotten: int = 0  # below it, what judged the messages is pruned
    judged: tuple[Judged, ...] = ()  # by which contract, in ascending order; where none is named, by the one in force

    def by_contract(self, start: int, until: int) -> Iterator[Judged]:
        """[start, until) in pieces, each with what judged it."""
        for low, high, pinned in self.judged:
            if high <= start or low >= until:
                continue
            if low > start:
                yield start, low, Pinned()
            yield max(low, start), min(high, until), pinned
            start = high
        if start < until:
            yield start, until, Pinned()

    def undeclared(self, spans: list[Span]) -> Undeclared:
        """Of ascending spans that were not delivered."""
        if not spans:
            return Undeclared([], 0, 0)
        start, until = spans[0][0], spans[-1][1]
        gaps, skips = self.gaps.within(start, until), within(self.skips, start, until)
        if spans == gaps:
            return Undeclared([], size(spans), 0)
        rest = less(spans, gaps)
        left = less(rest, skips)
        return Undeclared(left, size(spans) - size(rest), size(rest) - size(left))


@dataclass(frozen=True)
class DeadLetter:
    """A message that is not a row: where it was, which stage refused it and why, and its bytes."""

    partition: int
    offset: int
    stage: str
    error_class: str
    value: bytes | None


@dataclass(frozen=True)
class ReadRange:
    """A range that a batch committed."""

    from_offset: int
    until_offset: int
    batch_id: int
    pinned: Pinned
    pruned: bool  # of several batches, of which the last one is named


@dataclass(frozen=True)
class LostHistory:
    """Rows of these offsets, in batches up to `until_batch`, came from a log that no longer exists."""

    partition: int
    from_offset: int
    until_offset: int
    until_batch: int


def gaps_of(gaps: pa.Table, lost: Sequence[LostHistory]) -> dict[int, ManySpans]:
    """By partition, those of the log that exists now, of gaps (partition, batch, first offset, and the one behind)."""
    columns: Any = gaps.columns
    numbers, batches, starts, untils = (column.to_numpy() for column in columns)
    for item in lost:
        cut = (numbers == item.partition) & (batches <= item.until_batch)
        before = cast("Any", np.where(cut, np.minimum(untils, item.from_offset), untils))
        starts, untils = _with(starts, np.maximum(starts, item.until_offset)[cut]), _with(before, untils[cut])
        numbers, batches = _with(numbers, numbers[cut]), _with(batches, batches[cut])
    found = ((number, numbers == number) for number in np.unique(numbers).tolist())
    return {number: ManySpans(starts[mine], untils[mine]) for number, mine in found}


def _with(column: Any, others: Any) -> Any:
    return np.concatenate([column, others])
