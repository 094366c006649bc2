"""A topic as `tidegate topics describe` shows it: None if a fact is unavailable, with the reason in `unknown`."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from platform_defs.kafka.observed import Replicas
from platform_defs.offsets import PartitionView

Source = Literal["topic", "broker", "default"]
SHOWN = {  # settings that are shown although they are Kafka's defaults
    "cleanup.policy",
    "compression.type",
    "max.message.bytes",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
}


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A segment file of a replica. Its name is its first offset, in twenty digits, and `.log`."""

    name: str
    size: int  # bytes


@dataclass(frozen=True, kw_only=True)
class DescribedReplica:
    """A replica of a partition. `size` in bytes."""

    broker: int
    in_sync: bool
    size: int | None
    segments: tuple[Segment, ...] | None = None  # None: not a broker of this machine's embedded stack


@dataclass(frozen=True, kw_only=True)
class DescribedPartition:
    """A partition. `leader` is None if it has none, `held` if no leader answers."""

    number: int
    leader: int | None
    replicas: tuple[DescribedReplica, ...]  # the preferred leader first
    held: PartitionView | None

    @property
    def brokers(self) -> Replicas:
        return tuple(one.broker for one in self.replicas)

    @property
    def in_sync(self) -> Replicas:
        return tuple(one.broker for one in self.replicas if one.in_sync)

    @property
    def messages(self) -> int | None:
        """Offsets from the earliest to the latest; with compaction or control records there are fewer messages."""
        return None if self.held is None else self.held.written - self.held.low

    @property
    def size(self) -> int | None:
        """The bytes of the leader's replica; None if not known."""
        return next((one.size for one in self.replicas if one.broker == self.leader), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "partition": self.number,
            "leader": self.leader,
            "replicas": [asdict(one) for one in self.replicas],
            "earliest": self.held and self.held.low,
            "latest": self.held and self.held.written,
            "last_stable": self.held and self.held.end,
            "messages": self.messages,
        }


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting in effect for the topic, and the source of its value. A secret has no value."""

    name: str
    value: str | None
    source: Source

    @property
    def shown(self) -> bool:
        return self.source != "default" or self.name in SHOWN


@dataclass(frozen=True, kw_only=True)
class ReadingContract:
    """A contract that reads the topic; `problem`: why it cannot be used, so that it only may read the topic."""

    pipeline: str
    file: str
    disposition: str | None = None
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReadingGroup:
    """A consumer group with committed offsets in the topic. `lag` is None if it is not known."""

    group: str
    state: str
    members: int
    lag: int | None
    partitions: int  # of the topic, with committed offsets or assigned to its members


@dataclass(frozen=True, kw_only=True)
class TopicDescription:
    """A topic; `unknown`: sentences about unavailable facts."""

    topic: str
    topic_id: str | None
    cluster_id: str
    partitions: tuple[DescribedPartition, ...]
    settings: tuple[Setting, ...] | None
    contracts: tuple[ReadingContract, ...]
    groups: tuple[ReadingGroup, ...] | None = None
    unknown: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document that `tidegate topics describe -o json` prints."""
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "cluster_id": self.cluster_id,
            "partitions": [one.to_json() for one in self.partitions],
            "settings": None if self.settings is None else [asdict(one) for one in self.settings],
            "contracts": [asdict(one) for one in self.contracts],
            "groups": None if self.groups is None else [asdict(one) for one in self.groups],
            "unknown": self.unknown,
        }
