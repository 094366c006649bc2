"""Partitions that a pipeline sees for the first time: its first offset there, and what an upsert reads before them."""

from collections.abc import Sequence
from dataclasses import replace

from platform_defs.offsets import Position, TopicView


def first_positions(positions: Sequence[Position], view: TopicView) -> list[Position]:
    """Return positions for the partitions that have none.

    A pipeline's first batch starts at the low watermark. A partition added later starts at 0, so that nothing written
    to it before it was first seen is lost.
    """
    known = {item.partition for item in positions}
    new = sorted(set(view.partitions) - known)
    return [Position(p, view.cluster_id, view.topic_id, 0 if known else view.partitions[p].low) for p in new]


def next_added(positions: Sequence[Position], view: TopicView) -> list[Position]:
    """Return the first positions that an upsert adds now: none while it still drains others, otherwise at most as many
    as it has. If all of those are empty, its next doubling as well.

    Otherwise a key that moved twice could be read from both partitions at once. Within one doubling no key moves
    between two partitions that are added together, as long as each new count is a multiple of the one before.
    """
    if draining(positions, view):
        return []
    new = first_positions(positions, view)
    many = min(len(new), len(positions) or len(new))
    while many < len(new) and not any(view.partitions[item.partition].written for item in new[:many]):
        many = min(len(new), 2 * many + len(positions))
    return new[:many]


def note_ends(positions: Sequence[Position], view: TopicView) -> list[Position]:
    """Return `positions`, each with the end up to which an upsert reads it before the partitions that are added now.

    Open transactions are included: the same one may write a key's newer value to a new partition.
    """
    written = {number: held.written for number, held in view.partitions.items()}
    return [replace(item, seen_end=max(item.seen_end or 0, written[item.partition])) for item in positions]


def old_before_new(positions: Sequence[Position], view: TopicView) -> list[Position]:
    """Return the positions that an upsert reads from: keys move when partitions are added, so the old ones are drained
    first.

    A partition is drained at the end that it had when the new ones were first seen (`seen_end`), not at its current
    end, which is never reached under steady traffic. The new ones, which have no such end yet, wait for that.
    """
    return [item for item in positions if item.seen_end is not None] if draining(positions, view) else list(positions)


def draining(positions: Sequence[Position], view: TopicView) -> bool:
    """Return True if a partition has not reached its noted end, or the end of the log if that was cut since."""
    ends = {item.partition: min(item.seen_end or 0, view.partitions[item.partition].written) for item in positions}
    return any(item.next_offset < ends[item.partition] for item in positions)
