"""A batch whose offsets are fixed, split into smaller ones: the same offsets, in the same order in each partition."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from platform_defs import offsets
from platform_defs.offsets import OffsetRange, PendingBatch, Position, Rest, split, whole_spans

TASKS = 4  # a large part is split into about so many ranges, as any batch (engine/plan/planning.py)


def split_pending(pending: PendingBatch, messages: int) -> PendingBatch:
    """Return `pending` with about so many offsets, and the others as its rest. A person's decision about it applies to
    each part; suspects of its last try are found again.

    The first range of each partition keeps its leader epoch, as it begins at the partition's position.
    """
    leading = {item.partition: item for item in sorted(pending.every_range, reverse=True)}
    spans = whole_spans(pending.every_range)  # Raises Retryable if ranges of a partition do not continue each other.
    wholes = [replace(leading[span.partition], until_offset=span.until_offset) for span in spans]
    first, rest = _cut(wholes, messages)
    return replace(pending, ranges=first, rest=Rest(messages, rest) if rest else None, suspects=())


def next_part(pending: PendingBatch) -> PendingBatch | None:
    """Return the batch that is pending once `pending` has committed; the caller assigns its batch id."""
    if pending.rest is None:
        return None
    return split_pending(replace(pending, ranges=()), pending.rest.messages)


def from_positions(ranges: Iterable[OffsetRange], positions: Sequence[Position]) -> tuple[OffsetRange, ...]:
    """Return `ranges`; those that begin at a position get its leader epoch: a later part of a split has none yet."""
    epochs = {(at.partition, at.next_offset): at.leader_epoch for at in positions}
    return tuple(
        replace(item, leader_epoch=epochs.get((item.partition, item.from_offset)))
        if item.leader_epoch is None
        else item
        for item in ranges
    )


def _cut(wholes: Sequence[OffsetRange], messages: int) -> tuple[tuple[OffsetRange, ...], tuple[OffsetRange, ...]]:
    """Return about so many offsets, shared among the partitions by the length of each, and the others."""
    total = sum(map(len, wholes))
    first: list[OffsetRange] = []
    rest: list[OffsetRange] = []
    for whole in wholes:
        share = len(whole) if total <= messages else max(1, messages * len(whole) // total)
        middle = whole.from_offset + share
        first += split(replace(whole, until_offset=middle), max(offsets.MESSAGES_WORTH_A_TASK, -(-messages // TASKS)))
        if middle < whole.until_offset:
            rest.append(replace(whole, from_offset=middle, leader_epoch=None, new_leader=False, end_epoch=None))
    return tuple(first), tuple(rest)
