"""Faults of a cluster with three brokers: some die, hand over leadership, or are too few."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import RunContext, plan_batch
from platform_defs.errors import BrokerAway
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.offsets import lag
from tests.chaos.kafka.three_brokers import NODES, THREE_BROKERS, ThreeBrokers, three_brokers
from tests.chaos.moments import mark, play, within_a_range
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.logs import configure
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfers


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def one_broker_of_three_killed_while_a_range_is_read(chaos: Chaos) -> Verdict:
    """Another replica leads; the same run reads on from it and loses nothing."""
    cluster, chaos = three_brokers(), _on_three(chaos)
    pipeline, happened, victim = _sent(chaos.world, cluster)
    kill = partial(os.kill, cluster.nodes[victim].pid, signal.SIGKILL)
    (batch,) = play(chaos.world, pipeline, within_a_range(kill, happened, _led_by(cluster, pipeline, victim)))
    assert happened.exists()
    assert not cluster.nodes[victim].runs
    assert batch.messages == 400
    chaos.world.send(pipeline, transfers(40, start=400))  # two of three are enough to write
    verdict = chaos.judge(pipeline, 1, "the same run read on from another replica")
    assert not cluster.nodes[victim].runs
    return verdict


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def leader_moved_while_a_range_is_read(chaos: Chaos) -> Verdict:
    """Its run follows it. The next one queries the new leader, to check that the log is still the same."""
    cluster, chaos = three_brokers(), _on_three(chaos)
    pipeline, happened, victim = _sent(chaos.world, cluster)
    mine = _led_by(cluster, pipeline, victim)
    _lead_with_others(cluster, pipeline.contract.topic, victim)
    elect = partial(_prefer, chaos.world.endpoints.kafka_options(), pipeline.contract.topic, mine, victim)
    (batch,) = play(chaos.world, pipeline, within_a_range(elect, happened, mine))
    assert happened.exists()
    assert cluster.leaders(pipeline.contract.topic)[mine] == victim
    assert batch.messages == 400
    _lead_with_others(cluster, pipeline.contract.topic, victim)  # after messages of its epoch were read
    chaos.world.send(pipeline, transfers(40, start=400))
    with chaos.world.open_run(pipeline) as context:
        pending = plan_batch(pipeline.contract, context)
    assert pending is not None
    assert {item.partition for item in pending.ranges if item.new_leader} >= {mine}
    return chaos.judge(pipeline, 3, "the same run followed; the next one asked the new leader")


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def all_three_brokers_restarted_while_a_range_is_read(chaos: Chaos) -> Verdict:
    """The run waits for them and continues; nothing is lost."""
    cluster, chaos = three_brokers(), _on_three(chaos)
    pipeline, happened, victim = _sent(chaos.world, cluster)
    before = {node.pid for node in cluster.nodes.values()}
    starting = Thread(target=_start_again, args=(cluster, happened))
    starting.start()
    kill = partial(_kill_all, sorted(before))
    (batch,) = play(chaos.world, pipeline, within_a_range(kill, happened, _led_by(cluster, pipeline, victim)))
    starting.join()
    assert before.isdisjoint(node.pid for node in cluster.nodes.values())
    assert batch.messages == 400
    return chaos.judge(pipeline, 3, "the same run waited and continued")


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def fewer_replicas_in_sync_than_min_insync_replicas(chaos: Chaos) -> Verdict:
    """With one broker down and min.insync.replicas 3, producers with acks=all are refused; lag stays visible, and
    acknowledged messages are read.

    If the leader did not lead before, Kafka does not report the log's end until all are back: the run fails at its
    limit and says so.
    """
    cluster, chaos = three_brokers(), _on_three(chaos)
    led, inherited = _led_by_one(chaos.world, cluster), _led_by_another(chaos.world, cluster)
    cluster.kill([3])
    wait_for(lambda: cluster.in_sync(led.contract.topic) == {0: {1, 2}}, "two replicas are left")
    wait_for(lambda: cluster.leaders(inherited.contract.topic)[0] in {1, 2}, "one of them leads")
    wait_for(lambda: _refusal(chaos.world, led) == "NOT_ENOUGH_REPLICAS", "the leader knows that one is missing")
    view = KafkaBroker(chaos.world.endpoints.kafka_options()).describe(led.contract.topic)
    assert lag(chaos.world.ledger.positions(led.name), view) == {0: 400}
    (batch,) = chaos.world.drain(led)
    assert batch.messages == 400
    with pytest.raises(BrokerAway, match=r"returned no metadata for topic .* within 2 s: .*high watermark"):
        play(chaos.world, inherited, _impatient)
    cluster.start([3])
    cluster.wait_until_whole(led.contract.topic)
    chaos.world.send(led, transfers(40, start=400), partition=0)
    chaos.judge(inherited, 2, "the run fails, the next one continues")
    return chaos.judge(led, 2, "writing is refused, reading continues")


def _on_three(chaos: Chaos) -> Chaos:
    return replace(chaos, world=three_brokers().world(chaos.world))


def _sent(world: World, cluster: ThreeBrokers) -> tuple[Pipeline, Path, int]:
    """Return a pipeline with 400 unread messages on all brokers, a mark, and a broker that is not the controller."""
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(400))
    cluster.wait_until_whole(pipeline.contract.topic)
    return pipeline, mark(pipeline), 3


def _led_by(cluster: ThreeBrokers, pipeline: Pipeline, broker: int) -> int:
    """Return a partition that this broker leads."""
    return next(n for n, leader in sorted(cluster.leaders(pipeline.contract.topic).items()) if leader == broker)


def _lead_with_others(cluster: ThreeBrokers, topic: str, broker: int) -> None:
    """Stop a broker (SIGSTOP) until others lead its partitions, then let it continue as their follower."""
    os.kill(cluster.nodes[broker].pid, signal.SIGSTOP)
    try:
        cluster.wait_until_led_by_others(topic, broker)
    finally:
        os.kill(cluster.nodes[broker].pid, signal.SIGCONT)
    cluster.wait_until_whole(topic)


def _prefer(options: Mapping[str, str], topic: str, partition: int, broker: int) -> None:
    """Elect the partition's preferred leader and wait until it leads."""
    admin, place = AdminClient(dict(options)), TopicPartition(topic, partition)
    admin.elect_leaders(ElectionType.PREFERRED, [place]).result(BOUND)
    wait_for(
        lambda: admin.list_topics(topic, timeout=20).topics[topic].partitions[partition].leader == broker,
        f"broker {broker} leads {topic}[{partition}]",
    )


