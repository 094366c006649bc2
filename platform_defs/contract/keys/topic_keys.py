"""The keys that declare how a topic is kept: in a contract at its message, or in topics.yaml. See
contract/keys/keys.py.

They decide nothing about rows: to the ledger, contracts that differ in them alone are the same contract.
"""

from platform_defs.contract.document.section import REQUIRED, Key, Section
from platform_defs.producing.options import OPTIONS, PROMISED
from platform_defs.producing.partitioners import OF_TOPICS_THAT_EXIST
from platform_defs.producing.presets import DEFAULT, PRESETS

_KEYS = (
    Key(
        "partitions",
        "The number of partitions. It is never reduced; adding partitions moves keys to other partitions.",
        "a positive whole number",
        "unchanged; for a new topic, the cluster's default",
        "12",
    ),
    Key(
        "replicationFactor",
        "The number of replicas of each partition.",
        "a positive whole number, at most 32767",
        "unchanged; for a new topic, the cluster's default",
        "3",
    ),
    Key(
        "config",
        "The topic's configuration, with Kafka's names. Names that are not listed are not changed; null removes an "
        "override, so that the cluster's default applies.",
        "a mapping",
        "as it is",
        "{min.insync.replicas: 2, retention.ms: 604800000}",
    ),
    Key(
        "keyOrder",
        "Whether messages with the same key must stay in one partition. strict: adding partitions is refused "
        "unless you pass `--break-key-order`.",
        "strict, none",
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
    (*_KEYS, *_PRODUCERS),
)

TOPICS_FILE = Section(
    "Topics without a contract",
    "topics[] of topics.yaml",
    "The file topics.yaml in the contracts' folder, beside the domains: topics that no contract reads, such as "
    "receipts or the topics of Kafka Connect.",
    (Key("name", "The topic.", "letters, digits, '.', '_' and '-', at most 249", REQUIRED, "bank.receipts"), *_KEYS),
)
