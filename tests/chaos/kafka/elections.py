"""Unclean elections: the log is truncated below what was read, and the new leader writes on."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import pytest
from confluent_kafka.admin import NewTopic

from platform_defs import offsets
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import drain
from platform_defs.errors import BadInput, LogTruncated
from platform_defs.formats.blocks.block import Block
from platform_defs.kafka.source import KafkaSource
from platform_defs.offsets import OffsetRange
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.kafka.three_brokers import THREE_BROKERS, ThreeBrokers, three_brokers
from tests.chaos.postgres.network import kafka_behind_proxies
from tests.chaos.postgres.proxy import Fault, Link, Rule
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.logs import transaction
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfer, transfers

UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
FETCH = b"\0\1"  # the API key in Kafka's protocol, after a request's four bytes of size
OTHER, LEADER = 2, 3  # both are killed: until one is back, broker 1 has no controller


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def log_cut_by_an_unclean_election_and_written_on(chaos: Chaos) -> Verdict:
    """The new leader's epochs reveal it: halt; `resolve` finds where the log was truncated, and reads on from there."""
    cluster = three_brokers()
    world = cluster.world(chaos.world)
    pipeline = _read_to_20(world, cluster)
    _lead_with_the_other(cluster, pipeline.contract.topic)
    world.send(pipeline, transfers(15, start=100), partition=0)
    cluster.start([LEADER])
    assert halted(world, pipeline, "log_truncated")["partitions"] == [0]
    with pytest.raises(BadInput, match="partition 0 was truncated at offset 10 and then written to again"):
        resolve_halt(world, pipeline)
    (step,) = resolve_halt(world, pipeline, "cut").steps
    assert step.becomes is not None
    assert (step.lost, step.becomes.next_offset) == ((10, 20), 10)
    verdict = replace(chaos, world=world).judge(pipeline, 1, "halted; read on from where it was cut")
    assert len(world.table(pipeline)) == 2 * (20 + 15)
    return verdict


@scenario(FaultClass.TRANSACTIONS, shares=THREE_BROKERS)
def transactional_topic_cut_by_an_unclean_election(chaos: Chaos) -> Verdict:
    """The position follows a marker, which no reader sees, and the new log passes it: halt; `resolve` finds the cut."""
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
    (step,) = resolve_halt(world, pipeline, "cut").steps
    assert step.lost == (10, 21)
    return replace(chaos, world=world).judge(pipeline, 1, "halted; read on from where it was cut")


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def log_cut_by_an_unclean_election_while_a_range_is_read(chaos: Chaos) -> Verdict:
    """The consumer that has read past the truncation does not notice: its connection is silent. The task reads the
    range again from the new log, which is not the planned one: nothing is published, and the next run reads it.
    """
    cluster, lost, written = three_brokers(), Event(), Event()
    with kafka_behind_proxies(chaos) as (there, way, proxies):
        world, pipeline = there.world, _only_the_leader_follows(there.world, cluster)
        large = [transfer(number, memo="x" * 150_000) for number in range(20, 40)]  # more than one response of a broker
        world.send(pipeline, [*transfers(10, start=10), *large], partition=0)
        with _cut_once(lost.is_set, world, cluster, pipeline, written.set):
            for proxy in proxies:
                proxy.rule = _silent_after_the_first_messages(lost, written)
            _assert_publishes_nothing(way, pipeline)
    assert [batch.messages for batch in world.drain(pipeline)] == [40, 30]
    return there.judge(pipeline, 1, "not published; read again from the new log")


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def log_cut_by_an_unclean_election_between_two_ranges_of_a_batch(chaos: Chaos) -> Verdict:
    """One range is from the old log, the next one from the new: not published; the next run reads both from the new."""
    cluster = three_brokers()
    world = cluster.world(chaos.world)
    pipeline = _only_the_leader_follows(world, cluster)
    world.send(pipeline, transfers(30, start=10), partition=0)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(offsets, "MESSAGES_WORTH_A_TASK", 20)
        cut = _CutBefore(20, Path(folder, "read"), Path(folder, "written"))
        with _cut_once(cut.read_before.exists, world, cluster, pipeline, cut.written.touch):
            _assert_publishes_nothing(world, pipeline, cut)
    assert [batch.messages for batch in world.drain(pipeline)] == [40, 30]
    return replace(chaos, world=world).judge(pipeline, 1, "not published; both read again from the new log")


@scenario(FaultClass.BROKER_DOWN, shares=THREE_BROKERS)
def log_cut_below_a_planned_batch_and_read_by_a_consumer_that_knows_the_new_leader(chaos: Chaos) -> Verdict:
    """A reused consumer does not query a leader that it already knows, and what it reads is not published. The next run
    queries it and halts.
    """
    cluster = three_brokers()
    world = cluster.world(chaos.world)
    pipeline = _read_to_20(world, cluster)
    before = world.table(pipeline)
    world.send(pipeline, transfers(10, start=20), partition=0)
    with TemporaryDirectory() as folder:
        cut = _CutBefore(20, Path(folder, "read"), Path(folder, "written"), kept=True)
        with _cut_once(cut.read_before.exists, world, cluster, pipeline, cut.written.touch):
            _assert_publishes_nothing(world, pipeline, cut)
    assert halted(world, pipeline, "log_truncated")["partitions"] == [0]
    assert world.table(pipeline) == before
    (step,) = resolve_halt(world, pipeline, "cut").steps
    assert step.lost == (10, 20)
    return replace(chaos, world=world).judge(pipeline, 1, "not published; halted; read on from where it was cut")


