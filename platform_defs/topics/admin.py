"""The current topics, and the steps that change them: create, configure, add partitions, delete.

A step is done when a description shows it: a broker answers before the others know. Configuration is set only by
IncrementalAlterConfigs: AlterConfigs would remove every override that is not named.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ConfigSource, NewPartitions, NewTopic, ResourceType

from platform_defs.errors import BadInput, BrokerAway, TidegateError, TopicMissing, error_policy
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.kafka.client.admin_client import override
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import Right, on_cluster
from platform_defs.kafka.observed import Partition
from platform_defs.kafka.topic_views import KafkaTopics, is_error
from platform_defs.topics.observed import Observed, ObservedTopic, same_value
from platform_defs.topics.steps import AddPartitions, Create, SetConfig, Step

SHOWN = 60.0  # seconds within which a change is in every description
BETWEEN = 0.1  # seconds between two descriptions
ANSWER = 10.0  # seconds that a producer waits for a description
ASKED = 30.0  # seconds for one request that changes something
Show = Callable[[str], None]


@dataclass
class TopicAdmin(KafkaTopics):
    """Reads topics, as KafkaTopics, and changes them. Raises BrokerAway, and BadInput for Kafka's refusals."""

    timeout: float = 15.0

    def observe(self, topics: Iterable[str]) -> Observed:
        """Return the cluster with the existing topics among `topics`. Raises for one that may not be described."""
        observed, refused = self.observe_all(topics)
        for error in refused.values():
            raise error
        return observed

    def observe_all(self, topics: Iterable[str]) -> tuple[Observed, Mapping[str, TidegateError]]:
        """As `observe`, with the errors of the `topics` that may not be described."""
        observed, refused = self.observe_each(list(dict.fromkeys(topics)))
        names = frozenset({*self.names(), *observed.topics})
        return replace(observed, names=names, defaults=self._defaults(min(observed.brokers))), refused

    def observe_each(self, topics: Sequence[str]) -> tuple[Observed, Mapping[str, TidegateError]]:
        """Return the cluster with the existing topics among `topics`, and the errors of undescribable ones."""
        admin = self._admin()
        cluster = self._value(admin.describe_cluster(request_timeout=self.timeout), "the cluster")
        admin.forget()
        brokers = {node.id: node.rack for node in cluster.nodes}
        found, refused = self._each(topics)
        return Observed(cluster.cluster_id, brokers, found, frozenset(found)), refused

    def dry_run(self, steps: Sequence[Step]) -> None:
        """Let Kafka validate the steps, except reassignments, without executing them. Raises BadInput for one that it
        would refuse.
        """
        for kind in (Create, SetConfig, AddPartitions):
            self._ask([step for step in steps if isinstance(step, kind)], check=True)

    def apply(self, steps: Sequence[Step], show: Show = lambda _: None) -> None:
        """Execute the steps except reassignments (platform_defs/topics/apply.py), in their order, and wait until each
        is visible. What was done stays done if one fails.
        """
        for kind in (Create, SetConfig, AddPartitions):
            chosen = [step for step in steps if isinstance(step, kind)]
            self._ask(chosen, check=False)
            for step in chosen:
                sentence = f"{step.topic}: {step.sentence()}"
                self._until(partial(self._is_shown, step), sentence)
                show(sentence)

    def made(self, topic: str, wanted: Callable[[], Create]) -> int:
        """Return the topic's number of partitions. Creates a missing topic as `wanted`."""
        if there := self._partitions(topic):
            return there
        try:
            self.apply([wanted()])
        except _MadeJustNow:
            if not self._partitions(topic):
                raise
        return self._partitions(topic)

    def topic_id(self, topic: str) -> str | None:
        """Return the topic's id; None if there is no such topic. Needs only Describe. Raises AccessDenied."""
        there = self._topics([topic], configured=False).get(topic)
        return there and there.topic_id

    def _partitions(self, topic: str) -> int:
        there = self._topics([topic], configured=False).get(topic)
        return len(there.partitions) if there else 0

    def delete(self, topic: str, topic_id: str) -> None:
        """Delete the topic with that id, and wait until it is gone."""
        there = self._topics([topic]).get(topic)
        if there is None or there.topic_id != topic_id:
            raise TopicMissing.named(topic)
        admin = self._admin()
        self._done(admin.delete_topics([topic], operation_timeout=ASKED, request_timeout=ASKED)[topic], topic, "delete")
        self._until(lambda: topic not in self._topics([topic]), f"{topic} still exists")

    def _topics(self, names: Sequence[str], *, configured: bool = True) -> dict[str, ObservedTopic]:
        """Return the existing topics by name. Raises any error of one except that it does not exist.

        Not `configured`: without settings, which need a separate right.
        """
        found, refused = self._each(names, configured=configured)
        for error in refused.values():
            raise error
        return found

    def _each(
        self, names: Sequence[str], *, configured: bool = True
    ) -> tuple[dict[str, ObservedTopic], dict[str, TidegateError]]:
        """Return the existing topics by name, and the errors of others, except missing ones."""
        if not names:
            return {}, {}
        described = self.described(list(names))
        there = [name for name, item in described.items() if not is_error(item)]
        wanted = [ConfigResource(ResourceType.TOPIC, name) for name in there] if configured else []
        settings: dict[str, Any] = self._configured(wanted) if wanted else {name: {} for name in there}
        answers = {name: item if is_error(item) else settings[name] for name, item in described.items()}
        found = {name: _observed(described[name], item) for name, item in answers.items() if not is_error(item)}
        wrong = {name: item for name, item in answers.items() if name not in found}
        return found, {name: error for name, error in wrong.items() if not isinstance(error, TopicMissing)}

    def names(self) -> Iterable[str]:
        """Return the name of every topic that this user may describe."""
        try:
            return self._admin().list_topics(timeout=self.timeout).topics
        except KafkaException as error:
            raise self._refused(error.args[0], "the cluster's topics") from error

    def _defaults(self, broker: int) -> dict[str, str]:
        """Return a broker's settings; none if this user may not read them."""
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        try:
            (found,) = self._configured([resource]).values()
        except BrokerAway:
            return {}
        if isinstance(found, TidegateError):
            return {}
        return {name: entry.value for name, entry in found.items() if entry.value is not None}

    def _ask(self, steps: Sequence[Step], *, check: bool) -> None:
        """Send one request for all the steps, which have one kind. Raises the first refusal after all were answered."""
        if not steps:
            return
        admin, how = self._admin(), {"request_timeout": ASKED, "validate_only": check}
        requests = [_request(step) for step in steps]
        if isinstance(steps[0], SetConfig):
            answers = admin.incremental_alter_configs(requests, **how)
            futures = {resource.name: future for resource, future in answers.items()}
        elif isinstance(steps[0], Create):
            futures = admin.create_topics(requests, **how)
        else:
            futures = admin.create_partitions(requests, **how)
        failed = list[TidegateError]()
        for topic, future in futures.items():
            try:
                self._done(future, topic, "create" if isinstance(steps[0], Create) else "change")
            except TidegateError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _done(self, future: "Future[Any]", topic: str, what: str) -> None:
        try:
            future.result(timeout=2 * ASKED)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise _MadeJustNow(
                    f"Kafka refuses the request to {what} {topic}: {reason.str()}. It was created just now, "
                    "or this user may not describe it (ACL Describe)",
                    field=topic,
                ) from error
            if error_policy.of_kafka(reason.name()) is ErrorPolicy.DENIED:
                needed = (Right("topic", topic, NEEDED[what]), on_cluster("Create"))
                raise refusal(reason, f"to {what} {topic}", needed, self.options) or error from error
            if reason.name() in REFUSALS:
                refused = f"Kafka refuses the request to {what} {topic}: {reason.str()}"
                raise BadInput(refused, field=topic) from error
            raise BrokerAway(
                f"Kafka did not {what} {topic}: {reason.str()}. To continue, run the command again"
            ) from error
        except TimeoutError as error:
            raise BrokerAway(f"Kafka did not answer whether it has {what}d {topic}. Run the command again") from error

    def _is_shown(self, step: Create | SetConfig | AddPartitions) -> bool:
        """Return True if the topic's description matches the step."""
        there = self._topics([step.topic], configured=isinstance(step, SetConfig)).get(step.topic)
        if there is None or not there.partitions:
            return False
        if isinstance(step, SetConfig):
            return all(same_value(there.overrides.get(name), value.becomes) for name, value in step.config.items())
        led = all(partition.leader is not None for partition in there.partitions)
        wanted = step.partitions if isinstance(step, Create) else step.becomes
        return led and wanted in (None, len(there.partitions))

    def _until(self, seen: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SHOWN
        while not seen():
            if time.monotonic() > deadline:
                raise BrokerAway(
                    f"Kafka accepted the change but does not show it after {SHOWN:.0f} s ({what}). Are all brokers "
                    "up? To continue, run the command again"
                )
            time.sleep(BETWEEN)


def made_topic(options: Mapping[str, str], topic: str, wanted: Callable[[], Create]) -> int:
    """Return the topic's number of partitions, for a producer; a missing topic is created as `wanted`. Raises
    BrokerAway soon, and only once.
    """
    return TopicAdmin(options, timeout=ANSWER).made(topic, wanted)


NEEDED = {  # by the change to the topic
    "create": ("Create", "Describe"),
    "change": ("Alter", "AlterConfigs", "DescribeConfigs"),
    "delete": ("Delete", "Describe"),
}
REFUSALS = {
    *("UNKNOWN_TOPIC_OR_PART", "TOPIC_EXCEPTION", "TOPIC_DELETION_DISABLED"),
    *("INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR", "INVALID_REPLICA_ASSIGNMENT", "INVALID_CONFIG"),
    *("INVALID_REQUEST", "POLICY_VIOLATION", "REASSIGNMENT_IN_PROGRESS", "UNSUPPORTED_VERSION", "_INVALID_ARG"),
}


def _observed(described: Any, config: Mapping[str, Any]) -> ObservedTopic:
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    partitions = (
        Partition(
            topic=described.name,
            number=one.id,
            leader=one.leader and one.leader.id,
            replicas=tuple(node.id for node in one.replicas),
            in_sync=tuple(node.id for node in one.isr),
        )
        for one in sorted(described.partitions, key=lambda one: one.id)
    )
    return ObservedTopic(
        str(described.topic_id),
        tuple(partitions),
        {name: entry.value for name, entry in config.items() if entry.source == own and entry.value is not None},
        {name: entry.value for name, entry in config.items() if entry.value is not None},
    )


def _request(step: Step) -> Any:
    """Return the step as confluent-kafka takes it. -1: the cluster's default (KIP-464)."""
    match step:
        case Create():
            config = dict(step.config)
            return NewTopic(step.topic, step.partitions or -1, step.replication_factor or -1, config=config)
        case SetConfig():
            entries = [override(name, value.becomes) for name, value in step.config.items()]
            return ConfigResource(ResourceType.TOPIC, step.topic, incremental_configs=entries)
        case AddPartitions():
            replicas = {} if step.replicas is None else {"replica_assignment": [list(one) for one in step.replicas]}
            return NewPartitions(step.topic, step.becomes, **replicas)
        case _:
            raise TypeError(step)


class _MadeJustNow(BadInput):
    """The topic exists, although it was not described."""
