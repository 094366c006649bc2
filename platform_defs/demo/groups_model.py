"""The observations of `tidegate demo groups` about its consumer groups. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

PARTITIONS = 3  # of the topic


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The partitions of a consumer, and the number of messages received since they were assigned."""

    consumer: str
    partitions: Sequence[int]
    received: int

    @property
    def idle(self) -> bool:
        return not self.partitions


@dataclass(frozen=True, kw_only=True)
class Rebalance:
    """A group after a rebalance. `event`: a sentence about the cause."""

    group: str
    event: str
    consumers: Sequence[Assignment]


@dataclass(frozen=True, kw_only=True)
class GroupTotal:
    """The number of messages that a group received."""

    group: str
    received: int  # distinct messages
    twice: int  # of these, received more than once


def is_settled(assigned: Mapping[str, Collection[int] | None]) -> bool:
    """Return True if each partition is assigned to one consumer. `assigned`: by consumer; None during a rebalance."""
    if any(partitions is None for partitions in assigned.values()):
        return False
    return sorted(one for partitions in assigned.values() for one in partitions or ()) == [*range(PARTITIONS)]
