"""An unclean election cuts a log below what was read of it, and the new leader writes on."""

from dataclasses import replace

import pytest
from confluent_kafka.cimpl import NewTopic

from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput
from tests.chaos.halts import acknowledge, halted
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.chaos.three_brokers import THREE_BROKERS, ThreeBrokers, three_brokers, wait_until
from tests.logs import transaction
from tests.world import World, transfers

UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
OTHER, LEADER = 2, 3  # killed, both: until one is back, broker 1 has no controller


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def log_cut_by_an_unclean_election_and_written_on(chaos: Chaos) -> Verdict:
    """The new leader's epochs tell: halt; `ack` finds where the log was cut, and reads on from there."""
    cluster = three_brokers()
    world = cluster.world(chaos.world)
    pipeline = _read_to_20(world, cluster)
    _lead_with_the_other(cluster, pipeline.contract.topic)
    world.send(pipeline, transfers(15, start=100), partition=0)
    cluster.start([LEADER])
    assert halted(world, pipeline, "log_truncated")["partitions"] == [0]
    with pytest.raises(BadInput, match="partition 0 was truncated at offset 10 and written on"):
        acknowledge(world, pipeline)
    (step,) = acknowledge(world, pipeline, "cut").steps
    assert step.becomes is not None
    assert (step.lost, step.becomes.next_offset) == ((10, 20), 10)
    verdict = replace(chaos, world=world).judge(pipeline, 1, "halted; read on from where it was cut")
    assert len(world.table(pipeline)) == 2 * (20 + 15)
    return verdict


@scenario(FaultClass.TRANSACTIONS, shares=THREE_BROKERS)
def transactional_topic_cut_by_an_unclean_election(chaos: Chaos) -> Verdict:
    """The position follows a marker, which no reader sees, and the new log passes it: halt; `ack` finds the cut."""
    cluster = three_brokers()
    world = cluster.world(chaos.world)
    pipeline = _only_the_leader_follows(world, cluster)
    with transaction(world, pipeline, transfers(10, start=10)) as producer:
        producer.commit_transaction()
    assert sum(batch.messages for batch in world.drain(pipeline)) == 20
    before = world.table(pipeline)
    _lead_with_the_other(cluster, pipeline.contract.topic)
    world.send(pipeline, transfers(15, start=100), partition=0)
    cluster.start([LEADER])
    assert "[0] was truncated below 21 and then written again" in halted(world, pipeline, "log_truncated")["error"]
    assert world.table(pipeline) == before
    (step,) = acknowledge(world, pipeline, "cut").steps
    assert step.lost == (10, 21)
    return replace(chaos, world=world).judge(pipeline, 1, "halted; read on from where it was cut")


def _read_to_20(world: World, cluster: ThreeBrokers) -> Pipeline:
    """A pipeline that has read 20 messages, of which the broker that leads holds the last ten alone."""
    pipeline = _only_the_leader_follows(world, cluster)
    world.send(pipeline, transfers(10, start=10), partition=0)
    assert sum(batch.messages for batch in world.drain(pipeline)) == 20
    return pipeline


def _only_the_leader_follows(world: World, cluster: ThreeBrokers) -> Pipeline:
    """A pipeline whose topic holds ten messages on two brokers, and will hold what comes next on one alone."""
    pipeline = world.new_pipeline()
    topic = f"{pipeline.contract.topic}.unclean"
    pipeline = replace(pipeline, contract=replace(pipeline.contract, topic=topic))
    admin = world.admin()
    new = NewTopic(topic, 1, replica_assignment=[[LEADER, OTHER]], config=UNCLEAN)
    admin.create_topics([new])[topic].result(20)
    world.send(pipeline, transfers(10), partition=0)
    wait_until(lambda: cluster.in_sync(topic) == {0: {OTHER, LEADER}}, "both hold it")
    cluster.kill([OTHER])
    wait_until(lambda: cluster.in_sync(topic) == {0: {LEADER}}, "the leader is alone")
    return pipeline


def _lead_with_the_other(cluster: ThreeBrokers, topic: str) -> None:
    cluster.kill([LEADER])
    cluster.start([OTHER])
    wait_until(lambda: cluster.leaders(topic) == {0: OTHER}, "the other one leads")
