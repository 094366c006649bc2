"""The throttles of a reassignment: how fast replicas are copied, and which ones.

Kafka's own names (KIP-73): the rate is a broker's, in bytes a second, and applies to the replicas that the topic names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from platform_defs.errors import BrokerAway
from platform_defs.kafka.client.admin_client import admin_client, override
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import Right, on_cluster

LEADER, FOLLOWER = "leader.replication.throttled", "follower.replication.throttled"
TRIES = 3  # each with a new client, which may reach another broker (see kafka/descriptions.py)
Values = tuple[str | None, str | None]  # for the copies' sources and for their targets; None: the default


@dataclass(frozen=True)
class KafkaThrottles:
    """Sets and removes throttles. `options` are librdkafka's, with `bootstrap.servers`; `timeout` in seconds.

    Raises BrokerAway if a broker does not answer, BadInput if Kafka refuses. Repeating a call changes nothing.
    """

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    timeout: float = 30.0

    def limit(self, rate: int, brokers: Iterable[int], replicas: Mapping[str, tuple[str, str]]) -> None:
        """Copy at most `rate` bytes a second from and to each broker, for these replicas of each topic: the sources and
        the targets of copies (each "partition:broker,partition:broker").
        """
        self._alter([_resource(ResourceType.TOPIC, name, "replicas", values) for name, values in replicas.items()])
        self._limit_brokers(brokers, (str(rate), str(rate)))

    def remove(self, brokers: Iterable[int], topics: Iterable[str]) -> None:
        """Copy without limits again. A topic that no longer exists has none; a rate that stays on a broker, because it
        is unreachable now, limits nothing when no topic names its replicas.
        """
        self._alter([_resource(ResourceType.TOPIC, name, "replicas", (None, None)) for name in topics], missing=True)
        self._limit_brokers(brokers, (None, None))

    def _limit_brokers(self, brokers: Iterable[int], values: Values) -> None:
        for number in brokers:  # each needs its own request, so librdkafka takes one in a call
            self._alter([_resource(ResourceType.BROKER, str(number), "rate", values)])

    def _alter(self, resources: list[ConfigResource], *, missing: bool = False) -> None:
        left, message = resources, ""
        for _ in range(TRIES if resources else 0):
            failed = self._failures(left)
            if missing:
                failed = [(at, why) for at, why in failed if why.code() != KafkaError.UNKNOWN_TOPIC_OR_PART]
            if not failed:
                return
            at, why = failed[0]
            needed = (Right("topic", at.name, ("AlterConfigs",)), on_cluster("Alter", "AlterConfigs"))
            if (refused := refusal(why, "to set the throttles of a reassignment", needed, self.options)) is not None:
                raise refused
            left, message = [at for at, _ in failed], f"{failed[0][0].name}: {failed[0][1].str()}"
        if left:
            raise BrokerAway(
                f"Kafka did not accept the throttles of a reassignment ({message}). Are its brokers up? Once they "
                "are: tidegate cluster reassign status"
            )

    def _failures(self, resources: list[ConfigResource]) -> list[tuple[ConfigResource, KafkaError]]:
        client = admin_client(self.options)
        asked = client.incremental_alter_configs(resources, request_timeout=self.timeout / TRIES)
        failed: list[tuple[ConfigResource, KafkaError]] = []
        for resource, future in asked.items():
            try:
                future.result()
            except KafkaException as error:
                failed.append((resource, error.args[0]))
        return failed


def _resource(kind: ResourceType, name: str, what: str, values: Values) -> ConfigResource:
    named = zip((LEADER, FOLLOWER), values, strict=True)
    return ConfigResource(kind, name, incremental_configs=[override(f"{prefix}.{what}", to) for prefix, to in named])
