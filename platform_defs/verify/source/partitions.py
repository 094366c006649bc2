"""The ledger's record of a partition: the ranges read, by which batches and contracts, and the gaps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa

from platform_defs.verify.source.spans import ManySpans, Span, less, size, within


@dataclass(frozen=True)
class Pinned:
    """The contract and transform of a batch, by digests; None if the ledger names none."""

    contract: str | None = None
    transform: str | None = None  # empty: there was none
    application: int | None = None  # of the contract: it can come into force more than once


ContractRange = tuple[int, int, Pinned]  # from (included), until (excluded)


def one_after_another(contract_ranges: Sequence[ContractRange]) -> tuple[ContractRange, ...]:
    """Return the pieces in ascending order, adjacent equal ones merged; where pieces overlap, the first one wins."""
    found: list[ContractRange] = []
    for low, high, pinned in sorted(contract_ranges, key=lambda item: item[:2]):
        start = max(low, found[-1][1]) if found else low
        if found and start == found[-1][1] and found[-1][2] == pinned:
            found[-1] = (found[-1][0], max(found[-1][1], high), pinned)
        elif start < high:
            found.append((start, high, pinned))
    return tuple(found)


@dataclass(frozen=True)
class CountedRange:
    """Offsets [start, until) of one batch, and the ledger's counts."""

    start: int
    until: int
    messages: int
    skipped_records: int


@dataclass(frozen=True)
class Partition:
    """A partition in the ledger: [start, next) was read. Spans are in the log that exists now."""

    number: int
    topic_id: str
    start: int
    next: int
    covered: list[Span]  # by committed batches; an offset may be in two of them
    gaps: ManySpans  # offsets that the broker never delivered, according to the batches
    skips: list[Span]  # offsets that a user skipped
    counted: tuple[CountedRange, ...] = ()  # ascending
    settled: ManySpans = field(default_factory=ManySpans)  # dead letters that were resolved and pruned
    forgotten: int = 0  # below it, the messages' contracts are pruned
    # The contract of each range, ascending; if none is named, the one in force.
    contract_ranges: tuple[ContractRange, ...] = ()

    def by_contract(self, start: int, until: int) -> Iterator[ContractRange]:
        """Yield [start, until) in pieces, each with its contract version."""
        for low, high, pinned in self.contract_ranges:
            if high <= start or low >= until:
                continue
            if low > start:
                yield start, low, Pinned()
            yield max(low, start), min(high, until), pinned
            start = high
        if start < until:
            yield start, until, Pinned()

    def undeclared(self, spans: list[Span]) -> tuple[list[Span], int, int]:
        """Return the parts of ascending spans that were not delivered which the ledger records neither as gaps nor as
        skipped, and the number of offsets in gaps, and in skips.
        """
        if not spans:
            return [], 0, 0
        start, until = spans[0][0], spans[-1][1]
        gaps, skips = self.gaps.within(start, until), within(self.skips, start, until)
        if spans == gaps:
            return [], size(spans), 0
        rest = less(spans, gaps)
        left = less(rest, skips)
        return left, size(spans) - size(rest), size(rest) - size(left)


@dataclass(frozen=True)
class DeadLetter:
    """A message that is not a row: its place, the stage that refused it, the reason, and its bytes."""

    partition: int
    offset: int
    stage: str
    error_class: str
    value: bytes | None


@dataclass(frozen=True)
class LostHistory:
    """Offsets whose rows, in batches up to `until_batch`, came from a log that no longer exists."""

    partition: int
    from_offset: int
    until_offset: int
    until_batch: int


def gaps_of(gaps: pa.Table, lost: Sequence[LostHistory]) -> dict[int, ManySpans]:
    """Return by partition the gaps in the log that exists now. `gaps`: partition, batch, first offset, and the one
    after it.
    """
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
