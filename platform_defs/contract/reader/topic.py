"""The topic of a contract or of topics.yaml: its name and its settings; and in a contract its producers, as a preset
(`producer`) and options besides (`producerOptions`).
"""

from collections.abc import Mapping
from typing import Any

from platform_defs.contract.document.node import Node, as_mapping
from platform_defs.contract.document.section import read_values
from platform_defs.contract.keys.topic_keys import TOPIC_KEYS
from platform_defs.contract.model.topic import TopicKeys, is_topic_name
from platform_defs.errors import BadInput
from platform_defs.producer_options.config import Producing, preset_named, refusal
from platform_defs.producer_options.options import OPTIONS, Value, own_name
from platform_defs.producer_options.presets import PRESETS
from platform_defs.producer_options.values import read_option


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


def read_producing(written: Mapping[str, Node[Any]]) -> Producing:
    """Read it from the node of each value. Raises BadInput, at its line, for an unknown preset, option or value, and
    with librdkafka's message for options that contradict each other.
    """
    node = written.get("producer")
    preset = Producing().preset
    if node:
        try:
            preset = preset_named(node.value).name
        except BadInput as error:
            raise node.refused(error.problem) from None
    options = written.get("producerOptions")
    if options is None:
        return Producing(preset)
    found = _options(options)
    chosen = PRESETS[preset]
    if (wrong := refusal(chosen, {**chosen.options, **found})) is not None:
        raise _at(options, wrong[0]).refused(f"{wrong[1]} (preset {preset})")
    return Producing(preset, found)


def _options(node: Node[Any]) -> dict[str, Value]:
    written = as_mapping(node.value)
    if written is None:
        raise node.refused(f"producerOptions must be a mapping with librdkafka's option names, not {node.value!r}")
    found = dict[str, Value]()
    for key, value in written.items():
        try:
            name, read = read_option(key, value)
        except BadInput as error:
            raise node.child(key).refused(error.problem) from None
        if name in found:
            raise node.child(key).refused(f"{name} is set twice: librdkafka has two names for it")
        found[name] = read
    return found


def _at(node: Node[Any], option: str) -> Node[Any]:
    """Return the node of the option, or of the mapping if only the preset has it."""
    written = as_mapping(node.value) or {}
    return next((node.child(key) for key in written if own_name(str(key)) == option and option in OPTIONS), node)
