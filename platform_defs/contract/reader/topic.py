"""The topic of a contract or of topics.yaml: its name and its settings."""

from collections.abc import Mapping
from typing import Any

from platform_defs.contract.document.node import Node
from platform_defs.contract.document.section import read_values
from platform_defs.contract.keys.topic_keys import TOPIC_KEYS
from platform_defs.contract.model.topic import TopicKeys, is_topic_name


def checked_topic(node: Node[Any]) -> str:
    """Return the name if Kafka accepts it. Raises BadInput otherwise."""
    topic = node.value
    if not isinstance(topic, str) or not is_topic_name(topic):
        hint = f"{node.place[-1]} must be a topic name: at most 249 letters, digits, '.', '_' and '-'"
        raise node.refused(f"{hint}; not {topic or ''!r}")
    return topic


def read_topic_keys(written: Mapping[str, Node[Any]]) -> TopicKeys:
    """Return the keys, from the node of each value. Raises BadInput for an impossible one."""
    found = read_values(TOPIC_KEYS, written)
    lines = {key: node.line for key, node in written.items()}
    for name in found.get("config", ()):
        lines[f"config.{name}"] = written["config"].child(name).line
    return TopicKeys(**found, lines=lines)
