"""Dagster's view of the consumer groups that read a topic, and the check of their offsets."""

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from confluent_kafka import Producer, TopicPartition
from dagster import AssetCheckEvaluation, AssetObservation, DagsterInstance

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BrokerAway
from platform_defs.groups import dagster_checks as topic_groups
from platform_defs.groups.child import KafkaGroups
from platform_defs.kafka.group_state import Group
from platform_defs.kafka.topic_views import KafkaTopics
from platform_defs.topics.dagster.assets import by_topic
from platform_defs.topics.dagster.sensor import observe_topics
from tests.support.kafka.group_members import commit, members
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfers

CHECK = "groups_within_retention"

HOUR = 3_600_000  # ms


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as found:
        yield found


def tick(instance: DagsterInstance, pipeline: Pipeline) -> tuple[dict[str, Any], AssetCheckEvaluation]:
    """Return the metadata of the topic's observation in a sensor's tick, and the check of its groups."""
    sensor: Any = observe_topics(by_topic([pipeline.contract]))
    events = sensor(dg.build_sensor_context(instance=instance)).asset_events
    (seen,) = [event for event in events if isinstance(event, AssetObservation)]
    (check,) = [one for one in events if isinstance(one, AssetCheckEvaluation) and one.check_name == CHECK]
    return {name: value.value for name, value in seen.metadata.items()}, check


def delete_below(world: World, topic: str, offset: int) -> None:
    """Delete the records of partition 0 below `offset`, as retention does."""
    admin, place = world.admin(), TopicPartition(topic, 0, offset)
    admin.delete_records([place])[place].result(BOUND)


def records(shown: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one.data["group"]: dict(one.data) for one in shown["groups"].records}


@pytest.mark.slow
def test_an_observation_lists_the_groups_of_the_topic_with_lag_and_idle_members(
    world: World, instance: DagsterInstance
) -> None:
    pipeline = world.new_pipeline()
    topic, group = pipeline.contract.topic, f"g{uuid4().hex[:8]}"
    world.send(pipeline, transfers(8))
    commit(world.admin(), group, topic, 2, 1)
    commit(world.admin(), f"tidegate-{pipeline.name}", topic, 2, 2, 2, 2)
    client = KafkaGroups(world.endpoints.kafka_options())

    def settled() -> bool:
        found = client.describe([group]).get(group)
        return isinstance(found, Group) and (len(found.members), len(found.assigned)) == (5, 4) and len(found.idle) == 1

    with members(world.endpoints.kafka_options(), group, topic, 5):
        wait_for(settled, "four of five consumers have a partition")
        shown, check = tick(instance, pipeline)
    found = records(shown)
    assert found[group] | {"group": group} == {
        "group": group,
        "pipeline": "",
        "state": "Stable",
        "members": "5",
        "idle": "1",
        "lag": "1",
        "past retention": 0,
    }
    assert (found[f"tidegate-{pipeline.name}"]["pipeline"], found[f"tidegate-{pipeline.name}"]["lag"]) == (
        pipeline.name,
        "0",
    )
    assert check.passed
    assert "(1 group checked, Tidegate's own not counted)" in (check.description or "")


def test_a_group_behind_the_log_start_is_a_warning_and_the_pipelines_own_is_none(
    world: World, instance: DagsterInstance
) -> None:
    pipeline = world.new_pipeline()
    topic, group = pipeline.contract.topic, f"g{uuid4().hex[:8]}"
    world.send(pipeline, transfers(16))
    commit(world.admin(), f"tidegate-{pipeline.name}", topic, 0)
    commit(world.admin(), group, topic, 3)
    delete_below(world, topic, 3)
    shown, check = tick(instance, pipeline)
    assert check.passed
    assert records(shown)[f"tidegate-{pipeline.name}"]["past retention"] == 1
    commit(world.admin(), group, topic, 1)
    shown, check = tick(instance, pipeline)
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert f"{group}: {topic}-0 lags past retention: offset 1 is below the log start 3" in (check.description or "")
    assert f"tidegate groups describe {group}" in (check.description or "")
    assert check.metadata["at_risk"].value == group


def test_a_group_whose_unread_messages_are_soon_deleted_is_a_warning(world: World, instance: DagsterInstance) -> None:
    pipeline = world.new_pipeline(config={"retention.ms": str(HOUR)})
    topic, late, on_time = pipeline.contract.topic, f"g{uuid4().hex[:8]}", f"g{uuid4().hex[:8]}"
    producer, now = Producer(world.endpoints.kafka_options()), int(time.time() * 1000)
    for age in (0.9, 0.7):
        producer.produce(topic, b"x", partition=0, timestamp=now - int(age * HOUR))
    assert producer.flush(20) == 0
    commit(world.admin(), on_time, topic, 1)
    assert tick(instance, pipeline)[1].passed
    commit(world.admin(), late, topic, 0)
    _, check = tick(instance, pipeline)
    assert not check.passed
    assert check.metadata["at_risk"].value == late
    assert f"{topic}-0 has unread messages older than 80% of the retention time" in (check.description or "")


def test_a_retention_time_longer_than_the_epoch_hides_no_warning_about_another_topic(world: World) -> None:
    """Kafka rejects a query about a negative timestamp as a whole, with the queries about other topics."""
    options = world.endpoints.kafka_options()
    topics, group = list[str](), f"g{uuid4().hex[:8]}"
    for hours, age in ((1, 0.9), (876_000, 0.1)):
        topics.append(topic := world.new_pipeline(config={"retention.ms": str(hours * HOUR)}).contract.topic)
        producer = Producer(options)
        producer.produce(topic, b"x", partition=0, timestamp=int(time.time() * 1000) - int(age * HOUR))
        assert producer.flush(20) == 0
        commit(world.admin(), group, topic, 0)
    client, kafka = KafkaGroups(options), KafkaTopics(options)
    checks = topic_groups.group_checks(
        topics, topic_groups.survey_groups(client), kafka.views(topics), kafka.facts(topics), [], client
    )
    assert [one.passed for one in checks] == [False, True]


def test_groups_that_are_not_known_fail_no_observation(
    world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Any) -> Any:
        raise BrokerAway("the coordinator does not answer")

    monkeypatch.setattr(topic_groups, "read_groups", away)
    shown, check = tick(instance, world.new_pipeline())
    assert shown["groups"] == "Not known: the coordinator does not answer"
    assert shown["partitions"] == "4"
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.description == "Not known: the coordinator does not answer"
