"""Description of a topic: its partitions, files and settings, and its readers. Facts that Kafka does not return are
unknown.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from platform_defs.cluster.observe import or_unknown
from platform_defs.contract.model.topic import check_topic_name
from platform_defs.contract.reader.catalogue import Contracts
from platform_defs.errors import TidegateError
from platform_defs.groups.child import KafkaGroups
from platform_defs.groups.groups import incomplete, read_groups
from platform_defs.kafka.client.rights import to_describe
from platform_defs.kafka.cluster_admin import KafkaCluster
from platform_defs.kafka.descriptions import KafkaPartitions, Setting
from platform_defs.kafka.group_state import partitions_of, total_lag
from platform_defs.kafka.observed import Partition
from platform_defs.offsets import PartitionView
from platform_defs.stack import stack
from platform_defs.stack.state import kafka_folder

PATIENCE = 6.0  # seconds for the log folders of a broker: one that has just died does not answer
Sizes = Mapping[tuple[int, int], int]  # bytes by broker and partition


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
    def messages(self) -> int | None:
        """Offsets from the earliest to the latest; with compaction or control records there are fewer messages."""
        return None if self.held is None else self.held.written - self.held.low

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
        return {**asdict(self), "partitions": [one.to_json() for one in self.partitions]}


@dataclass(frozen=True)
class TopicLook:
    """The queries about one topic to the cluster at `options`, librdkafka's."""

    options: Mapping[str, str] = field(repr=False)  # they may contain a password
    topic: str

    def describe(self, contracts: Contracts) -> TopicDescription:
        """Return the topic. Raises TopicMissing, and BrokerAway if no broker answers."""
        check_topic_name(self.topic)
        kafka, unknown = KafkaPartitions(self.options), list[str]()
        found = kafka.topics([self.topic])
        alive = {broker.id for broker in found.brokers}
        hosts = sorted({broker for one in found.partitions for broker in one.replicas} & alive)
        with ThreadPoolExecutor(5) as pool:
            settings = pool.submit(kafka.settings, self.topic)
            ids = pool.submit(kafka.topic_ids, [self.topic])
            bounds = pool.submit(kafka.bounds, found.partitions, to_describe(self.topic))
            folders = pool.submit(self._sizes, hosts)
            groups = pool.submit(self._groups)
            held = or_unknown(bounds, unknown) or {}
            unknown += dict.fromkeys(str(view) for view in held.values() if isinstance(view, TidegateError))
            sizes, without = folders.result()
            reading, missing = groups.result()
            unknown += (*without, *missing)
            running = stack.status()
            home = running.home if running.kafka.embedded else None
            return TopicDescription(
                topic=self.topic,
                topic_id=(or_unknown(ids, unknown) or {}).get(self.topic),
                cluster_id=found.cluster_id,
                partitions=tuple(_partition(one, held.get(one.number), sizes, home) for one in found.partitions),
                settings=or_unknown(settings, unknown),
                contracts=_reading(contracts, self.topic),
                groups=reading,
                unknown=tuple(unknown),
            )

    def _groups(self) -> tuple[tuple[ReadingGroup, ...] | None, Sequence[str]]:
        """Return the groups that read the topic, None if they are not known, and sentences about missing facts."""
        client = KafkaGroups(self.options, PATIENCE)
        try:
            listing, found = read_groups(client)
            reading = [(one, {at for at in one.places if at[0] == self.topic}) for one in found]
            bounds = client.bounds({place for _, places in reading for place in places})
            missing = incomplete(client, listing)
        except TidegateError as error:
            return None, (str(error),)
        groups = tuple(
            ReadingGroup(
                group=one.group.name,
                state=one.group.state,
                members=len(one.group.members),
                lag=total_lag(partitions_of(one.group, one.committed, bounds)),
                partitions=len(places),
            )
            for one, places in reading
            if places
        )
        return groups, missing

    def _sizes(self, brokers: Sequence[int]) -> tuple[Sizes, Sequence[str]]:
        """Return the bytes of each replica, and the reasons for missing brokers."""
        sizes, why = dict[tuple[int, int], int](), list[str]()
        for broker, answer in KafkaCluster(self.options, PATIENCE).replica_sizes(brokers).items():
            if isinstance(answer, TidegateError):
                why.append(str(answer))
            else:
                sizes |= {(broker, number): size for (topic, number), size in answer.items() if topic == self.topic}
        return sizes, why


def _partition(
    one: Partition, held: PartitionView | TidegateError | None, sizes: Sizes, home: Path | None
) -> DescribedPartition:
    """Return the described partition. `home`: the embedded brokers' folder, with their segment files; None for other
    brokers.
    """
    segments = {} if home is None else {at: segments_of(home, at, one.topic, one.number) for at in one.replicas}
    return DescribedPartition(
        number=one.number,
        leader=one.leader,
        replicas=tuple(
            DescribedReplica(
                broker=broker,
                in_sync=broker in one.in_sync,
                size=sizes.get((broker, one.number)),
                segments=segments.get(broker),
            )
            for broker in one.replicas
        ),
        held=held if isinstance(held, PartitionView) else None,
    )


def _reading(found: Contracts, topic: str) -> tuple[ReadingContract, ...]:
    good = (
        ReadingContract(pipeline=one.pipeline, file=str(one.path), disposition=one.row_table.disposition)
        for one in found.good
        if one.topic == topic
    )
    broken = (
        ReadingContract(pipeline=one.name, file=str(one.path), problem=str(one.error))
        for one in found.broken
        if one.may_read(topic)
    )
    return (*good, *broken)


def segments_of(home: Path, broker: int, topic: str, partition: int) -> tuple[Segment, ...]:
    """Return the segments of a replica, oldest first; none if the broker does not have it. A broker that is down still
    has its files.
    """
    found = list[Segment]()
    for path in sorted((kafka_folder(home, broker) / "data" / f"{topic}-{partition}").glob("*.log")):
        try:
            found.append(Segment(name=path.name, size=path.stat().st_size))
        except FileNotFoundError:  # deleted meanwhile
            continue
    return tuple(found)
