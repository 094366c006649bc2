"""Skew by CMAK's formulas: worked examples, and rules that always hold."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.cluster.skew import TopicSkew, cluster_load, topic_skew
from platform_defs.kafka.observed import Partition


def partition(
    number: int, *replicas: int, leader: int | None = -1, in_sync: tuple[int, ...] | None = None
) -> Partition:
    first = replicas[0] if leader == -1 else leader
    return Partition("t", number, first, replicas, replicas if in_sync is None else in_sync)


def topic(*assigned: tuple[int, ...]) -> list[Partition]:
    return [partition(number, *replicas) for number, replicas in enumerate(assigned)]


@dataclass(frozen=True)
class Worked:
    """An assignment in a cluster of `brokers` brokers, and CMAK's four numbers."""

    partitions: list[Partition]
    brokers: int
    skew: int
    leader_skew: int
    spread: int
    preferred: int


WORKED = {
    # B=1, share ceil(3/1*1)=3: one broker with 3 is not above it. Spread 100*1/3.
    "all on one of three": Worked(topic((1,), (1,), (1,)), 3, 0, 0, 33, 100),
    # B=3, share ceil(3/3*1)=1, leaders ceil(3/3)=1.
    "one on each of three": Worked(topic((1,), (2,), (3,)), 3, 0, 0, 100, 100),
    # B=2, share ceil(3/2)=2, leaders 2: broker 1 has 2, broker 2 has 1. Spread 100*2/3.
    "three over two of three": Worked(topic((1,), (1,), (2,)), 3, 0, 0, 66, 100),
    # B=2, share ceil(4/2)=2: broker 1 has 3 of 4: one of two brokers is skewed, and leads 3 > 2.
    "three of four on one": Worked(topic((1,), (1,), (1,), (2,)), 3, 50, 50, 66, 100),
    # B=3, share ceil(3/3*2)=2: 1 has 3, 2 has 2, 3 has 1; leaders ceil(1)=1: 1 leads 3. One of three: 33.
    "led by one": Worked(topic((1, 2), (1, 3), (1, 2)), 3, 33, 33, 100, 100),
    # B=3, RF 3: each has 3 = ceil(3/3*3); broker 1 leads all three > 1, two of them for brokers 2 and 3.
    "leaders moved": Worked(
        [partition(0, 1, 2, 3), partition(1, 2, 3, 1, leader=1), partition(2, 3, 1, 2, leader=1)], 3, 0, 33, 100, 33
    ),
    # Broker 3 is out of sync everywhere, so B=2: share ceil(2/2*3)=3, each has 2; leaders ceil(2/2)=1 each.
    "one out of sync": Worked(
        [partition(0, 1, 2, 3, in_sync=(1, 2)), partition(1, 2, 3, 1, in_sync=(2, 1))], 3, 0, 0, 66, 100
    ),
    # Six on four, B=4, share ceil(6/4*2)=3: 1 has 6, 2 and 3 two, 4 two; leaders ceil(6/4)=2: broker 1 leads 6.
    "one in all of six": Worked(topic((1, 2), (1, 3), (1, 4), (1, 2), (1, 3), (1, 4)), 4, 25, 25, 100, 100),
    # No replica in sync, no leader: B=0; CMAK gives 0 for both skews, spread 0.
    "offline": Worked([partition(0, 1, leader=None, in_sync=())], 3, 0, 0, 0, 0),
}


@pytest.mark.parametrize("name", WORKED)
def test_a_topic_has_the_numbers_that_cmak_shows(name: str) -> None:
    worked = WORKED[name]
    found = topic_skew(worked.partitions, worked.brokers)
    assert (found.skew_percent, found.leader_skew_percent, found.spread_percent, found.preferred_percent) == (
        worked.skew,
        worked.leader_skew,
        worked.spread,
        worked.preferred,
    )


def test_the_brokers_above_their_share_are_named() -> None:
    found = topic_skew(WORKED["led by one"].partitions, 3)
    assert [(item.broker, item.replicas, item.leaders) for item in found.brokers] == [(1, 3, 3), (2, 2, 0), (3, 1, 0)]
    assert [item.broker for item in found.brokers if item.skewed] == [1]
    assert [item.broker for item in found.brokers if item.leader_skewed] == [1]


def test_a_cluster_without_brokers_is_spread_as_cmak_says() -> None:
    assert topic_skew([partition(0, 1)], 0).spread_percent == 100


@st.composite
def topics(draw: st.DrawFn) -> list[Partition]:
    factor = draw(st.integers(1, 4))
    replicas = st.lists(st.integers(1, 5), min_size=factor, max_size=factor, unique=True).map(tuple)
    return topic(*draw(st.lists(replicas, min_size=1, max_size=12)))


@given(topics())
def test_percentages_are_percentages_and_count_every_replica(partitions: list[Partition]) -> None:
    found: TopicSkew = topic_skew(partitions, 5)
    shares = (found.skew_percent, found.leader_skew_percent, found.spread_percent, found.preferred_percent)
    assert all(0 <= share <= 100 for share in shares)
    assert sum(item.replicas for item in found.brokers) == sum(len(item.replicas) for item in partitions)
    assert found.skew_percent < 100  # the mean cannot be below every count


def test_a_broker_deviates_from_the_mean_of_all_brokers() -> None:
    sizes = {("t", 0, 1): 300, ("t", 0, 2): 300, ("t", 1, 1): 100, ("t", 1, 2): 100, ("gone", 0, 1): 1}
    one, two, three = cluster_load(topic((1, 2), (1, 2)), (1, 2, 3), sizes)
    assert (one.replicas, one.leaders, one.bytes) == (2, 2, 400)
    assert one.replicas_deviation == pytest.approx(0.5)  # 2 against a mean of 4/3
    assert one.leaders_deviation == pytest.approx(2.0)  # 2 against 2/3
    assert one.bytes_deviation == pytest.approx(0.5)  # 400 against 800/3
    assert two.leaders_deviation == -1.0
    assert (three.replicas, three.replicas_deviation, three.bytes_deviation) == (0, -1.0, -1.0)


def test_an_empty_cluster_deviates_from_nothing() -> None:
    (one,) = cluster_load([], (1,), {})
    assert (one.replicas_deviation, one.leaders_deviation, one.bytes_deviation) == (0.0, 0.0, 0.0)


def test_bytes_that_are_not_known_have_no_deviation() -> None:
    (one,) = cluster_load(topic((1,)), (1,))
    assert one.bytes is None
    assert one.bytes_deviation is None


@given(topics())
def test_deviations_of_a_cluster_cancel_out(partitions: list[Partition]) -> None:
    load = cluster_load(partitions, range(1, 6))
    assert sum(item.replicas_deviation for item in load) == pytest.approx(0, abs=1e-9)
    assert sum(item.leaders_deviation for item in load) == pytest.approx(0, abs=1e-9)
