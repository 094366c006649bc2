"""Topics as Kafka describes them to `tidegate doctor`: leaders, replicas, and this user's rights."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from platform_defs.doctor.findings.topics import RIGHTS, TopicState, TopicTrouble
from platform_defs.kafka.client.admin_client import admin_client

NO_RIGHT = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


def topic_states(
    options: Mapping[str, str], topics: Sequence[str], seconds: float
) -> dict[str, TopicState | TopicTrouble]:
    """Return each topic's state, or why there is none. Two queries for all of them, at most `seconds` each."""
    if not topics:
        return {}
    admin = admin_client(options)
    described = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=seconds
    )
    asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    configured = admin.describe_configs(asked, request_timeout=seconds)
    least = {resource.name: _min_in_sync(future, seconds) for resource, future in configured.items()}
    return {topic: _state(future, least[topic], seconds) for topic, future in described.items()}


def _state(future: "Future[Any]", least: int | None, seconds: float) -> TopicState | TopicTrouble:
    try:
        found = future.result(timeout=seconds + 1)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return TopicTrouble("missing")
        kind = "no_right" if reason.code() in NO_RIGHT else "no_answer"
        return TopicTrouble(kind, f"{reason.str()} ({reason.name()})")
    except TimeoutError:
        return TopicTrouble("no_answer", f"no answer within {seconds:g} s")
    allowed = {operation.name.lower() for operation in found.authorized_operations or ()}
    # A broker without an authorizer allows all; librdkafka returns None if it was not reported.
    missing = [name for right, name in RIGHTS.items() if allowed and right not in allowed]
    return TopicState(
        {one.id: None if one.leader is None or one.leader.id < 0 else one.leader.id for one in found.partitions},
        {one.id: [node.id for node in one.replicas] for one in found.partitions},
        {one.id: [node.id for node in one.isr] for one in found.partitions},
        least,
        missing,
    )


def _min_in_sync(future: "Future[Any]", seconds: float) -> int | None:
    try:
        return int(future.result(timeout=seconds + 1)["min.insync.replicas"].value)
    except (KafkaException, TimeoutError, KeyError, TypeError, ValueError):  # Kafka's API without Kafka's settings
        return None
