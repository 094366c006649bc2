"""Topics that Dagster writes: a run and its retries write them once."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from confluent_kafka import Consumer, TopicPartition

from platform_defs.code_location import compose
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.keys import topic_key
from platform_defs.errors import ProducerFenced
from platform_defs.producer_options.config import Producing
from platform_defs.producers.dagster_resource import KafkaProducerResource
from platform_defs.producers.message import Message
from platform_defs.producers.producer import Producer
from platform_defs.producers.written_topics import topic_asset
from tests.support.world import World

DAYS = dg.StaticPartitionsDefinition(["monday", "tuesday"])


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as found:
        yield found


def written(pipeline: Pipeline, *, fails_after: int | None = None, partitioned: bool = False) -> dg.AssetsDefinition:
    """Return the asset of the pipeline's topic, with ten messages per run; it fails after `fails_after` of them."""

    @topic_asset(pipeline.contract, partitions_def=DAYS if partitioned else None)
    def messages(context: dg.AssetExecutionContext) -> Iterator[Message]:
        for number in range(10):
            if number == fails_after:
                raise ValueError("the source is away")
            yield Message(b"%d" % number, key=context.run.run_id.encode())

    return messages


def run(
    instance: dg.DagsterInstance, asset: dg.AssetsDefinition, of: str | None = None, day: str | None = None
) -> dg.ExecuteInProcessResult:
    """Run the asset; `of` is the run that it retries."""
    return dg.materialize(
        [asset],
        instance=instance,
        resources=None if asset.resource_defs else {"tidegate_kafka_producer": KafkaProducerResource()},
        tags={"dagster/root_run_id": of} if of else {},
        partition_key=day,
        raise_on_error=False,
    )


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.get_asset_materialization_events()
    return {key: item.value for key, item in event.materialization.metadata.items()}


def keys(world: World, pipeline: Pipeline) -> list[str]:
    """Return the keys of all committed messages: the ids of the runs that wrote them."""
    conf = {**world.endpoints.kafka_options(), "group.id": "reader", "enable.partition.eof": True}
    client = Consumer({**conf, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    client.assign([TopicPartition(pipeline.contract.topic, number, 0) for number in range(4)])
    found, ended = list[str](), 0
    while ended < 4:
        message = client.poll(30)
        assert message is not None
        if message.error():
            ended += 1
        else:
            found.append((message.key() or b"").decode())
    client.close()
    return found


def test_a_run_that_is_retried_writes_its_messages_once(world: World, instance: dg.DagsterInstance) -> None:
    pipeline = world.new_pipeline("append")
    placed = compose([pipeline], written=[written(pipeline)], names="tidegate_").resolve_asset_graph()
    asset = placed.get(topic_key(pipeline.contract.topic)).assets_def
    first = run(instance, asset)
    retried = run(instance, asset, of=first.run_id)
    assert keys(world, pipeline) == [first.run_id] * 10
    assert (metadata(first)["messages"], metadata(first)["written"]) == (10, "now")
    assert metadata(retried)["messages"] == 10
    assert metadata(retried)["written"] == "by an earlier try of this run"


def test_a_run_that_fails_in_the_middle_leaves_nothing_and_its_retry_writes_all(
    world: World, instance: dg.DagsterInstance
) -> None:
    pipeline = world.new_pipeline("append")
    failed = run(instance, written(pipeline, fails_after=7))
    assert not failed.success
    assert keys(world, pipeline) == []
    retried = run(instance, written(pipeline), of=failed.run_id)
    assert keys(world, pipeline) == [retried.run_id] * 10


@pytest.mark.slow
def test_a_new_run_writes_again_and_each_partition_has_a_note_of_its_own(
    world: World, instance: dg.DagsterInstance
) -> None:
    pipeline = world.new_pipeline("append")
    asset = written(pipeline, partitioned=True)
    monday, tuesday = (run(instance, asset, day=day) for day in ("monday", "tuesday"))
    run(instance, asset, of=monday.run_id, day="monday")
    again = run(instance, asset, day="monday")
    wrote = keys(world, pipeline)
    assert {name: wrote.count(name) for name in wrote} == {
        monday.run_id: 10,
        tuesday.run_id: 10,
        again.run_id: 10,
    }


def test_a_run_that_is_retried_after_another_has_written_writes_nothing_twice(
    world: World, instance: dg.DagsterInstance
) -> None:
    pipeline = world.new_pipeline("append")
    asset = written(pipeline)
    first, other = run(instance, asset), run(instance, asset)
    retried = run(instance, asset, of=first.run_id)
    assert metadata(retried)["written"] == "by an earlier try of this run"
    assert sorted(keys(world, pipeline)) == sorted([first.run_id, other.run_id] * 10)


def test_an_earlier_try_that_is_still_alive_commits_nothing_more(world: World, instance: dg.DagsterInstance) -> None:
    pipeline = world.new_pipeline("append")
    contract, options = pipeline.contract, world.endpoints.kafka_options()
    name = f"tidegate.{contract.pipeline}.asset"
    frozen = Producer(options, contract.topic, "transactional", client_id=name)
    later = list[dg.ExecuteInProcessResult]()

    def overtaken() -> None:
        with frozen.transaction():
            frozen.send(Message(b"half", key=b"the frozen one"))
            later.append(run(instance, written(pipeline)))

    with pytest.raises(ProducerFenced):
        overtaken()
    assert keys(world, pipeline) == [later[0].run_id] * 10


def test_what_contradicts_a_transaction_is_said_by_the_run(world: World, instance: dg.DagsterInstance) -> None:
    pipeline = world.new_pipeline("append")
    contract = replace(pipeline.contract, producing=Producing("leader", {"acks": "1"}))
    failed = run(instance, written(replace(pipeline, contract=contract)))
    (event,) = failed.get_step_failure_events()
    assert "acks" in str(event.step_failure_data.user_failure_data)


@pytest.mark.slow
def test_a_topic_that_dagster_writes_is_one_asset_in_the_platform(world: World) -> None:
    pipeline = world.new_pipeline()
    graph = compose([pipeline], written=[written(pipeline)]).resolve_asset_graph()
    node = graph.get(topic_key(pipeline.contract.topic))
    assert node.is_materializable
    assert {key.to_user_string() for key in node.child_keys} == {f"{pipeline.name}/postings"}
