"""Faults of the network to both servers: slow, cutting connections, or keeping them open and losing everything."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import RunContext
from platform_defs.errors import BrokerAway, LedgerAway
from platform_defs.kafka.source import KafkaSource
from platform_defs.offsets import OffsetRange
from tests.chaos.kafka.three_brokers import THREE_BROKERS, three_brokers
from tests.chaos.moments import play
from tests.chaos.postgres.proxy import COMMIT, LAST_BEFORE_COMMIT, PIECE, Fault, Link, Proxy, Rule
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.logs import transaction
from tests.support.world import World, transfers

ENOUGH = 20_000  # bytes of responses on one connection: more than metadata, so messages are on their way
SLOW = 0.05  # seconds per piece of 64 KiB: 1.3 MB a second at most
BRIEF = 4.0  # seconds of patience: less than the aborted messages take on the slow network
LIMIT = 2_000  # ms before a silent connection to Postgres is given up, by the URL (libpq's tcp_user_timeout)

# ── Kafka ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@scenario(FaultClass.WAY_TO_KAFKA, shares=THREE_BROKERS)
def slow_way_to_Kafka(chaos: Chaos) -> Verdict:
    """Slower, and nothing else."""
    with kafka_behind_proxies(chaos) as (there, way, proxies):
        pipeline = _sent(there.world)
        for proxy in proxies:
            proxy.latency = 0.05
        (batch,) = way.drain(pipeline)
        assert batch.messages == 4_000
    return there.judge(pipeline, _fired(proxies), "slower")


@scenario(FaultClass.WAY_TO_KAFKA, shares=THREE_BROKERS)
def aborted_messages_for_longer_than_the_patience(chaos: Chaos, megabytes: int = 8) -> Verdict:
    """A crash loop left megabytes of aborted data behind a slow network. Ranges inside it end without a message, each
    before the rest is fetched, and the messages after it are read.
    """
    with kafka_behind_proxies(chaos) as (there, way, proxies):
        pipeline, world = there.world.new_pipeline(batch_messages=7 * megabytes + 4), there.world
        world.send(pipeline, transfers(10), partition=0)
        for _ in range(megabytes):
            with transaction(world, pipeline, [bytes(100_000)] * 10) as producer:
                producer.abort_transaction()
        world.send(pipeline, transfers(10, start=10), partition=0)
        for proxy in proxies:
            proxy.latency = SLOW
        before = _fired(proxies)
        inside = OffsetRange(pipeline.contract.topic, 0, 12, 15)
        assert list(KafkaSource(way.endpoints.kafka_options(), patience=BRIEF).read(inside)) == []
        assert _fired(proxies) - before < 6_000_000 / PIECE, "the rest was fetched as well"
        batches = play(way, pipeline, partial(_impatient, seconds=BRIEF))
        assert [batch.messages for batch in batches] == [10, 10]
    return there.judge(pipeline, _fired(proxies), "skipped, however long it took", messages=20)


@scenario(FaultClass.WAY_TO_KAFKA, representative=True, shares=THREE_BROKERS)
def connections_to_Kafka_reset_while_ranges_are_read(chaos: Chaos) -> Verdict:
    """The same run connects again and reads on."""
    with kafka_behind_proxies(chaos) as (there, way, proxies):
        pipeline = _sent(there.world)
        rule = _once_each(5, _amid_messages, "reset")
        for proxy in proxies:
            proxy.rule = rule
        (batch,) = way.drain(pipeline)
        assert (batch.messages, _fired(proxies)) == (4_000, 5)
    return there.judge(pipeline, 5, "the same run connected again")


@scenario(FaultClass.WAY_TO_KAFKA, shares=THREE_BROKERS)
def half_open_connection_to_Kafka_while_a_range_is_read(chaos: Chaos) -> Verdict:
    """Every packet on one connection is lost: its task gives up at its limit, Spark retries it, the run continues."""
    with kafka_behind_proxies(chaos) as (there, way, proxies):
        pipeline = _sent(there.world)
        rule = _once_each(1, _amid_messages, "lost")
        for proxy in proxies:
            proxy.rule = rule
        (batch,) = play(way, pipeline, _impatient)
        assert (batch.messages, _fired(proxies)) == (4_000, 1)
    return there.judge(pipeline, 1, "the task was repeated")


@scenario(FaultClass.WAY_TO_KAFKA, shares=THREE_BROKERS)
def Kafka_accepts_and_keeps_connections_and_says_nothing(chaos: Chaos) -> Verdict:
    """From the middle of a range on: the run fails at its limit and reports it; the next too; then they continue."""
    with kafka_behind_proxies(chaos) as (there, way, proxies):
        pipeline = _sent(there.world)
        rule = _once_each(len(proxies), _amid_messages, "silent")
        for proxy in proxies:
            proxy.rule = _silencing(rule, proxies)
        with pytest.raises(BrokerAway, match=r"no message received .* for 1 s"):
            play(way, pipeline, _impatient)
        with pytest.raises(BrokerAway, match="returned no metadata for topic"):
            play(way, pipeline, _impatient)
        assert all(proxy.silent for proxy in proxies)
    return there.judge(pipeline, _fired(proxies), "both runs failed at their limit and said so")


# ── Postgres ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@scenario(FaultClass.WAY_TO_POSTGRES)
def slow_way_to_Postgres(chaos: Chaos) -> Verdict:
    """Slower, and nothing else."""
    pipeline = _sent(chaos.world)
    with _postgres_behind_a_proxy(chaos.world) as (way, proxy):
        proxy.latency = 0.01
        (batch,) = way.drain(pipeline)
        assert batch.messages == 4_000
    return chaos.judge(pipeline, proxy.fired, "slower")


@scenario(FaultClass.WAY_TO_POSTGRES)
def connection_to_Postgres_reset_in_COPY(chaos: Chaos) -> Verdict:
    """The task fails, Spark retries it, and what the first attempt left counts for nothing."""
    return _in_copy(chaos, "reset")


@scenario(FaultClass.WAY_TO_POSTGRES, representative=True)
def half_open_connection_to_Postgres_in_COPY(chaos: Chaos) -> Verdict:
    """Every packet is lost: both ends give the connection up at their limit, and Spark retries the task."""
    return _in_copy(chaos, "lost")


@scenario(FaultClass.WAY_TO_POSTGRES)
def half_open_connection_to_Postgres_in_the_audit(chaos: Chaos) -> Verdict:
    """Great Expectations' own connection gives up at the same limit; no rule is blamed, and the rules are evaluated
    again.
    """
    pipeline = _sent(chaos.world)
    with _postgres_behind_a_proxy(chaos.world, _once_each(1, _amid_audit, "lost")) as (way, proxy):
        (batch,) = way.drain(pipeline)
        assert (batch.messages, proxy.fired) == (4_000, 1)
    return chaos.judge(pipeline, proxy.fired, "judged over another connection")


@scenario(FaultClass.WAY_TO_POSTGRES)
def half_open_connection_to_Postgres_before_COMMIT_arrives(chaos: Chaos) -> Verdict:
    """Given up at the limit; under the row lock it is found not committed, and reported so."""
    pipeline = _sent(chaos.world)
    with _postgres_behind_a_proxy(chaos.world, _at_commit(first_said=True)) as (way, proxy):
        with pytest.raises(LedgerAway, match="lost before batch"):
            way.drain(pipeline)
        assert chaos.world.table(pipeline) == []
    return chaos.judge(pipeline, proxy.fired, "not committed, and said so")


@scenario(FaultClass.WAY_TO_POSTGRES)
def half_open_connection_to_Postgres_after_COMMIT_is_done(chaos: Chaos) -> Verdict:
    """The response never comes: given up at the limit, and found committed under the row lock."""
    pipeline = _sent(chaos.world)
    with _postgres_behind_a_proxy(chaos.world, _at_commit(first_said=False)) as (way, proxy):
        (batch,) = way.drain(pipeline)
        assert batch.messages == 4_000
    return chaos.judge(pipeline, proxy.fired, "found committed")


@scenario(FaultClass.WAY_TO_POSTGRES)
def Postgres_accepts_connections_and_says_nothing(chaos: Chaos) -> Verdict:
    """The run fails at its limit and reports it; the next one continues."""
    pipeline = _sent(chaos.world)
    with _postgres_behind_a_proxy(chaos.world) as (way, proxy):
        proxy.silent = True
        with pytest.raises(LedgerAway, match="timeout expired"):
            way.drain(pipeline)
    return chaos.judge(pipeline, proxy.fired, "failed at its limit, then continued")


def _in_copy(chaos: Chaos, fault: Fault) -> Verdict:
    pipeline = _sent(chaos.world)
    with _postgres_behind_a_proxy(chaos.world, _once_each(1, _amid_copy(), fault)) as (way, proxy):
        (batch,) = way.drain(pipeline)
        assert (batch.messages, proxy.fired) == (4_000, 1)
    return chaos.judge(pipeline, proxy.fired, "the task was repeated")


Moment = Callable[[Link, bytes, bool], bool]


def _once_each(times: int, moment: Moment, fault: Fault) -> Rule:
    """Return `fault` at the first `times` such moments, each on another connection."""
    met: list[Link] = []

    def rule(link: Link, data: bytes, sent: bool) -> Fault | None:
        if link in met or len(met) >= times or not moment(link, data, sent):
            return None
        met.append(link)
        return fault

    return rule


def _silencing(rule: Rule, proxies: list[Proxy]) -> Rule:
    """Apply `rule`; once it has fired, let nothing through."""

    def silence(link: Link, data: bytes, sent: bool) -> Fault | None:
        if (fault := rule(link, data, sent)) is not None:
            for proxy in proxies:
                proxy.silent = True
        return fault

    return silence


def _amid_messages(link: Link, data: bytes, sent: bool) -> bool:
    return not sent and link.answered + len(data) > ENOUGH


def _amid_copy() -> Moment:
    """Match when rows are on their way: after the task's COPY statement."""
    copying: set[Link] = set()

    def moment(link: Link, data: bytes, sent: bool) -> bool:
        begun = link in copying
        if sent and b"FROM STDIN" in data and b"rows_" in data:
            copying.add(link)
        return sent and begun

    return moment


