"""What was seen of a cluster, and what could not be seen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Replicas = tuple[int, ...]  # broker ids, the preferred leader first


@dataclass(frozen=True)
class Partition:
    """A partition, as brokers describe it: `replicas` in the order of preference, no `leader` while it is offline."""

    topic: str
    number: int
    leader: int | None
    replicas: Replicas
    in_sync: Replicas
    min_in_sync: int = 0  # min.insync.replicas of the topic; 0 where it is not known

    @property
    def led_by_preferred(self) -> bool:
        return self.leader == self.replicas[0]

    @property
    def under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)

    @property
    def needed_in_sync(self) -> int:
        """Without how many replicas in sync writes with acks=all are refused: a min.insync.replicas above the number of
        replicas counts as that number (Kafka's Partition.effectiveMinIsr; so measured with 4.3).
        """
        return min(self.min_in_sync, len(self.replicas))

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@dataclass(frozen=True)
class Broker:
    """A broker that is registered. `answers` says whether it gave its metadata when it was asked itself."""

    id: int
    address: str
    rack: str | None = None
    fenced: bool = False
    answers: bool = True


@dataclass(frozen=True)
class Voter:
    """A controller with a vote. `lag` is how many records of the metadata log it does not have; `silent_ms` is how long
    ago it last fetched, None for never.
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
    replicas: Replicas  # the present ones and those to come
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> Replicas:
        """The replicas that it will have."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@dataclass(frozen=True)
class Observed:
    """A cluster. `unknown` names what could not be asked, and why; `quorum` is None where no broker could say."""

    cluster_id: str
    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]
    quorum: Quorum | None
    quorum_lost: str | None = None  # why the controllers have no leader
    moving: tuple[Moving, ...] = ()
    throttled: tuple[str, ...] = ()  # topics that name replicas whose copying is limited
    topic_ids: Mapping[str, str] = field(default_factory=dict[str, str])  # of the topics that were asked for
    unknown: tuple[str, ...] = ()


Bytes = Mapping[tuple[str, int, int], int]  # by topic, partition and broker


def assignment(partitions: Iterable[Partition]) -> dict[tuple[str, int], Replicas]:
    """The replicas of each partition."""
    return {(item.topic, item.number): item.replicas for item in partitions}


def by_topic(partitions: Iterable[Partition]) -> dict[str, Sequence[Partition]]:
    """The partitions of each topic, by number."""
    found: dict[str, list[Partition]] = {}
    for item in sorted(partitions, key=lambda item: (item.topic, item.number)):
        found.setdefault(item.topic, []).append(item)
    return dict(found)
