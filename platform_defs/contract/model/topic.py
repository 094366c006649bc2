"""The settings of a topic, as declared at a contract's message or in topics.yaml: `TopicKeys`, and their reader."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from platform_defs.contract.document.node import Node, as_list, as_mapping, one_of
from platform_defs.errors import BadInput

KeyOrder = Literal["strict", "none"]
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's org.apache.kafka.common.internals.Topic
_CONFIG = re.compile(r"[a-z0-9]+(\.[a-z0-9]+)*")
_MOST = {"partitions": 2**31 - 1, "replicationFactor": 2**15 - 1}  # int32 and int16 of CreateTopics


@dataclass(frozen=True)
class TopicKeys:
    """The declared keys of a topic; None is not declared. A config value of None removes the topic's override."""

    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])  # values as Kafka has them
    key_order: KeyOrder | None = None
    lines: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  # of each key, and of config's: config.retention.ms

    @property
    def declared(self) -> bool:
        """True if anything is declared that a topic can differ from."""
        return self.partitions is not None or self.replication_factor is not None or bool(self.config)


NO_KEYS = TopicKeys()


def read_topic_keys(written: Mapping[str, Node[Any]]) -> TopicKeys:
    """Return the keys, from the node of each value. Raises BadInput for an impossible one."""
    config = written.get("config")
    return TopicKeys(
        partitions=_count("partitions", written),
        replication_factor=_count("replicationFactor", written),
        config=read_config(config) if config else {},
        key_order=_key_order(written.get("keyOrder")),
        lines={name: line for key, node in written.items() for name, line in _lines(key, node)},
    )


def check_topic_name(text: str) -> None:
    """Raise BadInput for a text that cannot be the name of a topic."""
    if not _is_name(text):
        raise BadInput(
            f"{text!r} is not a valid topic name: use 1 to 249 letters, digits, '.', '_' and '-'",
            field="TOPIC",
        )


def _is_name(text: str) -> bool:
    return TOPIC.fullmatch(text) is not None and text not in (".", "..")


def checked_topic(node: Node[Any]) -> str:
    """Return the name if Kafka accepts it. Raises BadInput otherwise."""
    topic = node.value
    if not isinstance(topic, str) or not _is_name(topic):
        hint = f"{node.place[-1]} must be a topic name: at most 249 letters, digits, '.', '_' and '-'"
        raise node.refused(f"{hint}; not {topic or ''!r}")
    return topic


def read_config(node: Node[Any]) -> dict[str, str | None]:
    """Return Kafka's name → value, as Kafka formats it. Raises BadInput for an invalid name, or for no single value."""
    written = as_mapping(node.value)
    if written is None:
        raise node.refused(f"config must be a mapping with Kafka's setting names, not {node.value!r}")
    found = dict[str, str | None]()
    for name, value in written.items():
        if not isinstance(name, str) or not _CONFIG.fullmatch(name):
            raise node.child(name).refused(f"{name!r} is not the name of a Kafka setting, such as retention.ms")
        found[name] = None if value is None else _text(node.child(name))
    return found


def _lines(key: str, node: Node[Any]) -> list[tuple[str, int]]:
    below = [node.child(name) for name in as_mapping(node.value) or ()] if key == "config" else []
    return [(key, node.line), *((f"config.{item.place[-1]}", item.line) for item in below)]


def _count(key: str, written: Mapping[str, Node[Any]]) -> int | None:
    if key not in written:
        return None
    node, most = written[key], _MOST[key]
    if isinstance(node.value, bool) or not isinstance(node.value, int) or not 1 <= node.value <= most:
        raise node.refused(f"{key} must be a whole number from 1 to {most}, not {node.value!r}")
    return node.value


def _key_order(node: Node[Any] | None) -> KeyOrder | None:
    if node is None:
        return None
    if node.value not in get_args(KeyOrder):
        raise node.refused(f"unknown keyOrder {node.value!r}; {one_of(get_args(KeyOrder), str(node.value))}")
    return node.value


def _text(node: Node[Any]) -> str:
    """Return the value as Kafka writes it: true, 604800000, 0.5, compact,delete."""
    items = as_list(node.value)
    if items is not None:
        return ",".join(_text(node.child(position)) for position in range(len(items)))
    if isinstance(node.value, bool):
        return str(node.value).lower()
    if isinstance(node.value, str | int | float):
        return str(node.value)
    raise node.refused(f"a config value must be text, a number, true, false or a list of these, not {node.value!r}")
