"""Step 1, decided and not yet done: the ranges of the next batch, and what has to be stored before it is read.

`batch.plan_batch` executes a BatchPlan, `tidegate plan` prints it. No connection is used here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from platform_defs import offsets
from platform_defs.contract.model.contract import Contract
from platform_defs.engine.plan.split_batch import from_positions
from platform_defs.errors import BadInput, Halt
from platform_defs.offsets import OffsetRange, PendingBatch, Position, TopicView

TASKS = 4  # a large batch is split into about this many ranges


def is_full(ranges: Sequence[OffsetRange], batch_messages: int) -> bool:
    """Return True if a batch of these ranges is as large as this limit of a contract allows, so that more may be
    unread. Shares of partitions are rounded down.
    """
    return sum(map(len, ranges)) + len({item.partition for item in ranges}) > batch_messages


@dataclass(frozen=True)
class BatchPlan:
    """The plan of the next batch. Without ranges there is nothing to read."""

    view: TopicView
    positions: tuple[Position, ...]  # including those that will be added
    ranges: tuple[OffsetRange, ...] = ()
    pending: PendingBatch | None = None  # the batch of these ranges, if it will be read again
    added: tuple[Position, ...] = ()  # to be stored before anything is read, with the `seen_end` of the others
    waiting: tuple[int, ...] = ()  # partitions of an upsert that are read once the others have been drained
    # Of partitions to be added: raised once they are stored, so that a settlement can move them.
    halt: Halt | None = None

    @property
    def offsets(self) -> int:
        """Offsets to be read: an upper bound of the messages."""
        return sum(map(len, self.ranges))

    @property
    def lag(self) -> dict[int, int]:
        """Unread offsets by partition, before the batch."""
        return offsets.lag(self.positions, self.view)

    @property
    def left(self) -> dict[int, int]:
        """Unread offsets by partition, after the batch."""
        until = {span.partition: span.until_offset for span in offsets.whole_spans(self.ranges)}
        moved = [replace(item, next_offset=until.get(item.partition, item.next_offset)) for item in self.positions]
        return offsets.lag(moved, self.view)


def decide(
    contract: Contract, positions: Sequence[Position], pending: PendingBatch | None, view: TopicView, tasks: int = TASKS
) -> BatchPlan:
    """Return the plan of the next batch, from what the ledger (`positions`, `pending`) and then the broker (`view`)
    reported.

    Raises Halt if continuing would lose or repeat messages, BadInput if the topic does not suit the table.
    """
    table = contract.row_table
    if view.compacted and table.disposition == "append":
        raise BadInput(
            f"topic {contract.topic} is compacted (cleanup.policy) but {table.name} is append: messages that "
            "compaction removes could never be replayed or verified. Make the table upsert, or the policy delete",
            file=str(contract.path),
            field=table.name,
        )
    offsets.check_positions(contract.pipeline, positions, view)
    if pending is not None:
        offsets.still_readable(contract.pipeline, pending, view)
        ranges = from_positions(pending.ranges, positions)
        pending = replace(pending, ranges=offsets.mark_new_leaders(ranges, view))
        return BatchPlan(view, tuple(positions), pending.ranges, pending)
    keyed = contract.row_table.disposition == "upsert"
    added = next_added(positions, view) if keyed else first_positions(positions, view)
    every = (*note_ends(positions, view), *added) if added else tuple(positions)
    try:
        offsets.check_positions(contract.pipeline, added, view)
    except Halt as halt:  # the partitions to be added cannot be read from their start
        return BatchPlan(view, every, added=tuple(added), halt=halt)
    chosen = old_before_new(every, view) if keyed else every
    if contract.publication == "direct":
        tasks = 1  # a range for each partition: two of one would wait for each other
    ranges = offsets.next_ranges(chosen, view, batch_messages=contract.limits.batch_messages, tasks=tasks)
    waiting = tuple(sorted(set(view.partitions) - {item.partition for item in chosen}))
    return BatchPlan(
        view=view,
        positions=every,
        ranges=offsets.mark_new_leaders(ranges, view),
        pending=None,
        added=tuple(added),
        waiting=waiting,
    )


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
