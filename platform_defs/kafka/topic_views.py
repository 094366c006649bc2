"""Descriptions of many topics at once: a few queries for all of them, over a client that is kept.

For polling, every few seconds. A run uses `platform_defs.kafka.broker`, with a new client each time: before it
publishes it must not trust what a client remembers of the brokers.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from platform_defs.errors import BadInput, BrokerAway, TidegateError, TopicMissing
from platform_defs.kafka.broker import ZERO_ID
from platform_defs.kafka.client.admin_client import admin_client
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import to_describe
from platform_defs.offsets import PartitionView, TopicView
from platform_defs.settings.settings import settings

KEPT = 600.0  # seconds: then a new client resolves the address again, which may lead to other brokers by now
LOWS = 60.0  # seconds for which low watermarks are kept: half of a poll's answers
Facts = Mapping[str, int | str]


@dataclass
class KafkaTopics:
    """Reads topics. `options` are librdkafka's, with `bootstrap.servers`; `timeout` in seconds is for each query.

    One topic's error is its own answer, a TidegateError, and hides no other; a refusal about the cluster is the answer
    for each. BrokerAway is raised only if no broker answers at all.
    """

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    timeout: float = 5.0
    _client: Any = None
    _made: float = 0.0
    _lows: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    _lows_asked: float = 0.0

    def views(self, topics: Iterable[str]) -> dict[str, TopicView | TidegateError]:
        """Return each topic's ids, low watermarks and last stable offsets, but not whether it compacts."""
        names = list(dict.fromkeys(topics))
        if not names:
            return {}
        try:
            admin = self._admin()  # kept while it answers: the futures of a collected client are cancelled
            cluster = self._value(admin.describe_cluster(request_timeout=self.timeout), "the cluster").cluster_id
            admin.forget()
        except BrokerAway:
            self._client = None  # the next poll starts again from the bootstrap address
            raise
        except TidegateError as refused:
            return dict.fromkeys(names, refused)
        described = self.described(names)
        topics = (one for one in described.values() if not is_error(one))
        led = [
            TopicPartition(one.name, item.id) for one in topics for item in one.partitions if item.leader is not None
        ]
        offsets = self._offsets(led)
        return {name: self._view(name, cluster, described[name], offsets) for name in names}

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the last stable offset of each of these partitions, in one query, without the partitions that Kafka
        gives no answer for. Raises BrokerAway if no broker answers.
        """
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for topic, partition in places}
        if not asked:
            return {}
        admin = self._admin()
        found = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self.timeout)
        answers = {(at.topic, at.partition): self._offset(future, at.topic) for at, future in found.items()}
        away = [answer for answer in answers.values() if isinstance(answer, BrokerAway)]
        if len(away) == len(answers):
            self._client = None
            raise away[0]
        return {at: answer.offset for at, answer in answers.items() if not is_error(answer)}

    def facts(self, topics: Iterable[str]) -> dict[str, Facts | TidegateError]:
        """Return each topic's configuration: partitions, replication_factor, retention_ms, retention_bytes,
        min_insync_replicas, cleanup_policy.
        """
        names = list(dict.fromkeys(topics))
        if not names:
            return {}
        described = self.described(names)
        wanted = [ConfigResource(ResourceType.TOPIC, name) for name in names if not is_error(described[name])]
        settings = self._configured(wanted) if wanted else {}
        return {name: _facts(described[name], settings.get(name)) for name in names}

    def _configured(self, wanted: list[ConfigResource]) -> dict[str, Any]:
        """Return the configuration of each topic, or its error."""
        admin = self._admin()
        found = admin.describe_configs(wanted, request_timeout=self.timeout)
        return {resource.name: self._answer(future, resource.name) for resource, future in found.items()}

    def _admin(self) -> Any:
        now = time.monotonic()
        if self._client is None or now - self._made > KEPT:
            self._client, self._made = admin_client(self.options), now
        return self._client

    def described(self, names: list[str]) -> dict[str, Any]:
        """Return confluent-kafka's description of each topic, or its error."""
        admin = self._admin()
        found = admin.describe_topics(TopicCollection(names), request_timeout=self.timeout)
        return {name: self._answer(future, name) for name, future in found.items()}

    def _offsets(self, places: Sequence[TopicPartition]) -> dict[tuple[str, int], PartitionView | TidegateError]:
        """Return bounds by topic and partition. The end is the last stable offset: nothing after it is unread."""
        if not places:
            return {}
        latest: dict[TopicPartition, Any] = dict.fromkeys(places, OffsetSpec.latest())
        admin = self._admin()
        ends = admin.list_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self.timeout)
        lows = self._low_watermarks(places)
        found = dict[tuple[str, int], PartitionView | TidegateError]()
        for place, end in ends.items():
            at = place.topic, place.partition
            low, last = lows[at], self._offset(end, place.topic)
            if isinstance(low, TidegateError):
                found[at] = low
            else:
                found[at] = last if is_error(last) else PartitionView(low, last.offset, last.leader_epoch)
        return found

    def _low_watermarks(self, places: Sequence[TopicPartition]) -> dict[tuple[str, int], int | TidegateError]:
        """Return low watermarks by topic and partition, up to LOWS seconds old. They only grow: a run notices."""
        now = time.monotonic()
        if now - self._lows_asked > LOWS:
            self._lows, self._lows_asked = {}, now
        kept = self._lows  # another sensor's poll may start again meanwhile
        unknown = [place for place in places if (place.topic, place.partition) not in kept]
        earliest: dict[TopicPartition, Any] = dict.fromkeys(unknown, OffsetSpec.earliest())
        admin = self._admin()
        found: Any = admin.list_offsets(earliest, request_timeout=self.timeout) if unknown else {}
        answers = {(at.topic, at.partition): self._offset(future, at.topic) for at, future in found.items()}
        kept |= {at: answer.offset for at, answer in answers.items() if not is_error(answer)}
        return kept | {at: answer for at, answer in answers.items() if is_error(answer)}

    def _view(
        self, topic: str, cluster: str, described: Any, offsets: Mapping[tuple[str, int], PartitionView | TidegateError]
    ) -> TopicView | TidegateError:
        if is_error(described):
            return described
        topic_id = str(described.topic_id)
        if topic_id == ZERO_ID or not cluster:
            return BadInput("the broker returns no topic ids. Use Kafka 3.1 or later, with topic ids", field=topic)
        found: dict[int, PartitionView] = {}
        for item in described.partitions:
            held = offsets.get((topic, item.id))
            if held is None:
                return BrokerAway(f"partition {item.id} of {topic} has no leader at the moment")
            if isinstance(held, TidegateError):
                return held
            found[item.id] = held
        return TopicView(topic, cluster, topic_id, found)

    def _offset(self, future: "Future[Any]", topic: str) -> Any:
        """As `_answer`. If a leader died just now, librdkafka returns OFFSET_INVALID (-1001) and no error."""
        answer = self._answer(future, topic)
        if is_error(answer) or answer.offset >= 0:
            return answer
        return BrokerAway(f"a partition of {topic} has no leader that answers at the moment")

    def _answer(self, future: "Future[Any]", topic: str) -> Any:
        """Return the answer about one topic, or the error that takes its place."""
        try:
            return self._value(future, topic)
        except TidegateError as error:
            return error

    def _value(self, future: "Future[Any]", subject: str) -> Any:
        """Return the answer. Raises BrokerAway for none, and for a transient error; else the errors of `refusal`."""
        try:
            return future.result(timeout=2 * self.timeout)
        except KafkaException as error:
            raise self._refused(error.args[0], subject) from error
        except TimeoutError as error:
            raise self._away("no answer in time") from error

    def _refused(self, reason: KafkaError, subject: str) -> TidegateError:
        if reason.name() in _NO_ANSWER and self._client is not None:
            reason = self._client.denied or reason
        if reason.name() in _NO_ANSWER:
            return self._away(self._client.why(reason) if self._client is not None else reason.str())
        if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return TopicMissing.named(subject)
        needed = to_describe(subject, configured=True)
        refused = refusal(reason, f"to describe {subject}", (needed,), self.options)
        message = f"Kafka at {self.options['bootstrap.servers']} does not describe {subject}: {reason.str()}"
        return refused or BrokerAway(message)

    def _away(self, why: str) -> BrokerAway:
        return BrokerAway(
            f"Kafka at {self.options['bootstrap.servers']} did not answer within {self.timeout:.0f} s: {why}. "
            f"{settings().kafka_advice}"
        )


_NO_ANSWER = {"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"}


def is_error(answer: Any) -> bool:
    """Return True if the error of a topic takes the place of its answer."""
    return isinstance(answer, TidegateError)


def _facts(described: Any, config: Any) -> Facts | TidegateError:
    if is_error(described) or is_error(config):
        return described if is_error(described) else config
    return {
        "partitions": len(described.partitions),
        "replication_factor": min(len(item.replicas) for item in described.partitions),
        "retention_ms": int(config["retention.ms"].value),
        "retention_bytes": int(config["retention.bytes"].value),
        "min_insync_replicas": int(config["min.insync.replicas"].value),
        "cleanup_policy": config["cleanup.policy"].value,
    }