def _kill_all(pids: Sequence[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _start_again(cluster: ThreeBrokers, happened: Path) -> None:
    wait_for(happened.exists, "all three were killed")
    cluster.start(NODES)


def _led_by_one(world: World, cluster: ThreeBrokers) -> Pipeline:
    """Return a pipeline with 400 unread messages in a single partition, led by the first broker."""
    return _single(world, cluster, lambda leader: leader == 1)


def _led_by_another(world: World, cluster: ThreeBrokers) -> Pipeline:
    """Return such a pipeline, led by the broker that will be killed."""
    return _single(world, cluster, lambda leader: leader == 3)


def _single(world: World, cluster: ThreeBrokers, wanted: Callable[[int], bool]) -> Pipeline:
    """Create topics until the leader is as wanted: Kafka chooses each leader at random."""
    for _ in range(100):
        pipeline = world.new_pipeline(partitions=1)
        cluster.wait_until_whole(pipeline.contract.topic)
        if wanted(cluster.leaders(pipeline.contract.topic)[0]):
            configure(world, pipeline, "min.insync.replicas", "3")
            world.drain(pipeline)  # its position is known
            world.send(pipeline, transfers(400), partition=0)
            return pipeline
    raise AssertionError("a hundred topics, and none is led by the broker that is wanted")


def _refusal(world: World, pipeline: Pipeline) -> str:
    """Return the error for a message sent with acks=all. Raises AssertionError if it is written.

    Until the leader knows that a replica is missing, it may be another error.
    """
    found: list[str] = []
    producer = Producer({**world.endpoints.kafka_options(), "acks": "all", "retries": 0})
    producer.list_topics(pipeline.contract.topic, timeout=20)  # it has found the remaining broker
    producer.produce(
        pipeline.contract.topic,
        transfers(1)[0],
        partition=0,
        on_delivery=lambda error, _: found.append(error.name() if error else "written"),
    )
    producer.flush(30)
    assert found != ["written"]
    return found[0] if found else "no answer"


def _impatient(context: RunContext) -> RunContext:
    broker = replace(context.broker, timeout=2.0)  # pyright: ignore[reportArgumentType]  # the port is no dataclass
    return replace(context, broker=broker)
