"""Consumer groups as Kafka describes them, and derived facts: idle members, lag, messages lost to retention."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from platform_defs.errors import TidegateError
from platform_defs.errors.words import plural

Place = tuple[str, int]  # a topic and a partition of it
STABLE, EMPTY, DEAD = "Stable", "Empty", "Dead"  # Dead: the group does not exist
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance"})  # of the classic protocol
CLASSIC, CONSUMER = "classic", "consumer"  # the types of consumer groups; consumer: KIP-848


@dataclass(frozen=True, kw_only=True)
class Member:
    """A consumer of a group. `target`: the partitions assigned to it by the coordinator (KIP-848); None in a classic
    group.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    partitions: tuple[Place, ...] = ()
    target: tuple[Place, ...] | None = None

    def __str__(self) -> str:
        """Return its ids and host; a classic member's id begins with its client id."""
        name = self.member_id if self.member_id.startswith(self.client_id) else f"{self.client_id} {self.member_id}"
        static = f" (group.instance.id {self.instance_id})" if self.instance_id else ""
        return f"{name}{static} at {self.host}"


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group. `type` is classic or consumer; for a group that is not of consumers, its protocol: share, streams,
    connect. `state` is Kafka's name of the state. `coordinator` is a broker's id.
    """

    name: str
    type: str
    state: str
    assignor: str | None = None
    coordinator: int | None = None
    coordinator_address: str | None = None
    members: tuple[Member, ...] = ()

    @property
    def idle(self) -> tuple[Member, ...]:
        """The members without a partition; none while the group rebalances, since they may get one."""
        return tuple(one for one in self.members if not one.partitions) if self.state == STABLE else ()

    @property
    def assigned(self) -> frozenset[Place]:
        """The partitions of its members."""
        return frozenset(place for one in self.members for place in one.partitions)

    @property
    def idle_sentence(self) -> str | None:
        """ "4 consumers, 3 partitions: 1 is idle"; None if every member has a partition."""
        if not self.idle:
            return None
        consumers, partitions = plural(len(self.members), "consumer"), plural(len(self.assigned), "partition")
        return f"{consumers}, {partitions}: {len(self.idle)} {'is' if len(self.idle) == 1 else 'are'} idle"


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The offsets in the log of a partition: from `log_start` up to `end` (the high watermark), which is excluded."""

    log_start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class GroupPartition:
    """A partition that a group reads. `committed` is None if the group has committed nothing there; `bounds` is None if
    the broker does not give them, for the reason in `problem`.
    """

    topic: str
    partition: int
    committed: int | None
    bounds: Bounds | None = None
    problem: str | None = None

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    @property
    def lag(self) -> int | None:
        """Offsets from the committed one to the end, as Kafka's own tools count them: deleted messages and control
        records are included. None if not known.
        """
        if self.committed is None or self.bounds is None or self.committed > self.bounds.end:
            return None
        return self.bounds.end - self.committed

    @property
    def expired(self) -> int:
        """Unread offsets below the log start: the group lags past retention."""
        if self.committed is None or self.bounds is None:
            return 0
        return max(0, self.bounds.log_start - self.committed)

    @property
    def note(self) -> str | None:
        """A clause about an offset that is outside the log or not known; else None."""
        if self.problem is not None:
            return self.problem
        if self.committed is None or self.bounds is None:
            return None
        if self.expired:
            return (
                f"lags past retention: offset {self.committed} is below the log start {self.bounds.log_start}, "
                f"so {plural(self.expired, 'message')} can no longer be read"
            )
        if self.committed > self.bounds.end:
            return (
                f"offset {self.committed} is beyond the end {self.bounds.end}: the topic was created again, or its log "
                "was truncated"
            )
        return None


def partitions_of(
    group: Group, committed: Mapping[Place, int], bounds: Mapping[Place, Bounds | TidegateError]
) -> tuple[GroupPartition, ...]:
    """Return the partitions in `bounds` that the group has committed offsets for or its members have; with the error if
    the bounds of a log are not known.
    """
    found = list[GroupPartition]()
    for place in sorted({*committed, *group.assigned} & {*bounds}):
        log = bounds[place]
        known, problem = (log, None) if isinstance(log, Bounds) else (None, str(log))
        offset = committed.get(place)
        found.append(
            GroupPartition(topic=place[0], partition=place[1], committed=offset, bounds=known, problem=problem)
        )
    return tuple(found)


def total_lag(partitions: Iterable[GroupPartition]) -> int | None:
    """Return the sum of the known lags; None if none is known."""
    known = [one.lag for one in partitions if one.lag is not None]
    return sum(known) if known else None
