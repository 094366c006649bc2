"""The settings of a topic, as declared at a contract's message or in topics.yaml."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from platform_defs.errors import BadInput

KeyOrder = Literal["strict", "none"]
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's org.apache.kafka.common.internals.Topic
SETTING = re.compile(r"[a-z0-9]+(\.[a-z0-9]+)*")


@dataclass(frozen=True)
class TopicKeys:
    """The declared keys of a topic; None is not declared. A config value of None removes the topic's override."""

    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])  # values as Kafka has them
    key_order: KeyOrder | None = None
    lines: Mapping[str, int] = field(default_factory=dict[str, int])  # of each key; of config's: config.retention.ms

    @property
    def declared(self) -> bool:
        """True if anything is declared that a topic can differ from."""
        return self.partitions is not None or self.replication_factor is not None or bool(self.config)


NO_KEYS = TopicKeys()


def check_topic_name(text: str) -> None:
    """Raise BadInput for a text that cannot be the name of a topic."""
    if not is_topic_name(text):
        raise BadInput(
            f"{text!r} is not a valid topic name: use 1 to 249 letters, digits, '.', '_' and '-'", field="TOPIC"
        )


def is_topic_name(text: str) -> bool:
    """Return True if Kafka accepts a topic of this name."""
    return TOPIC.fullmatch(text) is not None and text not in (".", "..")
