"""Topic settings in contracts and topics.yaml, which change nothing about rows."""

from pathlib import Path

import pytest

from platform_defs.contract.model.digest import definitions_digest
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.topic import TopicKeys
from platform_defs.contract.odcs_writer import contract_digest, same_words, text
from platform_defs.contract.reader.odcs import load
from platform_defs.contract.reader.topics_file import ListedTopic, read_topics_file
from platform_defs.errors import BadInput
from tests.unit.contract.contract_mistakes import GOOD

HERE = Path("orders.odcs.yaml")
PLACE = (
    "    physicalName: shop.orders\n    properties:\n      - name: order_id\n        logicalType: string\n        req"
)
KEYS = """\
    customProperties:
      - {property: partitions, value: 12}
      - {property: replicationFactor, value: 3}
      - property: config
        value:
          min.insync.replicas: 2
          retention.ms: 604800000
          min.cleanable.dirty.ratio: 0.5
          unclean.leader.election.enable: false
          cleanup.policy: [compact, delete]
          max.message.bytes: null
      - {property: keyOrder, value: strict}
"""


def contract_text(keys: str) -> str:
    assert GOOD.count(PLACE) == 1
    return GOOD.replace(PLACE, PLACE.replace("    properties:", f"{keys}    properties:"))


def test_a_contract_says_how_its_topic_is_kept_and_in_which_lines() -> None:
    keys = load(HERE, contract_text(KEYS)).topic_keys
    assert (keys.partitions, keys.replication_factor, keys.key_order) == (12, 3, "strict")
    assert keys.config == {
        "min.insync.replicas": "2",
        "retention.ms": "604800000",
        "min.cleanable.dirty.ratio": "0.5",
        "unclean.leader.election.enable": "false",
        "cleanup.policy": "compact,delete",
        "max.message.bytes": None,
    }
    lines = contract_text(KEYS).splitlines()
    assert "value: 12" in lines[keys.lines["partitions"] - 1]
    assert "retention.ms" in lines[keys.lines["config.retention.ms"] - 1]


def test_how_a_topic_is_kept_is_no_change_of_what_rows_are() -> None:
    plain, kept = load(HERE, GOOD), load(HERE, contract_text(KEYS))
    assert plain.topic_keys == TopicKeys() != kept.topic_keys
    assert plain == kept
    assert contract_digest(plain) == contract_digest(kept)
    assert same_words(plain, kept)
    assert text(plain) == text(kept)
    assert definitions_digest([Pipeline(plain)]) == definitions_digest([Pipeline(kept)])


@pytest.mark.parametrize(
    ("entry", "field", "message"),
    [
        ("{property: partitons, value: 3}", "partitons.property", "did you mean 'partitions'"),
        ("{property: partitions, value: 0}", "partitions.value", "a whole number from 1 to 2147483647, not 0"),
        ("{property: partitions, value: true}", "partitions.value", "not True"),
        ("{property: replicationFactor, value: 40000}", "replicationFactor.value", "from 1 to 32767"),
        ("{property: config, value: [a]}", "config.value", "config must be a mapping"),
        ("{property: config, value: {retention_ms: 1}}", "config.value.retention_ms", "such as retention.ms"),
        ("{property: config, value: {retention.ms: {a: 1}}}", "config.value.retention.ms", "not {'a': 1}"),
        ("{property: keyOrder, value: strct}", "keyOrder.value", "did you mean 'strict'"),
    ],
)
def test_a_key_that_cannot_be_meant_is_refused_at_its_place(entry: str, field: str, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        load(HERE, contract_text(f"    customProperties:\n      - {entry}\n"))
    assert message in str(raised.value)
    assert raised.value.line == 18
    assert (raised.value.field or "").endswith(field)


def test_topics_yaml_lists_topics_with_the_same_keys() -> None:
    written = "topics:\n  - name: bank.receipts\n    partitions: 3\n    config: {cleanup.policy: compact}\n"
    (found,) = read_topics_file(Path(), written)
    lines = {"partitions": 3, "config": 4, "config.cleanup.policy": 4}
    keys = TopicKeys(partitions=3, config={"cleanup.policy": "compact"}, lines=lines)
    assert found == ListedTopic("bank.receipts", keys, 2)


def test_without_topics_yaml_there_are_no_such_topics(tmp_path: Path) -> None:
    assert read_topics_file(tmp_path) == ()
    assert read_topics_file(tmp_path, "# none yet\ntopics:\n") == ()


@pytest.mark.parametrize(
    ("written", "line", "message"),
    [
        ("- a\n", 1, "topics: a list of topics"),
        ("topic: []\n", 1, "topics: a list of topics"),
        ("topics:\n  - partitions: 3\n", 2, "a topic must be a mapping with its name"),
        ("topics:\n  - orders\n", 2, "a topic must be a mapping with its name"),
        ("topics:\n  - name: 'a b'\n", 2, "name must be a topic name"),
        ("topics:\n  - name: a\n    partions: 3\n", 3, "did you mean 'partitions'"),
        ("topics:\n  - name: a\n  - name: b\n  - name: a\n", 4, "a is listed twice; the other entry is in line 2"),
        ("topics:\n  - name: a\n    config: {retention.ms: 1, retention.ms: 2}\n", 3, "appears twice"),
    ],
)
def test_a_mistake_in_topics_yaml_is_refused_at_its_line(written: str, line: int, message: str) -> None:
    with pytest.raises(BadInput, match=message) as raised:
        read_topics_file(Path("contracts"), written)
    assert (raised.value.file, raised.value.line) == ("contracts/topics.yaml", line)
