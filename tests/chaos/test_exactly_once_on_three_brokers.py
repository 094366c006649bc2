"""The exactly-once suite on three brokers (three replicas, two in sync) while brokers are killed at random: the
promises of one batch, and runs that are killed, stopped or meet each other.

TIDEGATE_TEST_SEED chooses the brokers and moments; the seed is printed.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import Budget
from platform_defs.stack.endpoints import Endpoints
from tests.chaos.catalogue import ELSEWHERE
from tests.chaos.kafka.broker_killer import BrokerKiller
from tests.chaos.kafka.three_brokers import THREE_BROKERS, ThreeBrokers, three_brokers
from tests.chaos.processes.kills import Trickle
from tests.chaos.runs import SERVERS
from tests.chaos.scenario import Chaos
from tests.integration.engine import test_exactly_once, test_staging_tables
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(THREE_BROKERS), pytest.mark.timeout(900)]
KILLS = 5  # kills, at least, while messages are written and read

# Each test of the suite, here with the world below.
SUITE = vars(test_exactly_once) | vars(test_staging_tables)
globals().update({name: test for name, test in SUITE.items() if name.startswith("test_")})

# The tests of this suite that .ci/run runs; `make test-long` runs the others (tests/order.py).
IN_CI = ("test_a_topic_here_has_three_replicas_of_which_two_must_be_in_sync",)


@dataclass(frozen=True)
class WorldOfThree(World):
    """A world whose new topics are known to all live brokers. The killer restarts the dead ones."""

    cluster: ThreeBrokers | None = None

    def create_topic(self, topic: str, partitions: int = 4, config: dict[str, str] | None = None) -> None:
        super().create_topic(topic, partitions, config)
        assert self.cluster is not None
        self.cluster.wait_until_known(topic)


@pytest.fixture(scope="module")
def cluster(endpoints: Endpoints) -> Iterator[ThreeBrokers]:
    """Use three brokers, also in the runs' separate processes."""
    found = three_brokers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SERVERS, ",".join(f"127.0.0.1:{node.port}" for node in found.nodes.values()))
        yield found


@pytest.fixture(scope="module")
def killer(cluster: ThreeBrokers) -> Iterator[BrokerKiller]:
    """Kill brokers from the first test of this file to its last."""
    with BrokerKiller(cluster, int(os.environ.get("TIDEGATE_TEST_SEED") or random.randrange(10**6))) as found:
        yield found


@pytest.fixture
def world(world: World, cluster: ThreeBrokers, killer: BrokerKiller) -> World:
    print(f"brokers are killed by TIDEGATE_TEST_SEED={killer.seed}")  # noqa: T201  # shown if a test fails
    killer.check()
    there = cluster.world(world)
    return WorldOfThree(there.endpoints, there.spark, there.replicas, cluster)


def test_a_topic_here_has_three_replicas_of_which_two_must_be_in_sync(world: World) -> None:
    topic = world.new_pipeline().contract.topic
    partitions = world.admin().list_topics(topic, timeout=20).topics[topic].partitions.values()
    assert [sorted(one.replicas) for one in partitions] == [[1, 2, 3]] * 4


@pytest.mark.parametrize("name", ELSEWHERE)
def test_nothing_is_lost_or_doubled_by_runs_while_brokers_are_killed(world: World, name: str) -> None:
    verdict = ELSEWHERE[name].play(Chaos(world, random.Random(name), kills=2))
    assert verdict.kept, verdict


def test_what_was_written_and_read_while_brokers_were_killed_is_exact(
    world: World, cluster: ThreeBrokers, killer: BrokerKiller
) -> None:
    pipeline, before = world.new_pipeline(), len(killer.killed)
    with Trickle(world, pipeline):
        _drain_until(world, pipeline, killer, before + KILLS)
    killed = killer.killed[before:]
    assert len(killed) >= KILLS
    pids = {pid for _, pid in killed}
    assert len(pids) == len(killed)
    assert pids.isdisjoint(node.pid for node in cluster.nodes.values() if node.runs)
    assert Chaos(world, random.Random(0), 0).judge(pipeline, len(killed), "exact").kept
    assert len(world.table(pipeline)) > 0


def _drain_until(world: World, pipeline: Pipeline, killer: BrokerKiller, kills: int) -> None:
    def enough() -> bool:
        killer.check()
        world.drain(pipeline, Budget(batches=3))  # messages are sent all the time: it might never reach the end
        return len(killer.killed) >= kills

    wait_for(enough, f"{kills} brokers were killed")
