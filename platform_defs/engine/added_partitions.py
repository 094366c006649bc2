"""Partitions that a pipeline sees for the first time: where it starts in them, and what an upsert reads before them."""

from collections.abc import Sequence
from dataclasses import replace

from platform_defs.offsets import Position, TopicView


def first_positions(positions: Sequence[Position], view: TopicView) -> list[Position]:
    """Positions for the partitions that have none.

    A pipeline's first batch starts at the low watermark. A partition added later starts at 0, so that nothing written
    to it before we looked is lost.
    """
    known = {item.partition for item in positions}
    new = sorted(set(view.partitions) - known)
    return [Position(p, view.cluster_id, view.topic_id, 0 if known else view.partitions[p].low) for p in new]


def note_ends(positions: Sequence[Position], view: TopicView) -> list[Position]:
    """`positions` as they are once partitions are added: an upsert reads each up to where it ends now before it reads
    those, open transactions included: the same one may write a key's newer value to a new partition.
    """
    written = {number: held.written for number, held in view.partitions.items()}
    return [replace(item, seen_end=max(item.seen_end or 0, written[item.partition])) for item in positions]


def old_before_new(positions: Sequence[Position], view: TopicView) -> list[Position]:
    """The positions to read from in an upsert: keys move when partitions are added, so the old ones are drained first.

    Drained is what has reached the end that it had when the new ones were first seen (`seen_end`), not the current end:
    under steady traffic that is never reached. The new ones, which have no such end yet, wait for that.
    """
    return [item for item in positions if item.seen_end is not None] if draining(positions, view) else list(positions)


def draining(positions: Sequence[Position], view: TopicView) -> bool:
    """Whether a partition is yet to reach its noted end, or the end of the log where that was cut meanwhile.

    Until then an upsert adds no more partitions: those that wait would be read together with them, and a key may have
    moved twice.
    """
    ends = {item.partition: min(item.seen_end or 0, view.partitions[item.partition].written) for item in positions}
    return any(item.next_offset < ends[item.partition] for item in positions)