def _amid_audit(link: Link, data: bytes, sent: bool) -> bool:
    return sent and b"sum(amount)" in data.lower() and b"audited_" in data


def _at_commit(*, first_said: bool) -> Rule:
    """Lose every packet on the publishing connection: from COMMIT on, or from its response on."""
    publishing: set[Link] = set()
    committing: set[Link] = set()

    def moment(link: Link, data: bytes, sent: bool) -> bool:
        if sent and LAST_BEFORE_COMMIT in data:
            publishing.add(link)
        if sent and link in publishing and COMMIT in data:
            committing.add(link)
        return link in committing and sent == first_said

    return _once_each(1, moment, "lost")


@contextmanager
def kafka_behind_proxies(chaos: Chaos) -> Iterator[tuple[Chaos, World, list[Proxy]]]:
    """Yield the scenario on the cluster, a world that reaches it by the proxies, and these; reset them at the end."""
    cluster = three_brokers()
    proxies = [node.proxy for node in cluster.nodes.values()]
    for proxy in proxies:
        proxy.fired = 0
    try:
        yield replace(chaos, world=cluster.world(chaos.world)), cluster.behind_proxies(chaos.world), proxies
    finally:
        for proxy in proxies:
            proxy.clear_faults()


@contextmanager
def _postgres_behind_a_proxy(world: World, rule: Rule | None = None) -> Iterator[tuple[World, Proxy]]:
    """Yield the proxy, and a world that reaches Postgres through it and gives up silent connections after LIMIT."""
    url = world.endpoints.postgres_url
    with Proxy.before(url, rule) as proxy:
        led = proxy.lead(url, tcp_user_timeout=str(LIMIT), connect_timeout="2")
        yield replace(world, endpoints=replace(world.endpoints, postgres_url=led)), proxy


def _fired(proxies: list[Proxy]) -> int:
    return sum(proxy.fired for proxy in proxies)


def _sent(world: World) -> Pipeline:
    pipeline = world.new_pipeline(partitions=1)  # one task: if it fails for good, it has been tried four times
    world.send(pipeline, transfers(4_000), partition=0)
    return pipeline


def _impatient(context: RunContext, seconds: float = 1.0) -> RunContext:
    source = replace(context.source, patience=seconds)  # pyright: ignore[reportArgumentType]
    broker = replace(context.broker, timeout=1.0)  # pyright: ignore[reportArgumentType]  # the ports are no dataclasses
    return replace(context, source=source, broker=broker)
