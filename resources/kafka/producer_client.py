"""librdkafka's producer, made of what was configured and what a preset chose."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException

from platform_defs.errors import BadInput, BrokerAway, TopicMissing
from platform_defs.producing.options import OPTIONS, own_name
from resources.kafka.admin import admin_client

QUIET = {"log_level": 2}  # what librdkafka would log of a broker that is away is said once, in the error raised
ANSWER = 10  # seconds that Kafka may take to describe a topic


def existing_partitions(options: Mapping[str, Any], topic: str) -> int:
    """How many partitions the topic has. Raises TopicMissing, BrokerAway."""
    admin = admin_client({**connection_options(options), **QUIET})
    try:
        found = admin.list_topics(topic, timeout=ANSWER).topics.get(topic)
    except KafkaException as error:
        servers = str(options.get("bootstrap.servers", ""))
        raise BrokerAway(f"Kafka at {servers} did not answer: {error.args[0].str()}. Nothing was sent") from error
    if found is None or not found.partitions:
        raise TopicMissing.named(topic)
    return len(found.partitions)


def connection_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a configuration that say where Kafka is and who asks, and not how messages are produced."""
    return {name: value for name, value in options.items() if own_name(name) not in OPTIONS}


def new_client(conf: dict[str, Any], preset: str) -> confluent_kafka.Producer:
    """Raises BadInput where librdkafka does not take the configuration."""
    try:
        return confluent_kafka.Producer(conf)
    except KafkaException as error:  # what choose() does not know of: a certificate that is not there, say
        said = error.args[0].str().strip()
        raise BadInput(f"librdkafka makes no producer of preset {preset}: {said}") from error


def warn_of(names: Iterable[str], preset: str) -> None:
    """Log which options of the environment were not used."""
    for name in names:
        logging.getLogger("tidegate").warning(
            "%s is not taken from TIDEGATE_KAFKA_*: it would change what preset %s promises. Set it in the contract's "
            "producerOptions, or with --option",
            name,
            preset,
        )
