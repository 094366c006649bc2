"""The checks of a topic in Dagster: whether it is as declared, and whether every replica is in sync."""

from dataclasses import replace

import dagster as dg
import pytest

from platform_defs.code_location import compose
from platform_defs.contract.model.topic import NO_KEYS, TopicKeys
from platform_defs.kafka.observed import Partition
from platform_defs.settings.contracts import find_pipeline
from platform_defs.topics.dagster.assets import Topic
from platform_defs.topics.dagster.checks import compare_topics
from platform_defs.topics.observed import Observed, ObservedTopic

NAME = "bank.transfers"
WARN, ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR
WHOLE = Partition(NAME, 0, 1, (1, 2, 3), (1, 2, 3))


def topic(keys: TopicKeys) -> Topic:
    return Topic(NAME, (replace(find_pipeline("bank_transfers").contract, topic_keys=keys),))


def checks(keys: TopicKeys, *partitions: Partition, **overrides: str) -> dict[str, dg.AssetCheckEvaluation]:
    config = {name.replace("_", "."): value for name, value in overrides.items()}
    there = ObservedTopic("id", partitions, config, {"min.insync.replicas": "2", **config})
    observed = Observed("cluster", {1: "a", 2: "b", 3: "c"}, {NAME: there} if partitions else {})
    return {one.check_name: one for one in compare_topics([topic(keys)], observed)}


def test_every_topic_has_three_checks_and_none_blocks() -> None:
    graph = compose([find_pipeline("bank_transfers")]).resolve_asset_graph()
    for name in ("topic_matches_contract", "replicas_in_sync", "groups_within_retention"):
        assert not graph.get(dg.AssetCheckKey(dg.AssetKey(["kafka", NAME]), name)).blocking


def test_a_topic_as_declared_passes_and_so_does_one_of_which_nothing_is_declared() -> None:
    kept = TopicKeys(partitions=1, replication_factor=3, config={"retention.ms": "1000"})
    assert checks(kept, WHOLE, retention_ms="1000")["topic_matches_contract"].passed
    found = checks(NO_KEYS, WHOLE)["topic_matches_contract"]
    assert (found.passed, found.description) == (True, f"No contract declares settings for {NAME}.")


def test_what_was_changed_by_hand_is_a_warning_with_both_values() -> None:
    found = checks(TopicKeys(config={"retention.ms": "1000"}), WHOLE, retention_ms="5")["topic_matches_contract"]
    assert (found.passed, found.severity) == (False, WARN)
    assert "retention.ms 5 → 1000" in (found.description or "")


def test_partitions_that_no_plan_can_take_away_are_a_difference_too() -> None:
    found = checks(TopicKeys(partitions=1), WHOLE, WHOLE)["topic_matches_contract"]
    assert not found.passed
    assert "2 partitions" in (found.description or "")


def test_a_topic_that_does_not_exist_is_said_and_has_no_replicas() -> None:
    found = checks(NO_KEYS)
    assert list(found) == ["topic_matches_contract"]
    assert not found["topic_matches_contract"].passed


@pytest.mark.parametrize(
    ("partition", "severity", "message"),
    [
        (WHOLE, None, "all replicas in sync"),
        (replace(WHOLE, in_sync=(1, 2)), WARN, "1 replica out of sync"),
        (replace(WHOLE, in_sync=(1,)), ERROR, "writes with acks=all are refused"),
        (replace(WHOLE, in_sync=(1,), leader=None), ERROR, "has no leader"),
    ],
)
def test_replicas_that_are_missing_are_a_warning_and_refused_writes_an_error(
    partition: Partition, severity: dg.AssetCheckSeverity | None, message: str
) -> None:
    found = checks(NO_KEYS, WHOLE, partition)["replicas_in_sync"]
    assert (found.passed, None if found.passed else found.severity) == (severity is None, severity)
    assert message in (found.description or "")
