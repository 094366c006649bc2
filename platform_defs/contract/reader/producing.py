"""The producers of a contract's topic: a preset (`producer`), and options besides (`producerOptions`)."""

from collections.abc import Mapping
from typing import Any

from platform_defs.contract.document.node import Node, as_mapping
from platform_defs.errors import BadInput
from platform_defs.producer_options.config import Producing, preset_named, refusal
from platform_defs.producer_options.options import OPTIONS, Value, own_name
from platform_defs.producer_options.presets import PRESETS
from platform_defs.producer_options.values import read_option


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
