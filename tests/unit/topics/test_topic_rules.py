"""The rules of topics: each refuses or warns with the file and line of the wrong key, and says what to do."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.contract.reader.catalogue import BrokenContract, Contracts
from platform_defs.contract.reader.odcs import load
from platform_defs.contract.reader.topics_file import read_topics_file
from platform_defs.errors import BadInput
from platform_defs.ledger.answers import Reader
from platform_defs.topics import rules
from platform_defs.topics.declared import Declared, created, declarations, first_made
from platform_defs.topics.evidence_rules import Evidence, Shorter, Unread, same_cluster, shorter, unread_kept
from platform_defs.topics.observed import Observed
from platform_defs.topics.steps import Create
from platform_defs.topics.violations import Place, Violation
from tests.unit.contract.contract_mistakes import GOOD
from tests.unit.topics.topic_model import cluster, topic

PLACE = Place("assets/bank/transfers.odcs.yaml", 31, "t.partitions")
APPENDS, UPSERTS = Reader("p", "append"), Reader("u", "upsert")
THREE = topic((1, 2, 3), (2, 3, 1), min_insync_replicas="2")


def declared(name: str = "t", **keys: Any) -> Declared:
    """Return a declaration with a place for each key."""
    named = {"replication_factor": "replicationFactor", "key_order": "keyOrder"}
    places = {named.get(key, key): PLACE for key in keys} | {f"config.{key}": PLACE for key in keys.get("config", {})}
    return Declared(name, **keys, places={"": PLACE, **places})


def violations_of(rule: rules.Rule, one: Declared, observed: Observed) -> list[tuple[str, str]]:
    return [(violation.severity, violation.message) for violation in rule(one, observed)]


CASES: list[tuple[str, rules.Rule, Declared, Observed, str, str]] = [
    (
        "more replicas than brokers",
        rules.replication_fits,
        declared(replication_factor=4),
        cluster(),
        "refuse",
        "replicationFactor 4 needs as many brokers, but only 3 are alive. Write at most 3",
    ),
    (
        "more in-sync replicas than replicas",
        rules.writable,
        declared(replication_factor=2, config={"min.insync.replicas": "3"}),
        cluster(),
        "refuse",
        "min.insync.replicas 3 is more than the 2 replicas of t: Kafka 4.3 treats it as 2, so fewer brokers hold "
        "a write than is declared; older versions may refuse every write with acks=all. Write min.insync.replicas 1",
    ),
    (
        "fewer replicas than a topic's own in-sync ones",
        rules.writable,
        declared(replication_factor=1),
        cluster(("t", THREE)),
        "refuse",
        "min.insync.replicas 2 is more than the 1 replica of t",
    ),
    (
        "all replicas in sync",
        rules.writable,
        declared(config={"min.insync.replicas": "3"}),
        cluster(("t", THREE)),
        "warn",
        "one broker down stops every write with acks=all. Write min.insync.replicas 2",
    ),
    ("one replica", rules.durable, declared(replication_factor=1), cluster(), "warn", "t has one replica"),
    (
        "one in-sync replica of three",
        rules.durable,
        declared(config={"min.insync.replicas": "1"}),
        cluster(("t", THREE)),
        "warn",
        "min.insync.replicas 1: acknowledged messages are lost with the only broker",
    ),
    (
        "an unclean leader",
        rules.durable,
        declared(config={"unclean.leader.election.enable": "true"}),
        cluster(("t", THREE)),
        "warn",
        "lets a replica that is not in sync become leader",
    ),
    (
        "fewer partitions",
        rules.never_fewer,
        declared(partitions=1),
        cluster(("t", THREE)),
        "refuse",
        "t has 2 partitions, but 1 are declared: Kafka cannot remove partitions. Write 2, or create a new topic with 1",
    ),
    (
        "more partitions of ordered keys",
        rules.order_kept,
        declared(partitions=4, key_order="strict"),
        cluster(("t", THREE)),
        "refuse",
        "going from 2 to 4 partitions moves 50% of the keys of t to another partition",
    ),
    (
        "compaction of what is appended",
        rules.compaction_fits,
        declared(config={"cleanup.policy": "compact"}, readers=(APPENDS,)),
        cluster(("t", THREE)),
        "refuse",
        "p appends a row for every message",
    ),
    (
        "deletion of what is upserted",
        rules.compaction_fits,
        declared(config={"cleanup.policy": "delete"}, readers=(UPSERTS,)),
        cluster(("t", topic((1,), cleanup_policy="compact"))),
        "refuse",
        "the table of u is built from them",
    ),
    (
        "deletion, besides compaction, of what is upserted",
        rules.compaction_fits,
        declared(config={"cleanup.policy": "compact,delete"}, readers=(APPENDS, UPSERTS)),
        cluster(("t", topic((1,), cleanup_policy="compact"))),
        "refuse",
        "the table of u is built from them: it could not be rebuilt. Leave it compact",
    ),
    (
        "one rack of two",
        rules.over_racks,
        declared(replication_factor=2),
        replace(cluster(("t", topic((1, 2)))), brokers={1: "a", 2: "a", 3: "b"}),
        "warn",
        "partition 0 of t: the replicas are in fewer racks than possible, so one rack down could take all of them ",
    ),
    (
        "a setting that Kafka has not",
        rules.known_setting,
        declared(config={"retenton.ms": "1"}),
        cluster(("t", THREE)),
        "refuse",
        "this Kafka has no topic setting retenton.ms",
    ),
]


@pytest.mark.parametrize(("_what", "rule", "one", "observed", "severity", "words"), CASES, ids=[c[0] for c in CASES])
def test_a_rule_says_what_is_wrong_where_and_what_to_do(
    _what: str, rule: rules.Rule, one: Declared, observed: Observed, severity: str, words: str
) -> None:
    (violation,) = rule(one, observed)
    assert (violation.severity, violation.rule, violation.topic, violation.place) == (
        severity,
        rule.__name__,
        "t",
        PLACE,
    )
    assert words in violation.message
    assert str(violation).startswith("assets/bank/transfers.odcs.yaml:31 (t.partitions): ")


@pytest.mark.parametrize(
    ("rule", "one"),
    [
        (rules.replication_fits, declared(replication_factor=3)),
        (rules.writable, declared(replication_factor=3, config={"min.insync.replicas": "2"})),
        (rules.durable, declared(replication_factor=3, config={"min.insync.replicas": "2"})),
        (rules.writable, declared(partitions=2)),
        (rules.never_fewer, declared(partitions=2)),
        (rules.order_kept, declared(partitions=2, key_order="strict")),
        (rules.order_kept, declared(partitions=3, key_order="none")),
        (rules.compaction_fits, declared(config={"cleanup.policy": "delete"}, readers=(UPSERTS,))),
        (rules.over_racks, declared(replication_factor=3)),
        (rules.known_setting, declared(config={"retention.ms": "1"})),
    ],
)
def test_a_rule_that_is_kept_says_nothing(rule: rules.Rule, one: Declared) -> None:
    assert violations_of(rule, one, cluster(("t", THREE))) == []


def test_a_topic_to_be_created_by_a_default_of_more_replicas_than_brokers_is_refused() -> None:
    few = cluster(brokers=1)
    observed = replace(few, defaults={**few.defaults, "default.replication.factor": "3"})
    (violation,) = rules.replication_fits(declared(), observed)
    assert "3, the cluster's default, needs as many brokers, but only 1 is alive" in violation.message


def test_a_topic_of_a_cluster_with_one_broker_is_not_asked_for_more_replicas() -> None:
    assert violations_of(rules.durable, declared(), cluster(brokers=1)) == []


@given(st.integers(1, 200), st.integers(1, 200))
def test_the_share_of_keys_that_move_is_that_of_hashes_with_another_remainder(before: int, more: int) -> None:
    becomes = before + more
    hashes = range(before * becomes)
    moved = sum(h % before != h % becomes for h in hashes)
    assert rules.moved_share(before, becomes) == pytest.approx(moved / len(hashes))


def test_of_two_names_that_kafka_takes_for_one_the_new_one_is_refused() -> None:
    topics = {name: declared(name) for name in ("a.b", "a_b", "c_d")}
    observed = replace(cluster(), names=frozenset({"a.b", "c.d"}))
    found = {violation.topic: violation.message for violation in rules.names_apart(topics, observed)}
    assert found.keys() == {"a_b", "c_d"}
    assert "c_d and c.d differ only by '.' and '_'" in found["c_d"]


WEEK, DAY = "604800000", "86400000"


@pytest.mark.parametrize(
    ("held", "config", "milliseconds"),
    [
        ({}, {"retention.ms": DAY}, int(DAY)),
        ({"retention_ms": "-1"}, {"retention.ms": WEEK}, int(WEEK)),
        ({"cleanup_policy": "compact"}, {"cleanup.policy": "compact,delete"}, int(WEEK)),
        ({}, {"retention.bytes": "1000"}, None),
        ({"retention_bytes": "1000"}, {"retention.bytes": "10"}, None),
        ({}, {"retention.ms": DAY, "retention.bytes": "1"}, None),
        ({}, {"retention.ms": "soon"}, None),
    ],
)
def test_retention_that_gets_shorter_is_seen(held: dict[str, str], config: Any, milliseconds: int | None) -> None:
    found = shorter(declared(config=config), cluster(("t", topic((1,), **held))))
    assert [one.milliseconds for one in found if one.lost_to is None] == [milliseconds]


@pytest.mark.parametrize(
    ("held", "config"),
    [
        ({"retention_ms": DAY}, {"retention.ms": WEEK}),
        ({"retention_ms": DAY}, {"retention.ms": "-1"}),
        ({"retention_ms": DAY}, {"retention.ms": DAY}),
        ({"retention_ms": DAY}, {"max.message.bytes": "1"}),
        ({"cleanup_policy": "compact"}, {"retention.ms": "1"}),
        ({"cleanup_policy": "delete"}, {"retention.ms": "1", "cleanup.policy": "compact"}),
    ],
)
def test_retention_that_deletes_no_more_than_before_is_free(held: dict[str, str], config: Any) -> None:
    found = shorter(declared(config=config), cluster(("t", topic((1,), **held))))
    assert [one for one in found if one.lost_to is None] == []


COMPACT = {"cleanup_policy": "compact"}
KEPT, DELAY = "delete.retention.ms", "min.compaction.lag.ms"


@pytest.mark.parametrize(
    ("held", "config", "milliseconds"),
    [
        ({}, {"cleanup.policy": "compact", KEPT: DAY}, [int(DAY)]),
        ({}, {"cleanup.policy": "compact,delete"}, [int(DAY)]),  # Kafka's default
        (COMPACT, {KEPT: "1000"}, [1000]),
        ({**COMPACT, "delete_retention_ms": WEEK}, {KEPT: DAY}, [int(DAY)]),
        ({**COMPACT, "min_compaction_lag_ms": WEEK}, {DELAY: "0"}, [int(DAY)]),
        (COMPACT, {KEPT: "soon"}, [None]),
        (COMPACT, {KEPT: WEEK}, []),
        (COMPACT, {KEPT: "0", DELAY: WEEK}, []),
        ({}, {KEPT: "0"}, []),
        (COMPACT, {"cleanup.policy": "delete"}, []),
    ],
)
def test_tombstones_that_are_kept_for_a_shorter_time_are_seen(
    held: dict[str, str], config: Any, milliseconds: list[int | None]
) -> None:
    found = shorter(declared(config=config), cluster(("t", topic((1,), **held))))
    assert [one.milliseconds for one in found if one.lost_to == "upsert"] == milliseconds


def test_tombstones_that_an_upsert_has_not_read_are_kept() -> None:
    change = Shorter(1000, "upsert")
    one = declared(config={KEPT: "1000"}, readers=(UPSERTS,))
    observed = cluster(("t", topic((1,), **COMPACT)))
    (violation,) = unread_kept({"t": one}, observed, Evidence({"t": [Unread("u", 120, 100, change)]}))
    assert (violation.severity, violation.place) == ("refuse", PLACE)
    assert "u has not read 120 messages of t, and tombstones among 100 of them could be removed" in violation.message
    assert list(unread_kept({"t": one}, observed, Evidence({"t": [Unread("u", 120, 0, change)]}))) == []


def test_tombstones_outlast_the_latency_of_an_upsert() -> None:
    slow = Reader("u", "upsert", seconds=60.0)
    one = declared(config={"cleanup.policy": "compact", KEPT: "59000"}, readers=(slow,))
    ((severity, message),) = violations_of(rules.tombstones_outlast, one, cluster())
    assert severity == "refuse"
    assert "tombstones of t are kept for 59000 ms, but u starts a run after 60 s" in message
    for fine in (
        replace(one, config={**one.config, KEPT: "60000"}),
        replace(one, readers=(APPENDS,)),
        replace(one, config={KEPT: "59000"}),
    ):
        assert violations_of(rules.tombstones_outlast, fine, cluster()) == []


def unread(evidence: Evidence) -> list[Violation]:
    one = declared(config={"retention.ms": "1000"}, readers=(APPENDS,))
    return list(unread_kept({"t": one}, cluster(("t", THREE)), evidence))


def test_retention_below_the_oldest_unread_message_is_refused_with_the_number_of_messages() -> None:
    change = Shorter(1000)
    (violation,) = unread(Evidence({"t": [Unread("p", 120, 100, change), Unread("q", 5, 0, change)]}))
    assert (violation.severity, violation.rule, violation.place) == ("refuse", "unread_kept", PLACE)
    assert "p has not read 120 messages of t, and retention.ms 1000 would delete 100 of them" in violation.message


def test_retention_is_not_changed_while_nobody_can_tell_what_was_read() -> None:
    (violation,) = unread(Evidence(unknown="Postgres does not answer"))
    assert violation.severity == "refuse"
    assert "that this would delete: Postgres does not answer" in violation.message


def test_retention_below_what_is_read_already_is_free() -> None:
    assert unread(Evidence({"t": [Unread("p", 3, 0, Shorter(1000))]})) == []


def test_another_cluster_than_at_the_first_apply_is_refused() -> None:
    (violation,) = same_cluster(cluster(), Evidence(first_cluster="the first"))
    assert "the ledger's topics are in cluster the first, but this is cluster cluster-1" in violation.message
    assert list(same_cluster(cluster(), Evidence(first_cluster="cluster-1"))) == []
    assert list(same_cluster(cluster(), Evidence())) == []


ORDERS = "    physicalName: shop.orders\n    properties:\n      - name: order_id\n"


def contract(path: str, entries: str, change: Callable[[str], str] = lambda text: text) -> Any:
    assert GOOD.count(ORDERS) == 1
    keys = f"    customProperties: [{entries}]\n"
    return load(Path(path), change(GOOD.replace(ORDERS, ORDERS.replace("    properties", f"{keys}    properties"))))


def as_upsert(text: str) -> str:
    rows, _, _ = text.partition("    quality:\n      - name: some_orders")
    return rows.replace("value: append", "value: upsert")


PARTITIONS = "{{property: partitions, value: {}}}"


def test_contracts_of_one_topic_are_taken_together() -> None:
    one = contract("a.odcs.yaml", PARTITIONS.format(3))
    other = contract("b.odcs.yaml", "{property: keyOrder, value: strict}")
    found = declarations([one, other], [], "topics.yaml")
    assert found.refused == ()
    orders = found.topics["shop.orders"]
    assert (orders.partitions, orders.key_order, len(orders.readers)) == (3, "strict", 2)
    assert orders.place("partitions") == Place("a.odcs.yaml", 17, "shop.orders.partitions")


def test_contracts_of_one_topic_that_disagree_are_refused_with_both_files() -> None:
    one, other = (contract(f"{n}.odcs.yaml", PARTITIONS.format(n)) for n in (3, 4))
    (violation,) = declarations([one, other], [], "topics.yaml").refused
    assert (violation.severity, violation.place) == ("refuse", Place("4.odcs.yaml", 17, "shop.orders.partitions"))
    assert "partitions is 4 here and 3 in 3.odcs.yaml:17" in violation.message


def test_produce_creates_a_missing_topic_as_all_of_its_contracts_declare(tmp_path: Path) -> None:
    one, other = (contract(f"{n}.odcs.yaml", PARTITIONS.format(n)) for n in (3, 4))
    upsert = contract("u.odcs.yaml", "", as_upsert)
    assert first_made("shop.orders", Contracts((one, upsert), ()), 8) == Create("shop.orders", 3)
    assert first_made("shop.orders", Contracts((upsert,), ()), 8) == created(
        Declared("shop.orders", partitions=8, readers=(UPSERTS,))
    )
    with pytest.raises(BadInput, match=r"4\.odcs\.yaml:17.*partitions is 4 here and 3 in 3\.odcs\.yaml:17"):
        first_made("shop.orders", Contracts((one, other), ()), 8)
    (path := tmp_path / "b.odcs.yaml").write_text("shop.orders: [")
    broken = BrokenContract(path, BadInput("is not YAML", file=str(path)))
    with pytest.raises(BadInput, match="is not YAML"):
        first_made("shop.orders", Contracts((one,), (broken,)), 8)


def test_a_topic_of_a_contract_is_not_declared_in_topics_yaml_as_well() -> None:
    listed = read_topics_file(Path(), "topics:\n  - name: shop.orders\n    partitions: 3\n")
    (violation,) = declarations([contract("a.odcs.yaml", PARTITIONS.format(3))], listed, "topics.yaml").refused
    assert violation.place == Place("topics.yaml", 2, "shop.orders")
    assert "shop.orders is the topic of a.odcs.yaml: declare it there" in violation.message


def test_a_contract_that_says_nothing_of_its_topic_leaves_it_alone() -> None:
    found = declarations([load(Path("a.odcs.yaml"), GOOD)], [], "topics.yaml")
    assert found.topics == {}
    assert found.undeclared.keys() == {"shop.orders"}


def test_the_keys_of_an_upsert_keep_their_order_unless_the_contract_says_otherwise() -> None:
    messages = [contract("a.odcs.yaml", keys, as_upsert) for keys in ("", "{property: keyOrder, value: none}")]
    orders = [declarations([one], [], "").undeclared["shop.orders"].key_order for one in messages]
    assert orders == ["strict", "none"]
