"""The broker state that a run reads: a topic's current description, and its offsets at a time."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_END, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from platform_defs.errors import BadInput, BrokerAway, TidegateError, TopicMissing, error_policy
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.kafka.client.admin_client import admin_client
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import Right, to_describe, to_run
from platform_defs.offsets import PartitionView, TopicView
from platform_defs.settings.settings import settings

if TYPE_CHECKING:
    from platform_defs.kafka.leader_epochs import LeaderEpochs

ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # the answer of a broker without topic ids (KIP-516)


class _Transient(Exception):  # inside this module only: try again
    """The broker could not answer just now."""


@dataclass(frozen=True)
class KafkaBroker:
    """Describes topics. `options` are librdkafka's, with `bootstrap.servers`."""

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    timeout: float = 30.0  # seconds, over all tries of one query

    def describe(self, topic: str, partitions: Collection[int] | None = None, *, configured: bool = True) -> TopicView:
        """Return the topic's ids, low watermarks and last stable offsets (of `partitions` only, if given), and if
        `configured` whether and how it compacts, which needs the right DescribeConfigs.

        Raises BrokerAway if no complete answer came in time, TopicMissing, BadInput for a broker without topic ids.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(_Transient),
            stop=stop_after_delay(self.timeout),
            wait=wait_exponential_jitter(multiplier=0.1, max=2.0),
            reraise=True,
        )
        try:
            return retrying(self._describe, topic, partitions, configured=configured)
        except _Transient as error:
            raise BrokerAway(
                f"Kafka at {self.options['bootstrap.servers']} returned no metadata for topic {topic} "
                f"within {self.timeout:.0f} s: {error}. Nothing was changed. {settings().kafka_advice}"
            ) from error

    def leader_epochs(self, topic: str) -> "AbstractContextManager[LeaderEpochs]":
        """Return a reader of the topic's messages' leader epochs (resolve/settled_log.py)."""
        # a consumer's module: not needed to describe topics
        from platform_defs.kafka.leader_epochs import leader_epochs

        return leader_epochs(self.options, topic)

    def _describe(self, topic: str, wanted: Collection[int] | None, *, configured: bool) -> TopicView:
        needed = to_run(topic) if configured else to_describe(topic)
        asked = _Asked(admin_client(self.options), self.options, f"to describe {topic}", (needed,))
        admin = asked.client
        cluster = asked.answer(admin.describe_cluster(request_timeout=5))
        described = asked.answer(admin.describe_topics(TopicCollection([topic]), request_timeout=5)[topic], topic)
        topic_id = str(described.topic_id)
        if topic_id == ZERO_ID or not cluster.cluster_id:
            raise BadInput(
                "the broker returns no topic ids, so a recreated topic cannot be distinguished from the old one. "
                "Use Kafka 3.1 or later, with topic ids",
                field=topic,
            )
        numbers = [item.id for item in described.partitions if wanted is None or item.id in wanted]
        partitions = [TopicPartition(topic, number) for number in numbers]
        view = TopicView(topic, cluster.cluster_id, topic_id, _watermarks(asked, partitions))
        return _configured(asked, view) if configured else view


@dataclass(frozen=True)
class _Asked:
    """A client for queries, and the rights that they need."""

    client: Any  # admin_client
    options: Mapping[str, str] = field(repr=False)  # as in KafkaBroker
    place: str
    needed: Sequence[Right]

    def answer(self, future: "Future[Any]", topic: str | None = None) -> Any:
        """Return the answer to a query. Raises _Transient, and the errors of `refusal`; TopicMissing if the answer is
        that `topic` does not exist.
        """
        try:
            return future.result(timeout=10)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if topic and reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicMissing.named(topic) from error
            raise self.failure(reason) from error
        except TimeoutError as error:
            raise _Transient("no answer within 10 s") from error

    def failure(self, reason: KafkaError) -> TidegateError | _Transient:
        """Return the error to raise for one of Kafka's."""
        given = self.client.denied if error_policy.of_kafka(reason.name()) is ErrorPolicy.AWAY else None
        return refusal(given or reason, self.place, self.needed, self.options) or _Transient(self.client.why(reason))


