"""The rights that a Kafka user needs, as the command lines that grant them: docs/how-to/kafka-rights.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["topic", "group", "transactional-id", "cluster"]

# The missing right among several, by the name of Kafka's error.
KINDS: Mapping[str, Kind] = {
    "TOPIC_AUTHORIZATION_FAILED": "topic",
    "GROUP_AUTHORIZATION_FAILED": "group",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "transactional-id",
    "CLUSTER_AUTHORIZATION_FAILED": "cluster",
}
PAGE = "docs/how-to/kafka-rights.md"


@dataclass(frozen=True)
class Right:
    """Operations on one resource. Read, Write, Alter and Delete include Describe, AlterConfigs DescribeConfigs."""

    kind: Kind
    name: str
    operations: tuple[str, ...]

    def command(self, options: Mapping[str, Any]) -> str:
        """Return the command that grants it to the user of `options`, librdkafka's."""
        words = ["kafka-acls.sh", "--bootstrap-server", str(options.get("bootstrap.servers", "...")), "--add"]
        user = options.get("sasl.username") or "..."  # without a user name, the certificate or token has it
        words += ["--allow-principal", f"User:{user}"]
        words += [word for operation in self.operations for word in ("--operation", operation)]
        return " ".join([*words, f"--{self.kind}", *([] if self.kind == "cluster" else [self.name])])


def to_run(topic: str) -> Right:
    """Return a pipeline's rights on its topic: messages, offsets, and whether the topic is compacted."""
    return Right("topic", topic, ("Read", "DescribeConfigs"))


def to_describe(topic: str, *, configured: bool = False) -> Right:
    """Return the rights to describe a topic; `configured`: its settings as well."""
    return Right("topic", topic, ("Describe", "DescribeConfigs") if configured else ("Describe",))


def to_write(topic: str) -> Right:
    """Return a producer's right. It includes idempotence since Kafka 3.0."""
    return Right("topic", topic, ("Write",))


def on_cluster(*operations: str) -> Right:
    """Return operations on the cluster itself."""
    return Right("cluster", "", operations)
