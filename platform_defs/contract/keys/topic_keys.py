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
        "How many partitions the topic has. Never made fewer; more move keys to other partitions.",
        "a positive whole number",
        "as it is; of a new topic the cluster's",
        "12",
    ),
    Key(
        "replicationFactor",
        "On how many brokers each partition is.",
        "a positive whole number, at most 32767",
        "as it is; of a new topic the cluster's",
        "3",
    ),
    Key(
        "config",
        "The topic's configuration by Kafka's names. Names that are not listed are left alone; null takes an override "
        "away, so that the cluster's default holds.",
        "a mapping",
        "as it is",
        "{min.insync.replicas: 2, retention.ms: 604800000}",
    ),
    Key(
        "keyOrder",
        "Whether messages of one key have to stay in one partition. strict: more partitions are refused unless that is "
        "asked for (`--break-key-order`).",
        "strict, none",
        "strict where a table is upsert, else none",
        "strict",
    ),
)

_PRODUCERS = (
    Key(
        "producer",
        "How the topic is written: a preset of `tidegate presets`, which says what each promises.",
        ", ".join(PRESETS),
        DEFAULT,
        "synchronous",
    ),
    Key(
        "producerOptions",
        "Options of librdkafka's producer in place of the preset's. TIDEGATE_KAFKA_* come after them, and --option "
        f"after those; {', '.join(PROMISED)} are never taken from TIDEGATE_KAFKA_*. Without partitioner, keys go where "
        f"Tidegate has always put them: {OF_TOPICS_THAT_EXIST}.",
        f"a mapping with any of {', '.join(OPTIONS)}",
        "none",
        "{linger.ms: 50, partitioner: keyed}",
    ),
)

TOPIC_PROPERTIES = Section(
    "The topic",
    "schema[physicalType: topic].customProperties[property]",
    "How the topic is kept by `tidegate topics`, which touches nothing that is not written here. Each entry is "
    "{property, value}. Contracts of one topic have to agree. No key here changes what rows are.",
    (*_KEYS, *_PRODUCERS),
)

TOPICS_FILE = Section(
    "Topics without a contract",
    "topics[] of topics.yaml",
    "The file topics.yaml in the contracts' folder, beside the domains: topics that no contract reads, such as those "
    "of receipts or of Kafka Connect.",
    (Key("name", "The topic.", "letters, digits, '.', '_' and '-', at most 249", REQUIRED, "bank.receipts"), *_KEYS),
)
