"""The checks of topics, as reported by the sensor and as run by a user."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster import AssetCheckEvaluation, DagsterInstance

from platform_defs.code_location import compose
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.topic import TopicKeys
from platform_defs.dagster.keys import topic_key
from platform_defs.errors import BadInput, BrokerAway, LedgerAway
from platform_defs.kafka.observed import Partition
from platform_defs.topics.dagster.assets import by_topic
from platform_defs.topics.dagster.checks import evaluations, topic_admin
from platform_defs.topics.dagster.sensor import observe_topics
from platform_defs.topics.observed import ObservedTopic
from platform_defs.topics.written_keys import sample_keys
from tests.support.world import KeptSpark, World, transfers

CHECKS = ("topic_matches_contract", "replicas_in_sync", "groups_within_retention")


def kept_longer(world: World) -> Pipeline:
    """Return a pipeline whose contract requires a longer retention than its topic has."""
    pipeline = world.new_pipeline(config={"retention.ms": "600000"})
    keys = TopicKeys(config={"retention.ms": "900000"})
    return replace(pipeline, contract=replace(pipeline.contract, topic_keys=keys))


def tick(instance: DagsterInstance, pipeline: Pipeline) -> dict[str, AssetCheckEvaluation]:
    """Return the checks in a sensor's tick by name, recorded as Dagster does."""
    sensor: Any = observe_topics(by_topic([pipeline.contract]))
    events = sensor(dg.build_sensor_context(instance=instance)).asset_events
    found = [event for event in events if isinstance(event, AssetCheckEvaluation)]
    for event in found:
        instance.report_runless_asset_event(event)
    return {event.check_name: event for event in found}


def test_the_sensor_reports_what_differs_from_the_contract_once(world: World, instance: DagsterInstance) -> None:
    pipeline = kept_longer(world)
    first = tick(instance, pipeline)
    assert "retention.ms 600000 → 900000" in (first["topic_matches_contract"].description or "")
    assert first["replicas_in_sync"].passed
    assert tick(instance, pipeline) == {}


def test_a_topic_observed_by_hand_has_its_offsets(world: World, instance: DagsterInstance) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(8))
    job = compose([pipeline], spark=KeptSpark()).resolve_implicit_global_asset_job_def()
    key = topic_key(pipeline.contract.topic)
    assert job.get_subset(asset_selection={key}).execute_in_process(instance=instance).success
    (record,) = instance.fetch_observations(key, limit=2).records
    assert record.asset_observation
    assert record.asset_observation.metadata["messages"].value == 8


@pytest.mark.longest
@pytest.mark.parametrize("given", ["127.0.0.1:1", None], ids=["no answer", "the embedded Kafka is down"])
def test_while_kafka_is_away_ticks_and_checks_fail_and_then_they_pass_by_themselves(
    world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str | None
) -> None:
    pipeline = world.new_pipeline()
    assert [found.passed for found in tick(instance, pipeline).values()] == [True] * 3
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", world.endpoints.postgres_url)
    if given:
        monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", given)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    for name in ("lag", "topics"):
        with pytest.raises(BrokerAway if given else BadInput, match="127.0.0.1:1" if given else "tidegate stack up"):
            compose([pipeline]).get_sensor_def(name)(dg.build_sensor_context(instance=instance))
    shown = [shown_check(instance, pipeline, name) for name in CHECKS]
    assert [(one.passed, one.severity) for one in shown] == [(False, dg.AssetCheckSeverity.ERROR)] * 3
    assert ("127.0.0.1:1" if given else "tidegate stack up") in (shown[0].description or "")
    monkeypatch.undo()
    assert [found.passed for found in tick(instance, pipeline).values()] == [True] * 3


def test_while_postgres_is_away_ticks_of_the_lag_sensor_fail(
    world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = world.new_pipeline()
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", world.endpoints.bootstrap_servers)
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1")
    with pytest.raises(LedgerAway):
        compose([pipeline]).get_sensor_def("lag")(dg.build_sensor_context(instance=instance))
    assert tick(instance, pipeline)["replicas_in_sync"].passed


def shown_check(instance: DagsterInstance, pipeline: Pipeline, name: str) -> AssetCheckEvaluation:
    """Return Dagster's record of a check of the pipeline's topic."""
    key = dg.AssetCheckKey(topic_key(pipeline.contract.topic), name)
    record = instance.get_latest_asset_check_evaluation_record(key)
    assert record is not None
    assert isinstance(record.evaluation, AssetCheckEvaluation)
    return record.evaluation


def test_a_person_may_run_one_of_them(world: World, instance: DagsterInstance) -> None:
    pipeline = kept_longer(world)
    key = dg.AssetCheckKey(topic_key(pipeline.contract.topic), "replicas_in_sync")
    only = dg.define_asset_job("only", selection=dg.AssetSelection.checks(key))
    defs = dg.Definitions.merge(compose([pipeline], spark=KeptSpark()), dg.Definitions(jobs=[only]))
    done = defs.resolve_job_def("only").execute_in_process(instance=instance)
    (found,) = done.get_asset_check_evaluations()
    assert (found.asset_check_key, found.passed) == (key, True)


def test_a_topic_that_cannot_be_described_hides_no_other(world: World) -> None:
    pipeline = world.new_pipeline()
    nameless = replace(pipeline.contract, topic="no name of a topic!")
    found = evaluations(by_topic([nameless, pipeline.contract]), topic_admin(world.endpoints))
    assert {one.asset_key for one in found} == {topic_key(pipeline.contract.topic)}
    assert len(found) == 2


def test_a_topic_that_cannot_be_read_leaves_the_keys_of_others_to_be_sampled(world: World) -> None:
    pipeline = world.new_pipeline(partitions=1)
    world.send(pipeline, transfers(3), partition=0)
    one = ObservedTopic("id", (Partition("t", 0, None, (1,), ()),))
    found = sample_keys(world.endpoints.kafka_options(), {"no.such.topic": one, pipeline.contract.topic: one})
    sampled = found[pipeline.contract.topic]
    assert len(sampled.keys) + sampled.keyless > 0
