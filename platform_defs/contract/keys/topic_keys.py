"""The keys that declare how a topic is kept: in a contract at its message, or in topics.yaml. See
contract/keys/contract_keys.py.

They decide nothing about rows: to the ledger, contracts that differ in them alone are the same contract.
"""

from typing import Any, get_args

from platform_defs.contract.document.node import Node, as_list, as_mapping
from platform_defs.contract.document.section import REQUIRED, Key, Kind, Section
from platform_defs.contract.keys.value_kinds import whole, words
from platform_defs.contract.model.topic import SETTING, KeyOrder
from platform_defs.producer_options.options import OPTIONS, PROMISED
from platform_defs.producer_options.partitioners import OF_TOPICS_THAT_EXIST
from platform_defs.producer_options.presets import DEFAULT, PRESETS


def _config(node: Node[Any], _: str) -> dict[str, str | None]:
    """Return Kafka's name → value, as Kafka formats it. Raises BadInput for an invalid name, or for no single value."""
    written = as_mapping(node.value)
    if written is None:
        raise node.refused(f"config must be a mapping with Kafka's setting names, not {node.value!r}")
    for name in written:
        if not isinstance(name, str) or not SETTING.fullmatch(name):
            raise node.child(name).refused(f"{name!r} is not the name of a Kafka setting, such as retention.ms")
    return {name: None if value is None else _value(node.child(name)) for name, value in written.items()}


def _value(node: Node[Any]) -> str:
    """Return the value as Kafka writes it: true, 604800000, 0.5, compact,delete."""
    if as_list(node.value) is not None:
        return ",".join(map(_value, node.items()))
    if isinstance(node.value, bool):
        return str(node.value).lower()
    if isinstance(node.value, str | int | float):
        return str(node.value)
    raise node.refused(f"a config value must be text, a number, true, false or a list of these, not {node.value!r}")


TOPIC_KEYS = (
    Key(
        "partitions",
        "The number of partitions. It is never reduced; adding partitions moves keys to other partitions.",
        whole("a whole number from 1 to 2147483647", 2**31 - 1),  # int32 of CreateTopics
        "unchanged; for a new topic, the cluster's default",
        "12",
    ),
    Key(
        "replicationFactor",
        "The number of replicas of each partition.",
        whole("a whole number from 1 to 32767", 2**15 - 1),  # int16 of CreateTopics
        "unchanged; for a new topic, the cluster's default",
        "3",
    ),
    Key(
        "config",
        "The topic's configuration, with Kafka's names. Names that are not listed are not changed; null removes an "
        "override, so that the cluster's default applies.",
        Kind("a mapping", _config),
        "as it is",
        "{min.insync.replicas: 2, retention.ms: 604800000}",
    ),
    Key(
        "keyOrder",
        "Whether messages with the same key must stay in one partition. strict: adding partitions is refused "
        "unless you pass `--break-key-order`.",
        words(get_args(KeyOrder)),
        "strict if a table is upsert, else none",
        "strict",
    ),
)

_PRODUCERS = (
    Key(
        "producer",
        "How the topic is written: a preset of `tidegate presets`, which lists the guarantees of each.",
        ", ".join(PRESETS),
        DEFAULT,
        "synchronous",
    ),
    Key(
        "producerOptions",
        "librdkafka producer options that override the preset's. TIDEGATE_KAFKA_* override these, and --option "
        f"overrides both; {', '.join(PROMISED)} are never taken from TIDEGATE_KAFKA_*. Without partitioner, keys "
        f"go where Tidegate has always put them: {OF_TOPICS_THAT_EXIST}.",
        f"a mapping with any of {', '.join(OPTIONS)}",
        "none",
        "{linger.ms: 50, partitioner: keyed}",
    ),
)

TOPIC_PROPERTIES = Section(
    "The topic",
    "schema[physicalType: topic].customProperties[property]",
    "Topic settings that `tidegate topics` manages; it changes nothing that is not listed here. Each entry is "
    "{property, value}. Contracts for the same topic must agree. No key here changes the rows.",
    (*TOPIC_KEYS, *_PRODUCERS),
)

TOPICS_FILE = Section(
    "Topics without a contract",
    "topics[] of topics.yaml",
    "The file topics.yaml in the contracts' folder, next to the domains: topics that no contract reads, such as "
    "receipts or the topics of Kafka Connect.",
    (
        Key("name", "The topic.", "letters, digits, '.', '_' and '-', at most 249", REQUIRED, "bank.receipts"),
        *TOPIC_KEYS,
    ),
)
