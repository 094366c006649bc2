"""What a settlement asks of a log's leader epochs (operations/settlements/log_cut.py); resources/kafka/data/epochs.py
answers.
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
        """The first message at or past `offset`; None where the log holds none. Raises BrokerAway."""
        ...
