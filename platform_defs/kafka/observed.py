"""The observed state of a cluster, and the parts that could not be observed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from platform_defs.errors import BadInput

Replicas = tuple[int, ...]  # broker ids, the preferred leader first


@dataclass(frozen=True)
class Partition:
    """A partition, as brokers describe it: `replicas` in the order of preference, no `leader` while it is offline."""

    topic: str
    number: int
    leader: int | None
    replicas: Replicas
    in_sync: Replicas
    min_in_sync: int = 0  # min.insync.replicas of the topic; 0 if not known

    @property
    def led_by_preferred(self) -> bool:
        return self.leader == self.replicas[0]

    @property
    def needed_in_sync(self) -> int:
        """The fewest in-sync replicas with which writes with acks=all succeed: a min.insync.replicas above the number
        of replicas counts as that number (Kafka's Partition.effectiveMinIsr; so measured with 4.3).
        """
        return min(self.min_in_sync, len(self.replicas))

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@dataclass(frozen=True)
class Broker:
    """A registered broker. `answers`: it returned its metadata when queried directly."""

    id: int
    address: str
    rack: str | None = None
    fenced: bool = False
    answers: bool = True


@dataclass(frozen=True)
class Voter:
    """A controller with a vote. `lag`: records of the metadata log that it lacks; `silent_ms`: time since its last
    fetch, None for never.
    """

    id: int
    lag: int
    silent_ms: int | None = None


@dataclass(frozen=True)
class Quorum:
    """The controllers, as their leader describes them."""

    leader: int
    epoch: int
    voters: tuple[Voter, ...]


@dataclass(frozen=True)
class Moving:
    """A partition whose replicas are being reassigned."""

    topic: str
    number: int
    replicas: Replicas  # the current and the new ones
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> Replicas:
        """The replicas after the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@dataclass(frozen=True)
class Observed:
    """A cluster. `unknown`: facts that could not be queried, and why; `quorum` is None if no broker reported it."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]
    quorum: Quorum | None
    quorum_lost: str | None = None  # why the controllers have no leader
    moving: tuple[Moving, ...] = ()
    throttled: tuple[str, ...] = ()  # topics with throttled replicas
    topic_ids: Mapping[str, str] = field(default_factory=dict[str, str])  # of the requested topics
    unknown: tuple[str, ...] = ()


Bytes = Mapping[tuple[str, int, int], int]  # by topic, partition and broker


def assignment(partitions: Iterable[Partition]) -> dict[tuple[str, int], Replicas]:
    """Return the replicas of each partition by topic and number."""
    return {(item.topic, item.number): item.replicas for item in partitions}


def by_topic(partitions: Iterable[Partition]) -> dict[str, Sequence[Partition]]:
    """Return the partitions of each topic, ordered by number."""
    found: dict[str, list[Partition]] = {}
    for item in sorted(partitions, key=lambda item: (item.topic, item.number)):
        found.setdefault(item.topic, []).append(item)
    return dict(found)


def check_partitions(topic: str, there: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """Return the partitions to read, ascending. Raises BadInput if the topic does not have one of them."""
    if missing := sorted(set(wanted) - set(there)):
        has = f"partitions 0 to {len(there) - 1}" if len(there) > 1 else "partition 0 alone"
        raise BadInput(f"{topic} has no partition {missing[0]}; it has {has}", field="--partition")
    return tuple(sorted(set(wanted) or there))
