"""The findings about a cluster, from its observed state."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.cluster.health import SILENT_MS, health
from platform_defs.cluster.partition_health import WORST
from platform_defs.kafka.observed import Broker, Moving, Observed, Partition, Quorum, Voter

BROKERS = tuple(Broker(number, f"kafka-{number}:9092", rack) for number, rack in enumerate("abc", start=1))
VOTERS = tuple(Voter(number, 0, 100) for number in (1, 2, 3))
WHOLE = Partition("t", 0, 1, (1, 2, 3), (1, 2, 3), min_in_sync=2)
WELL = Observed("c", BROKERS, (WHOLE,), Quorum(1, 5, VOTERS))


def without(broker: int, **seen: Any) -> tuple[Broker, ...]:
    return tuple(replace(item, **seen) if item.id == broker else item for item in BROKERS)


def codes(observed: Observed, *, unhealthy: bool | None = None) -> list[str]:
    found = health(observed, embedded=False).findings
    return [item.code for item in found if unhealthy is None or item.unhealthy is unhealthy]


def test_a_whole_cluster_is_healthy() -> None:
    found = health(WELL, embedded=False)
    assert (found.healthy, found.exit_code, found.findings, found.worst) == (True, 0, (), ())


def test_a_killed_broker_is_named_before_the_controller_notices() -> None:
    found = health(replace(WELL, brokers=without(3, answers=False)), embedded=True)
    assert found.exit_code == 10
    (finding,) = found.findings
    assert finding.sentence == "broker 3 (kafka-3:9092) does not answer"
    assert finding.command == "tidegate stack up"


def test_the_partitions_that_a_silent_broker_leads_are_offline() -> None:
    led = replace(WHOLE, leader=3)
    assert "offline" in codes(replace(WELL, brokers=without(3, answers=False), partitions=(led,)))


def test_a_fenced_broker_that_answers_is_waited_for() -> None:
    found = health(replace(WELL, brokers=without(2, fenced=True)), embedded=False)
    assert [(item.code, item.command) for item in found.findings] == [
        ("broker_fenced", "tidegate cluster health --exit-when-healthy")
    ]


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        (replace(WHOLE, in_sync=(1, 2), min_in_sync=1), ["under_replicated"]),
        (replace(WHOLE, in_sync=(1, 2)), ["under_replicated"]),
        (replace(WHOLE, in_sync=(1,)), ["under_min_in_sync", "under_replicated"]),
        (replace(WHOLE, leader=None, in_sync=()), ["offline", "under_min_in_sync", "under_replicated"]),
    ],
)
def test_a_partition_that_lacks_replicas_is_unhealthy(partition: Partition, expected: list[str]) -> None:
    observed = replace(WELL, partitions=(partition,))
    assert codes(observed, unhealthy=True) == expected
    assert [item.partition for item in health(observed, embedded=False).worst] == [partition]


def test_counts_are_those_of_kafkas_own_metrics() -> None:
    partitions = (
        WHOLE,
        replace(WHOLE, number=1, in_sync=(1, 2)),
        replace(WHOLE, number=2, leader=2, in_sync=(2,)),
        replace(WHOLE, number=3, leader=None, in_sync=()),
    )
    counts = health(replace(WELL, partitions=partitions), embedded=False).counts
    assert (counts.partitions, counts.offline, counts.under_replicated) == (4, 1, 3)
    assert (counts.under_min_in_sync, counts.at_min_in_sync, counts.not_preferred) == (2, 1, 1)


def test_a_replica_that_is_being_added_is_not_missed() -> None:
    growing = replace(WHOLE, replicas=(1, 2, 3), in_sync=(1, 2), min_in_sync=1)
    moving = Moving("t", 0, (1, 2, 3), adding=(3,), removing=())
    observed = replace(WELL, partitions=(growing,), moving=(moving,))
    assert health(observed, embedded=False).healthy
    assert codes(observed) == ["moving"]


def test_an_unclean_election_is_offered_only_where_all_in_sync_are_lost() -> None:
    lost = replace(WHOLE, leader=None, in_sync=(3,))
    dead = replace(WELL, brokers=without(3, answers=False, fenced=True), partitions=(lost,))
    (offline,) = (item for item in health(dead, embedded=False).findings if item.code == "offline")
    assert "tidegate cluster elect t --unclean --confirm t" in offline.command
    hopeful = replace(dead, partitions=(replace(lost, in_sync=(2, 3)),))
    (offline,) = (item for item in health(hopeful, embedded=False).findings if item.code == "offline")
    assert "--unclean" not in offline.command


def test_a_lost_quorum_is_unhealthy_and_names_the_brokers_that_do_not_answer() -> None:
    silent = tuple(replace(item, answers=item.id == 1) for item in BROKERS)
    observed = replace(WELL, brokers=silent, quorum=None, quorum_lost="no answer within 4 s")
    finding = health(observed, embedded=True).findings[0]
    assert (finding.code, finding.command) == ("quorum_lost", "tidegate stack up")
    assert "Brokers 2 and 3 do not answer." in finding.sentence


def test_a_quorum_is_lost_once_no_majority_answers_though_its_leader_does_not_know_yet() -> None:
    silent = tuple(replace(item, answers=item.id == 1) for item in BROKERS)
    assert codes(replace(WELL, brokers=silent))[0] == "quorum_lost"
    assert "quorum_lost" not in codes(replace(WELL, brokers=without(3, answers=False)))


@pytest.mark.parametrize("silent_ms", [None, SILENT_MS + 1])
def test_a_voter_that_does_not_follow_is_named(silent_ms: int | None) -> None:
    voters = (*VOTERS[:2], Voter(3, 17, silent_ms))
    (finding,) = health(replace(WELL, quorum=Quorum(1, 5, voters)), embedded=False).findings
    assert finding.unhealthy
    assert finding.sentence.startswith("voter 3 has not followed the quorum's leader 1")
    assert "17 records behind" in finding.sentence


def test_an_even_number_of_voters_bears_no_more_than_one_fewer() -> None:
    voters = (*VOTERS, Voter(4, 0, 100))
    found = health(replace(WELL, quorum=Quorum(1, 5, voters)), embedded=False)
    assert [item.sentence for item in found.findings] == ["4 voters tolerate the loss of 1; 3 would tolerate the same"]
    assert found.healthy


def test_an_internal_topic_with_too_few_replicas_is_named() -> None:
    offsets = Partition("__consumer_offsets", 0, 1, (1,), (1,))
    observed = replace(WELL, partitions=(offsets,))
    (finding,) = health(observed, embedded=False).findings
    assert not finding.unhealthy
    assert finding.command == "tidegate cluster reassign plan __consumer_offsets --replication-factor 3"
    assert codes(replace(observed, brokers=BROKERS[:1])) == []  # one broker has one replica


def test_as_many_replicas_as_must_be_in_sync_are_warned_of() -> None:
    pair = Partition("t", 0, 1, (1, 2), (1, 2), min_in_sync=2)
    (finding,) = health(replace(WELL, partitions=(pair,)), embedded=False).findings
    assert not finding.unhealthy
    assert finding.command == "tidegate cluster reassign plan t --replication-factor 3"
    (finding,) = health(replace(WELL, brokers=BROKERS[:2], partitions=(pair,)), embedded=False).findings
    assert finding.command == "lower min.insync.replicas of t to 1"


def test_a_minimum_above_the_number_of_replicas_refuses_no_write_and_is_not_unhealthy() -> None:
    single = Partition("t", 0, 1, (1,), (1,), min_in_sync=2)
    found = health(replace(WELL, partitions=(single,)), embedded=False)
    assert (found.healthy, found.counts.under_min_in_sync, found.worst) == (True, 0, ())


def test_what_could_not_be_seen_is_not_called_healthy() -> None:
    found = health(replace(WELL, quorum=None, unknown=("the quorum: no rights",)), embedded=False)
    assert (found.healthy, found.exit_code) == (None, 1)
    worse = replace(WELL, quorum=None, unknown=("the quorum",), brokers=without(3, answers=False))
    assert health(worse, embedded=False).exit_code == 10


replicas = st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    assigned = draw(replicas)
    in_sync = tuple(broker for broker in assigned if draw(st.booleans()))
    leader = draw(st.sampled_from((None, *in_sync)))
    return Partition("t", draw(st.integers(0, 99)), leader, assigned, in_sync, draw(st.integers(1, 3)))


@given(st.lists(partitions(), max_size=30, unique_by=lambda item: item.number))
def test_at_most_ten_are_named_worst_first_and_none_is_healthy(found: list[Partition]) -> None:
    answer = health(replace(WELL, partitions=tuple(found)), embedded=False)
    assert len(answer.worst) <= WORST
    assert [item.state for item in answer.worst] == sorted((item.state for item in answer.worst), reverse=True)
    assert bool(answer.worst) is (answer.healthy is False)
