"""`tidegate cluster` on three brokers, while pipelines read and producers write."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.plan.budget import Budget
from platform_defs.kafka.throttles import FOLLOWER, LEADER
from platform_defs.settings.settings import settings
from tests.chaos.kafka.three_brokers import NODES, THREE_BROKERS, ThreeBrokers, three_brokers
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.commands import Called, tidegate
from tests.support.waiting import BOUND, repeated, within
from tests.support.world import World, transfers

PARTITIONS = 3  # one for each broker to lead
UNHEALTHY = UNDER_WAY = 10
NAMED, LOST = 10.0, 15.0  # seconds until a dead broker is named, and until a lost quorum is reported
BALLAST = 8  # megabytes per partition of a topic that takes a while to copy


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def killed_broker_is_named_waited_for_and_leads_again(chaos: Chaos) -> Verdict:
    """`health` names it before the controller has noticed, and waits for it; `elect` restores its leadership."""
    cluster, chaos, pipeline = _sent(chaos)
    topic = pipeline.contract.topic
    _cluster(chaos.world, "elect", topic)
    before = _skew(chaos.world, topic)
    assert before["leader_skew_percent"] == 0
    cluster.kill([3])
    with within(NAMED):
        reported = _cluster(chaos.world, "health")
    assert reported.code == UNHEALTHY
    assert any(
        item["code"] == "broker_silent" and item["sentence"].startswith("broker 3 ")
        for item in reported.document["findings"]
    ), reported.document
    cluster.wait_until_led_by_others(topic, 3)
    cluster.start([3])
    waited = _cluster(chaos.world, "health", "--exit-when-healthy", "--timeout", "60")
    assert waited.code == 0, (waited.stdout, waited.stderr)
    assert _skew(chaos.world, topic)["leader_skew_percent"] > 0
    elected = _cluster(chaos.world, "elect", topic)
    assert elected.code == 0, elected.document
    assert elected.document["before"]["preferred"] < elected.document["after"]["preferred"] == PARTITIONS
    assert _skew(chaos.world, topic) == before
    return chaos.judge(pipeline, 1, "named, waited for, led again by its own")


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def two_voters_of_three_killed(chaos: Chaos) -> Verdict:
    """`health` reports that the quorum is lost, and which brokers do not respond. With them back, all is read."""
    cluster, chaos, pipeline = _sent(chaos)
    cluster.kill([2, 3])
    with within(LOST):
        reported = _cluster(chaos.world, "health")
    assert reported.code == UNHEALTHY, (reported.stdout, reported.stderr)
    (lost,) = [item for item in reported.document["findings"] if item["code"] == "quorum_lost"]
    assert "Brokers 2 and 3 do not answer." in lost["sentence"]
    cluster.start([2, 3])
    assert _cluster(chaos.world, "health", "--exit-when-healthy", "--timeout", "60").code == 0
    return chaos.judge(pipeline, 2, "the quorum was said to be lost, and was found again")


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def replicas_moved_under_a_producer_and_a_run(chaos: Chaos) -> Verdict:
    """A topic on two brokers is spread over three with the fewest moves; cancelled once, then applied. Nothing is lost,
    and no throttle is left.
    """
    cluster, chaos, pipeline = _on_two(chaos)
    world, topic, ballast = chaos.world, pipeline.contract.topic, f"{pipeline.contract.topic}.ballast"
    _create_on_two(world, ballast)
    _fill(world, ballast)
    file = str(settings().home / f"{topic}.json")
    planned = _cluster(world, "reassign", "plan", topic, ballast, "--file", file)
    assert planned.document["moves"] == 4  # of twelve: for each topic, the third for the third broker
    starts = count(1000, 10 * PARTITIONS)
    with repeated(lambda: _send(world, pipeline, next(starts))) as sent:
        begun = _cluster(world, "reassign", "apply", file, "--throttle", "1", "--timeout", "0")
        assert (begun.code, begun.document["state"]) == (UNDER_WAY, "under way"), (begun.stdout, begun.stderr)
        assert _throttled(world, ballast)
        assert _cluster(world, "reassign", "status").code == UNDER_WAY
        cancelled = _cluster(world, "reassign", "cancel")
        assert (cancelled.code, cancelled.document["state"]) == (0, "cancelled")
        assert not _throttled(world, ballast)
        done = _cluster(world, "reassign", "apply", file)
        assert (done.code, done.document["state"]) == (0, "done"), (done.stdout, done.stderr)
        world.drain(pipeline, Budget(batches=3))  # it may never catch up with a producer that does not stop
        assert sent.wait(BOUND)
    assert not _throttled(world, ballast)
    assert set(cluster.leaders(topic).values()) == set(NODES)
    assert _cluster(world, "reassign", "plan", topic, ballast).document["topics"] == {}
    back = _cluster(world, "reassign", "apply", "--back")
    assert back.code == 0, back.stderr
    assert set(cluster.leaders(topic).values()) == {1}
    return chaos.judge(pipeline, 1, "moved, cancelled, moved, and moved back under load")


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def plan_of_a_reassignment_out_of_date(chaos: Chaos) -> Verdict:
    """The topic was changed after the plan: nothing is moved, and the message says what has changed."""
    cluster, chaos, pipeline = _on_two(chaos)
    topic, file = pipeline.contract.topic, str(settings().home / f"{pipeline.contract.topic}.json")
    _cluster(chaos.world, "reassign", "plan", topic, "--file", file)
    raised = file.replace(".json", ".raised.json")
    _cluster(chaos.world, "reassign", "plan", topic, "--replication-factor", "3", "--file", raised)
    assert _cluster(chaos.world, "reassign", "apply", raised).code == 0
    cluster.wait_until_whole(topic)
    refused = _cluster(chaos.world, "reassign", "apply", file)
    assert refused.code == 1
    assert f"the plan is out of date: {topic}[0] was on brokers 1, 2 and is now on brokers " in refused.stderr
    assert "Nothing was changed" in refused.stderr
    assert all(len(found) == 3 for found in cluster.in_sync(topic).values())
    return chaos.judge(pipeline, 1, "nothing was changed")


def _cluster(world: World, *arguments: str) -> Called:
    servers = world.endpoints.bootstrap_servers
    return tidegate("cluster", *arguments, "-o", "json", TIDEGATE_KAFKA_BOOTSTRAP_SERVERS=servers)


def _skew(world: World, topic: str) -> Mapping[str, Any]:
    return _cluster(world, "skew", topic).document["topics"][0]


def _sent(chaos: Chaos) -> tuple[ThreeBrokers, Chaos, Pipeline]:
    """Return three brokers, and a pipeline with unread messages in three partitions on all of them."""
    cluster = three_brokers()
    chaos = replace(chaos, world=cluster.world(chaos.world))
    pipeline = chaos.world.new_pipeline(partitions=PARTITIONS)
    _send(chaos.world, pipeline, 0)
    cluster.wait_until_whole(pipeline.contract.topic)
    return cluster, chaos, pipeline


def _on_two(chaos: Chaos) -> tuple[ThreeBrokers, Chaos, Pipeline]:
    """Return three brokers, and a pipeline with unread messages in three partitions on the first two of them."""
    cluster = three_brokers()
    chaos = replace(chaos, world=cluster.world(chaos.world))
    pipeline = chaos.world.new_pipeline()
    topic = f"{pipeline.contract.topic}.two"
    pipeline = replace(pipeline, contract=replace(pipeline.contract, topic=topic))
    _create_on_two(chaos.world, topic)
    _send(chaos.world, pipeline, 0)
    return cluster, chaos, pipeline


def _send(world: World, pipeline: Pipeline, start: int) -> None:
    """Send ten transfers to each partition, numbered from `start`."""
    for partition in range(PARTITIONS):
        world.send(pipeline, transfers(10, start=start + 10 * partition), partition=partition)


def _create_on_two(world: World, topic: str) -> None:
    admin = world.admin()
    new = NewTopic(topic, PARTITIONS, replica_assignment=[[1, 2]] * PARTITIONS, config={"min.insync.replicas": "1"})
    admin.create_topics([new])[topic].result(BOUND)


def _fill(world: World, topic: str) -> None:
    producer = Producer({**world.endpoints.kafka_options(), "message.max.bytes": 1_000_000})
    for number in range(PARTITIONS * 10 * BALLAST):
        producer.produce(topic, b"x" * 100_000, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def _throttled(world: World, topic: str) -> list[str]:
    """Return the throttle settings of the topic and of the brokers."""
    admin: Any = world.admin()
    places = [ConfigResource(ResourceType.TOPIC, topic), *(ConfigResource(ResourceType.BROKER, str(n)) for n in NODES)]
    names = {f"{prefix}.{what}" for prefix in (LEADER, FOLLOWER) for what in ("rate", "replicas")}
    found = [admin.describe_configs([place])[place].result(BOUND) for place in places]
    return [
        f"{name}={config[name].value}" for config in found for name in names if name in config and _set(config[name])
    ]


def _set(entry: Any) -> bool:
    return bool(entry.value) and not entry.is_default
