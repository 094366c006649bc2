"""Where a log was cut: the first offset at which it no longer holds what was read.

Kafka's clients ask OffsetForLeaderEpoch for that (KIP-320), which confluent_kafka has no call for. Messages carry their
leader epoch, though, and epochs only grow along a log: a bisection that reads single messages finds where an epoch ends
in the log of now. What was read in that epoch or before, and lies beyond, was cut off. Where two elections in a row
were unclean the cut may lie below what is found, as it may for Kafka's clients.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache

from platform_defs.engine.ports.leader_epochs import LeaderEpochs
from platform_defs.offsets import PartitionView
from resources.postgres.ledger.answers import EpochRead


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
    on. Reads some twenty messages for each leader epoch that it asks about: those since the cut, and one before.
    """
    cut = min(position, held.end, position if seen is None else seen)

    @cache
    def end_of(epoch: int) -> int:
        return _end_of_epoch(epochs, partition, epoch, held)

    for newest, item in enumerate(reversed(read)):
        if end_of(item.leader_epoch) >= item.until_offset:
            return cut if newest else max(cut, item.until_offset)  # it refutes an end that was seen below it
        cut = min(cut, end_of(item.leader_epoch))
    return cut


def _end_of_epoch(epochs: LeaderEpochs, partition: int, epoch: int, held: PartitionView) -> int:
    """The offset after the log's last message of `epoch` or an earlier one."""

    def epoch_at(offset: int) -> float:
        found = epochs.at_or_after(partition, offset)
        return float("inf") if found is None else found.leader_epoch

    return held.low + bisect_right(range(held.low, held.written), epoch, key=epoch_at)
