"""librdkafka's producer, from the configuration and a preset's options."""

from collections.abc import Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException

from platform_defs.errors import AccessDenied, BadInput, BrokerAway, TopicMissing
from platform_defs.kafka.client.admin_client import admin_client
from platform_defs.kafka.client.connection_log import NO_LOG, ConnectionLog
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import to_write
from platform_defs.producer_options.options import OPTIONS, own_name
from platform_defs.settings.settings import settings

ANSWER = 10  # seconds that Kafka may take to describe a topic


class ListeningProducer(confluent_kafka.Producer):
    """A producer that knows why it could not deliver: it must be polled often."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        self.connection_log = ConnectionLog()
        super().__init__({**conf, "error_cb": self.connection_log})


def existing_partitions(options: Mapping[str, Any], topic: str) -> int:
    """Return the topic's number of partitions. Raises TopicMissing, BrokerAway, AccessDenied."""
    admin = admin_client({**NO_LOG, **connection_options(options)})
    try:
        found = admin.list_topics(topic, timeout=ANSWER).topics.get(topic)
    except KafkaException as error:
        reason = admin.denied or error.args[0]
        servers = str(options.get("bootstrap.servers", ""))
        away = BrokerAway(
            f"Kafka at {servers} did not answer: {admin.why(reason)}. Nothing was sent. {settings().kafka_advice}"
        )
        raise refusal(reason, f"to describe {topic}", (to_write(topic),), options) or away from error
    if found is None or not found.partitions:
        hidden = found and found.error and refusal(found.error, f"to describe {topic}", (to_write(topic),), options)
        raise hidden or TopicMissing.named(topic)
    return len(found.partitions)


def connection_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a configuration for the address and the login, without those for producing messages."""
    return {name: value for name, value in options.items() if own_name(name) not in OPTIONS}


def new_client(conf: dict[str, Any], preset: str) -> ListeningProducer:
    """Return the client. Raises BadInput if librdkafka does not take the configuration."""
    try:
        return ListeningProducer(conf)
    except KafkaException as error:  # unknown to choose(): a missing certificate, for example
        if isinstance(refused := refusal(error.args[0], "a producer", (), conf), AccessDenied):
            raise refused from error
        message = error.args[0].str().strip()
        raise BadInput(f"librdkafka cannot create a producer with preset {preset}: {message}") from error
