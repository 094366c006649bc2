"""Where a log was cut: the first offset at which it no longer holds what was read.

Kafka's clients ask OffsetForLeaderEpoch for that (KIP-320, KIP-279), which confluent_kafka has no call for. Messages
carry their leader epoch, though: two logs that hold a message of the same epoch at the same offset are the same up to
there, so the ends of ranges, whose epochs the ledger keeps, tell up to where nothing has changed, and a bisection of
the log finds where an epoch ends in it. Within one range that saw several leaders the cut may lie below what is found.
"""

from bisect import bisect_right
from collections.abc import Sequence

from platform_defs.engine.leader_epochs import LeaderEpochs
from platform_defs.offsets import PartitionView
from resources.postgres.answers import EpochRead


def first_changed(
    epochs: LeaderEpochs,
    partition: int,
    position: int,
    read: Sequence[EpochRead],
    held: PartitionView,
    seen: int | None,
) -> int:
    """The first offset below `position` that the log no longer holds as it was read; `position` where there is none.

    `read` is what was read, ascending; `seen` is an end of the log below `position` that was seen before it was written
    on. Reads single messages: one for each range that has changed, and some twenty.
    """
    cut = min(position, held.end, position if seen is None else seen)
    changed: EpochRead | None = None
    for item in reversed(read):
        if item.until_offset <= held.written and _holds(epochs, partition, item):
            cut = max(cut, item.until_offset) if changed is None else cut
            break
        changed = item
    return cut if changed is None else min(cut, _end_of_epoch(epochs, partition, changed.leader_epoch, held))


def _holds(epochs: LeaderEpochs, partition: int, item: EpochRead) -> bool:
    """Whether the log is the one that was read, up to the end of `item`."""
    found = epochs.at_or_after(partition, item.until_offset - 1)
    return found is not None and found.leader_epoch == item.leader_epoch


def _end_of_epoch(epochs: LeaderEpochs, partition: int, epoch: int, held: PartitionView) -> int:
    """The offset after the log's last message of `epoch` or an earlier one."""

    def epoch_at(offset: int) -> float:
        found = epochs.at_or_after(partition, offset)
        return float("inf") if found is None else found.leader_epoch

    return held.low + bisect_right(range(held.low, held.end), epoch, key=epoch_at)
