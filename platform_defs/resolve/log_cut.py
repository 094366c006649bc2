"""The cut of a log: the first offset at which it no longer has the messages that were read.

Kafka's clients use OffsetForLeaderEpoch for that (KIP-320), which confluent_kafka has no call for. But messages carry
their leader epoch, and epochs only grow along a log: a bisection that reads single messages finds the end of an epoch
in the current log. Offsets read in that epoch or before, and beyond its end, were cut off. After two unclean elections
in a row the cut may be below the result, as for Kafka's clients.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from math import inf

from platform_defs.kafka.leader_epochs import LeaderEpochs
from platform_defs.ledger.answers import EpochRead
from platform_defs.offsets import PartitionView


def first_changed(
    epochs: LeaderEpochs,
    partition: int,
    position: int,
    read: Sequence[EpochRead],
    held: PartitionView,
    seen: int | None,
) -> int:
    """Return the first offset below `position` at which the log no longer has what was read; `position` if there is
    none.

    `read` is what was read, ascending; `seen` is an end of the log below `position` that was observed before it was
    written to again. Reads some twenty messages for each leader epoch that it examines: those since the cut, and one
    before.
    """
    cut = min(position, held.end, position if seen is None else seen)

    def epoch_at(offset: int) -> float:
        found = epochs.at_or_after(partition, offset)
        return inf if found is None else found.leader_epoch

    @cache
    def end_of(epoch: int) -> int:
        """Return the offset after the log's last message of `epoch` or an earlier one."""
        return held.low + bisect_right(range(held.low, held.written), epoch, key=epoch_at)

    for newest, item in enumerate(reversed(read)):
        if end_of(item.leader_epoch) >= item.until_offset:
            return cut if newest else max(cut, item.until_offset)  # it refutes a lower end that was observed
        cut = min(cut, end_of(item.leader_epoch))
    return cut