@dataclass(frozen=True)
class _CutBefore:
    """A source that reads the range beginning at `at` after the truncation, with a consumer that knows the new leader;
    any other range before.
    """

    at: int
    read_before: Path  # exists once something was read from the old log
    written: Path  # exists once the new leader has written on
    kept: bool = False  # the consumer has read from the old leader
    real: KafkaSource | None = None

    def read(self, wanted: OffsetRange, cluster_id: str | None = None) -> Iterator[Block]:
        assert self.real is not None
        if wanted.from_offset != self.at:
            yield from self.real.read(wanted, cluster_id)
            self.read_before.touch()
            return
        if self.kept:
            earlier = replace(wanted, from_offset=self.at - 5, until_offset=self.at, leader_epoch=None)
            assert sum(len(block.values) for block in self.real.read(earlier, cluster_id)) == 5
            self.read_before.touch()
        wait_for(self.written.exists, "the new leader has written on")
        asked = self.real._consumer()
        wait_for(
            lambda: asked.list_topics(wanted.topic, 5).topics[wanted.topic].partitions[0].leader == OTHER,
            "the consumer knows the new leader",
        )
        yield from self.real.read(wanted, cluster_id)


@contextmanager
def _cut_once(
    event: Callable[[], bool], world: World, cluster: ThreeBrokers, pipeline: Pipeline, then: Callable[[], object]
) -> Iterator[None]:
    """After `event`, truncate the log to its first ten messages and write 60 others; then call `then`."""

    def cut() -> None:
        wait_for(event, "something was read")
        _lead_with_the_other(cluster, pipeline.contract.topic)
        world.send(pipeline, transfers(60, start=100), partition=0)
        then()

    try:
        with ThreadPoolExecutor(1) as pool:
            cutting = pool.submit(cut)
            yield
            cutting.result()
    finally:
        cluster.start([LEADER])


def _assert_publishes_nothing(world: World, pipeline: Pipeline, cut: _CutBefore | None = None) -> None:
    """Assert that a run publishes nothing of what it read."""
    read = sum(world.position(pipeline).values())
    with world.open_run(pipeline) as context:
        assert isinstance(context.source, KafkaSource)
        source = replace(cut, real=context.source) if cut else context.source
        with pytest.raises(LogTruncated, match=r"planned at leader epoch 0 but contains messages of leader epoch \d"):
            list(drain(pipeline, replace(context, source=source)))
    assert sum(world.position(pipeline).values()) == read
    assert len(world.table(pipeline)) == 2 * read


def _silent_after_the_first_messages(lost: Event, written: Event) -> Rule:
    """Lose all packets on the connection whose response had messages in it, from its next fetch on, and reset
    connections opened after that, until `written`. The consumer on that connection learns of no new leader.
    """
    before: set[Link] = set()
    carrying: set[Link] = set()

    def rule(link: Link, data: bytes, of_client: bool) -> Fault | None:
        if lost.is_set():
            return None if link in before or written.is_set() else "reset"
        before.add(link)
        if not of_client and b"payment 1" in data:
            carrying.add(link)
        if not (of_client and link in carrying and data[4:6] == FETCH):
            return None
        lost.set()
        return "lost"

    return rule


def _read_to_20(world: World, cluster: ThreeBrokers) -> Pipeline:
    """Return a pipeline that has read 20 messages; only the leader has the last ten."""
    pipeline = _only_the_leader_follows(world, cluster)
    world.send(pipeline, transfers(10, start=10), partition=0)
    assert sum(batch.messages for batch in world.drain(pipeline)) == 20
    return pipeline


def _only_the_leader_follows(world: World, cluster: ThreeBrokers) -> Pipeline:
    """Return a pipeline whose topic has ten messages on two brokers; only the leader will have the following ones."""
    pipeline = world.new_pipeline()
    topic = f"{pipeline.contract.topic}.unclean"
    pipeline = replace(pipeline, contract=replace(pipeline.contract, topic=topic))
    admin = world.admin()
    new = NewTopic(topic, 1, replica_assignment=[[LEADER, OTHER]], config=UNCLEAN)
    admin.create_topics([new])[topic].result(BOUND)
    world.send(pipeline, transfers(10), partition=0)
    wait_for(lambda: cluster.in_sync(topic) == {0: {OTHER, LEADER}}, "both hold it")
    cluster.kill([OTHER])
    wait_for(lambda: cluster.in_sync(topic) == {0: {LEADER}}, "the leader is alone")
    return pipeline


def _lead_with_the_other(cluster: ThreeBrokers, topic: str) -> None:
    cluster.kill([LEADER])
    cluster.start([OTHER])
    wait_for(lambda: cluster.leaders(topic) == {0: OTHER}, "the other one leads")
