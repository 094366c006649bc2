"""The leader epochs that a settlement reads from a log (resolve/settled_log.py), as a protocol;
kafka/epochs.py implements it.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class MessageEpoch:
    """A message's offset, and the epoch of the leader that wrote it."""

    offset: int
    leader_epoch: int


class LeaderEpochs(Protocol):
    """The leader epochs of a topic's messages."""

    def at_or_after(self, partition: int, offset: int) -> MessageEpoch | None:
        """Return the first message at or past `offset`; None if the log has none. Raises BrokerAway."""
        ...