class BrokerPoll:
    """Returns at each call the error if no broker answers within 5 seconds; None if one answers, or refuses. It keeps
    one client as long as brokers answer, since it is called every few seconds.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options  # as in KafkaBroker
        self._client: Any = None

    def __call__(self) -> BrokerAway | None:
        client = self._client or admin_client(self._options)
        self._client = None  # a later client resolves the addresses again
        try:
            client.list_topics(timeout=5)  # any broker returns them; describe_cluster waits for the controller
        except KafkaException as error:
            failure = _Asked(client, self._options, "to list topics", ()).failure(error.args[0])
            if not isinstance(failure, _Transient):
                return None
            servers = self._options["bootstrap.servers"]
            return BrokerAway(f"no broker at {servers} answers: {failure}. {settings().kafka_advice}")
        client.forget()
        self._client = client
        return None


def _watermarks(asked: _Asked, partitions: list[TopicPartition]) -> dict[int, PartitionView]:
    """Return, by partition, low watermark, last stable offset and high watermark.

    A run is due by the last stable offset: by the high watermark, empty runs would start behind an open transaction.
    """
    if not partitions:  # a lagging broker answered; an empty query is refused
        return {}
    latest: dict[TopicPartition, Any] = dict.fromkeys(partitions, OffsetSpec.latest())
    earliest: dict[TopicPartition, Any] = dict.fromkeys(partitions, OffsetSpec.earliest())
    admin = asked.client
    ends = admin.list_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=5)
    highs = admin.list_offsets(latest, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=5)
    lows = admin.list_offsets(earliest, request_timeout=5)
    end = {p.partition: _found(asked, p, future) for p, future in ends.items()}
    high = {p.partition: _found(asked, p, future).offset for p, future in highs.items()}
    low = {p.partition: _found(asked, p, future).offset for p, future in lows.items()}
    return {p: PartitionView(low[p], end[p].offset, end[p].leader_epoch, high[p]) for p in low}


def _found(asked: _Asked, place: TopicPartition, future: "Future[Any]", least: int = 0) -> Any:
    """Return the answer about a partition's offset. If its leader died just now, librdkafka returns OFFSET_INVALID
    (-1001) and no error: used as an offset, it would look like a truncated log.
    """
    answer = asked.answer(future)
    if answer.offset < least:
        raise _Transient(f"partition {place.partition} of {place.topic} has no leader that answers")
    return answer


def _configured(asked: _Asked, view: TopicView) -> TopicView:
    """Return the view with what the topic's configuration says about compaction."""
    resource = ConfigResource(ResourceType.TOPIC, view.topic)
    config = asked.answer(asked.client.describe_configs([resource], request_timeout=5)[resource])
    if "compact" not in config["cleanup.policy"].value:
        return view
    kept, delay = (config.get(name) for name in ("delete.retention.ms", "min.compaction.lag.ms"))
    milliseconds = int((kept and kept.value) or 0) + int((delay and delay.value) or 0)  # 0 if the broker does not say
    return replace(view, compacted=True, tombstone_seconds=milliseconds / 1000)


def offsets_at(options: Mapping[str, str], topic: str, milliseconds: int) -> dict[int, int]:
    """Return, by partition, the first offset whose timestamp is `milliseconds` since the epoch or later, or the end.

    Raises TopicMissing, and BrokerAway if no answer came.
    """
    admin = admin_client(options)
    asked = _Asked(admin, options, f"to list offsets of {topic}", (to_describe(topic),))
    try:
        described = asked.answer(admin.describe_topics(TopicCollection([topic]), request_timeout=5)[topic], topic)
        places = [TopicPartition(topic, item.id) for item in described.partitions]
        found = admin.list_offsets(dict.fromkeys(places, OffsetSpec.for_timestamp(milliseconds)), request_timeout=5)
        at = {place.partition: _found(asked, place, future, least=OFFSET_END).offset for place, future in found.items()}
        ends = {number: held.end for number, held in _watermarks(asked, places).items()}
    except _Transient as error:
        raise BrokerAway(f"Kafka returned no offsets by time for topic {topic}: {error}") from error
    return {number: offset if offset >= 0 else ends[number] for number, offset in at.items()}
