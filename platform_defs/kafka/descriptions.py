"""Topics and brokers as the brokers describe them, with a test whether each broker answers; and elections.

librdkafka sends administrators' requests to DescribeCluster's controller, which in KRaft is any broker that was alive
when it was named (apache/kafka#14306), and waits for that one. So what an unhealthy cluster must still answer comes
from metadata, which any broker gives; the rest is retried with a new client, which may reach another broker.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from confluent_kafka import ElectionType, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, ConfigSource, OffsetSpec, ResourceType

from platform_defs.errors import BrokerAway, TidegateError, TopicMissing, error_policy
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.kafka.client.admin_client import admin_client
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import Right, on_cluster, to_describe
from platform_defs.kafka.observed import Broker, Partition
from platform_defs.kafka.throttles import FOLLOWER, LEADER
from platform_defs.offsets import PartitionView
from platform_defs.settings.settings import settings

ANSWER = 3.0  # seconds in which a broker answers, or counts as silent
AT_ONCE = 16  # brokers that are queried at the same time
TRIES = 3
ELECTION = 20.0  # seconds
MINIMUM = "min.insync.replicas"
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
class Setting:
    """A setting in effect for the topic, and the source of its value. A secret has no value."""

    name: str
    value: str | None
    source: Source

    @property
    def shown(self) -> bool:
        return self.source != "default" or self.name in SHOWN


@dataclass(frozen=True)
class Topics:
    """The partitions of topics, as a broker describes them; their `min_in_sync` is not known yet. `brokers` are those
    that the controller considers alive.
    """

    cluster_id: str
    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]


@dataclass(frozen=True)
class KafkaPartitions:
    """Queries to a cluster. `options` are librdkafka's, with `bootstrap.servers`; `timeout` in seconds, for each query.

    Raises BrokerAway if no broker answers in time, BadInput if Kafka refuses.
    """

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    timeout: float = 8.0

    def topics(self, names: Iterable[str] | None = None, needed: Right | None = None) -> Topics:
        """Return these topics, or all. Raises TopicMissing for one of `names`, and AccessDenied for one that this user
        may not describe; the error names the right `needed`, Describe by default.
        """
        message = self._answer("to list the topics", lambda client: client.list_topics(timeout=self.timeout / TRIES))
        wanted = sorted(message.topics) if names is None else list(dict.fromkeys(names))
        if missing := [name for name in wanted if name not in message.topics]:
            self.topic_ids(missing[:1], needed)  # metadata omits topics that may not be described; this call is refused
            raise TopicMissing.named(missing[0])
        return Topics(
            message.cluster_id,
            tuple(Broker(one.id, f"{one.host}:{one.port}") for _, one in sorted(message.brokers.items())),
            tuple(
                _partition(name, item) for name in wanted for _, item in sorted(message.topics[name].partitions.items())
            ),
        )

    def asked(self, brokers: Sequence[Broker]) -> tuple[Broker, ...]:
        """Return the brokers, each with whether it answers at its advertised address."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(self._answers, brokers))
        return tuple(replace(broker, answers=answer) for broker, answer in zip(brokers, answers, strict=True))

    def limits(self, topics: Sequence[str]) -> dict[str, tuple[int, bool]]:
        """Return min.insync.replicas, and True if copies of replicas are throttled, for each topic that exists and
        whose settings this user may see.
        """
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        if not resources:
            return {}

        def ask(client: Any) -> dict[str, tuple[int, bool]]:
            asked = client.describe_configs(resources, request_timeout=self.timeout / TRIES)
            found = {at.name: _unless(_HIDDEN, future) for at, future in asked.items()}
            return {
                name: (int(config[MINIMUM].value), any(config[f"{one}.replicas"].value for one in (LEADER, FOLLOWER)))
                for name, config in found.items()
                if config is not None
            }

        return self._answer(f"to describe topics ({MINIMUM})", ask)

    def settings(self, topic: str) -> tuple[Setting, ...]:
        """Return every effective setting of a topic, by name. Needs the ACL DescribeConfigs on the topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        needed = to_describe(topic, configured=True)
        place = f"to describe the settings of {topic}"

        def ask(client: Any) -> tuple[Setting, ...]:
            entries = client.describe_configs([resource], request_timeout=self.timeout / TRIES)[resource].result()
            return tuple(
                Setting(name=name, value=entry.value, source=_source(entry.source))
                for name, entry in sorted(entries.items())
            )

        return self._answer(place, ask, needed)

    def bounds(self, partitions: Sequence[Partition], needed: Right) -> dict[int, PartitionView | TidegateError]:
        """Return low watermark, last stable offset and high watermark of partitions of one topic, by number; BrokerAway
        for one whose leader does not answer. `needed`: the right that the error names if it is missing.
        """
        found: dict[int, PartitionView | TidegateError] = {
            item.number: BrokerAway(f"{item} has no leader at the moment") for item in partitions
        }
        left: list[Any] = [TopicPartition(item.topic, item.number) for item in partitions if item.leader is not None]
        each = {"request_timeout": self.timeout / TRIES}

        def ask(client: Any) -> dict[int, PartitionView | TidegateError]:
            latest: dict[TopicPartition, Any] = dict.fromkeys(left, OffsetSpec.latest())
            earliest: dict[TopicPartition, Any] = dict.fromkeys(left, OffsetSpec.earliest())
            ends = client.list_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED, **each)
            highs = client.list_offsets(latest, isolation_level=IsolationLevel.READ_UNCOMMITTED, **each)
            lows = client.list_offsets(earliest, **each)
            return {at.partition: _view(at, lows[at], ends[at], highs[at]) for at in left}

        for _ in range(TRIES):  # a leader may have moved just now
            if left:
                found |= self._answer(f"to list offsets of {left[0].topic}", ask, needed)
                left = [at for at in left if isinstance(found[at.partition], TidegateError)]
        return found

    def topic_ids(self, topics: Sequence[str], needed: Right | None = None) -> dict[str, str]:
        """Return the id of each topic that exists. Raises AccessDenied for one that this user may not describe."""
        if not topics:
            return {}

        def ask(client: Any) -> dict[str, str]:
            asked = client.describe_topics(TopicCollection(list(topics)), request_timeout=self.timeout / TRIES)
            found = {name: _unless(_MISSING, future) for name, future in asked.items()}
            return {name: str(item.topic_id) for name, item in found.items() if item is not None}

        return self._answer("to describe topics", ask, needed or to_describe(topics[0]))

    def elect(self, partitions: Sequence[Partition], *, unclean: bool) -> dict[tuple[str, int], str]:
        """Elect the first replica of each, or with `unclean` any replica there is. Return Kafka's refusals, with the
        reason.

        A partition that needs no election is not among the refused.
        """
        if not partitions:
            return {}
        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        wanted = [TopicPartition(item.topic, item.number) for item in partitions]
        patient = {"socket.timeout.ms": str(int(ELECTION * 1000))}  # confluent-kafka 2.16 takes no other limit

        def ask(client: Any) -> Any:
            return client.elect_leaders(kind, wanted).result()

        found = self._answer("to elect leaders", ask, on_cluster("Alter"), patient)
        errors = {(at.topic, at.partition): error for at, error in found.items() if error is not None}
        return {at: error.str() for at, error in errors.items() if error.code() != KafkaError.ELECTION_NOT_NEEDED}

    def _answers(self, broker: Broker) -> bool:
        """Return True if the broker answers. The client knows only this address, so metadata comes only from there."""
        try:
            client = admin_client({**self.options, "bootstrap.servers": broker.address})
            return bool(client.list_topics(timeout=ANSWER).brokers)
        except KafkaException:
            return False

    def _answer(
        self, place: str, ask: Callable[[Any], Any], needed: Right | None = None, more: Mapping[str, str] | None = None
    ) -> Any:
        """Return the answer of any broker that a client reaches."""
        message = ""
        for _ in range(TRIES):
            # kept while it answers: the futures of a collected client are cancelled
            client = admin_client({**self.options, **(more or {})})
            try:
                return ask(client)
            except KafkaException as error:
                reason: KafkaError = client.denied or error.args[0]
                if (refused := refusal(reason, place, [needed] if needed else (), self.options)) is not None:
                    raise refused from error
                message = client.why(reason)
        raise BrokerAway(
            f"Kafka at {self.options['bootstrap.servers']} did not answer the request {place}: {message}. "
            f"{settings().kafka_advice}"
        )


_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART,)
_HIDDEN = (*_MISSING, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def _unless(codes: Sequence[int], future: Any) -> Any:
    """Return the answer; None if it is one of these errors."""
    try:
        return future.result()
    except KafkaException as error:
        if error.args[0].code() in codes:
            return None
        raise


def _source(number: int) -> Source:
    if number == ConfigSource.DYNAMIC_TOPIC_CONFIG.value:
        return "topic"
    return "default" if number == ConfigSource.DEFAULT_CONFIG.value else "broker"  # dynamic or in its file


def _view(place: TopicPartition, low: Any, end: Any, high: Any) -> PartitionView | TidegateError:
    """Return the leader's answer; BrokerAway if it gives none. Raises KafkaException for a refusal."""
    try:
        first, last, written = low.result(), end.result(), high.result()
    except KafkaException as error:
        if error_policy.of_kafka(error.args[0].name()) is not ErrorPolicy.AWAY:
            raise
        return BrokerAway(f"the leader of {place.topic}[{place.partition}] does not answer: {error.args[0].str()}")
    if min(first.offset, last.offset, written.offset) < 0:  # OFFSET_INVALID: the leader died just now
        return BrokerAway(f"the leader of {place.topic}[{place.partition}] does not answer")
    return PartitionView(first.offset, last.offset, last.leader_epoch, written.offset)


def _partition(topic: str, item: Any) -> Partition:
    leader = None if item.leader < 0 else item.leader
    return Partition(topic, item.id, leader, tuple(item.replicas), tuple(item.isrs))
