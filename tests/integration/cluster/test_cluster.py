"""A cluster of one broker, as `tidegate cluster` sees and changes it; chaos/kafka/cluster_commands.py has three."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from platform_defs.cluster.health import health
from platform_defs.cluster.observe import Look
from platform_defs.cluster.reassign import Kept, Reassigning, Record
from platform_defs.cluster.reassign_plan import Wanted, plan
from platform_defs.cluster.reassignment import Reassignment, TopicPlan
from platform_defs.doctor.kafka_examination import KafkaExamination
from platform_defs.errors import BadInput, BrokerAway, ChangedMeanwhile, TopicMissing
from platform_defs.kafka.throttles import FOLLOWER, LEADER, KafkaThrottles
from tests.support.postgres.restricted_roles import new_company
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfers


@pytest.fixture
def look(world: World) -> Look:
    return Look(world.endpoints.kafka_options())


@pytest.fixture
def topic(world: World) -> str:
    return world.new_pipeline(partitions=2, config={"min.insync.replicas": "1"}).contract.topic


def test_the_broker_its_quorum_and_a_topic_are_seen(look: Look, topic: str) -> None:
    seen = look.observe()
    (broker,) = seen.brokers
    assert (broker.id, broker.answers, broker.fenced) == (1, True, False)
    assert seen.quorum is not None
    assert (seen.quorum.leader, [voter.id for voter in seen.quorum.voters]) == (1, [1])
    assert (seen.quorum_lost, seen.unknown, seen.moving) == (None, (), ())
    found = [item for item in seen.partitions if item.topic == topic]
    assert [(item.number, item.leader, item.replicas, item.in_sync) for item in found] == [
        (0, 1, (1,), (1,)),
        (1, 1, (1,), (1,)),
    ]
    assert [item.min_in_sync for item in found] == [1, 1]


def test_a_replica_has_the_size_of_what_was_written(world: World, look: Look) -> None:
    pipeline = world.new_pipeline(partitions=1)
    world.send(pipeline, transfers(100), partition=0)
    sizes, unknown = look.sizes([1])
    assert unknown == ()
    assert sizes is not None
    assert sizes[pipeline.contract.topic, 0, 1] > 1000


@pytest.mark.slow
def test_a_broker_where_nobody_listens_does_not_answer(look: Look) -> None:
    (broker,) = look.observe().brokers
    (asked,) = look.partitions.asked([replace(broker, address="127.0.0.1:1")])
    assert not asked.answers


def test_an_election_that_is_not_needed_is_not_refused(look: Look, topic: str) -> None:
    found = look.partitions.topics([topic]).partitions
    assert look.partitions.elect(found, unclean=False) == {}
    assert look.partitions.elect(found, unclean=True) == {}


def test_a_topic_that_is_missing_is_named(look: Look) -> None:
    with pytest.raises(TopicMissing, match=r"no\.such\.topic"):
        look.partitions.topics(["no.such.topic"])
    with pytest.raises(TopicMissing, match=r"no\.such\.topic"):
        plan(look, Wanted(("no.such.topic",)))


def test_more_replicas_than_brokers_are_refused(look: Look, topic: str) -> None:
    with pytest.raises(BadInput, match="2 replicas cannot be placed: 1 broker available"):
        plan(look, Wanted((topic,), replication_factor=2))


def test_a_plan_for_an_even_topic_is_empty(look: Look, topic: str) -> None:
    assert plan(look, Wanted((topic,))).topics == ()


def test_throttles_are_set_and_taken_away(world: World, look: Look, topic: str) -> None:
    throttles = KafkaThrottles(look.options)
    throttles.limit(1000, [1], {topic: ("0:1,1:1", "1:1")})
    try:
        wait_for(lambda: _rate(world) == "1000", "the broker has its rate")
        assert _value(world, ResourceType.TOPIC, topic, f"{LEADER}.replicas") == "0:1,1:1"
        assert _value(world, ResourceType.TOPIC, topic, f"{FOLLOWER}.replicas") == "1:1"
    finally:
        throttles.remove([1], [topic, "no.such.topic"])
    wait_for(lambda: _rate(world) != "1000", "the broker has no rate")
    assert not _value(world, ResourceType.TOPIC, topic, f"{LEADER}.replicas")


def test_throttles_that_an_unrecorded_reassignment_left_are_named_and_removed(
    world: World, look: Look, topic: str, tmp_path: Path
) -> None:
    reassigning = Reassigning(look, Record(tmp_path))
    KafkaThrottles(look.options).limit(1000, [1], {topic: ("0:1,1:1", "1:1")})
    wait_for(lambda: topic in look.observe().throttled, "the broker has the throttle")
    seen = look.observe()
    (left,) = [one for one in health(seen, embedded=True).findings if one.code == "throttles_left"]
    assert left.command == "tidegate cluster reassign status --adopt"
    doctor = KafkaExamination("here", look.options, (), None, 5.0).findings()
    assert "tidegate cluster reassign status --adopt" in [one.do for one in doctor]
    begun = Kept(Reassignment(seen.cluster_id, (TopicPlan(topic, "id", {0: (1,)}, {0: (2,)}),)), 1000, "under way")
    reassigning.record.save(begun)  # as by a second operator, just now
    with pytest.raises(BadInput, match="replicas are being moved and need their throttles"):
        reassigning.clear()
    reassigning.record.save(replace(begun, state="done"))
    assert topic in reassigning.clear()
    wait_for(lambda: topic not in look.observe().throttled, "the broker has no throttle")
    assert reassigning.clear() == ()


def test_a_reassignment_is_kept_in_the_ledger_for_every_machine_and_none_replaces_one_that_is_under_way(
    world: World, look: Look, topic: str, tmp_path: Path
) -> None:
    with new_company(world) as company:
        company.as_("owner").ledger.migrate()
        here, there = (Reassigning(look, Record(tmp_path / one, company.urls["owner"])) for one in ("here", "there"))
        mine, other = (
            Kept(Reassignment(here.cluster_id, (TopicPlan(topic, one, {0: (1,)}, {0: (2,)}),)), 1000, "under way")
            for one in ("id", "another")
        )
        here.record.save(mine)
        shutil.rmtree(here.record.home)
        assert (here.kept(), there.kept()) == (mine, mine)
        with pytest.raises(ChangedMeanwhile, match="another reassignment has just started"):
            there.record.save(other)
        there.record.save(replace(mine, state="done"))
        here.record.save(other)
        assert there.kept() == other
        for record in (Record(tmp_path / "alone", company.urls["reader"]), Record(tmp_path / "alone")):
            record.save(mine)  # of a role without rights, or without a ledger: Kafka alone is needed
            assert record.load(here.cluster_id) == mine
            assert record.unkept(here.cluster_id)
        assert there.record.unkept(here.cluster_id) is None


def test_the_record_in_the_ledger_replaces_a_file_that_it_is_newer_than(
    world: World, look: Look, topic: str, tmp_path: Path
) -> None:
    with new_company(world) as company:
        company.as_("owner").ledger.migrate()
        here, there = (Reassigning(look, Record(tmp_path / one, company.urls["owner"])) for one in ("here", "there"))
        mine, other, unkept = (
            Kept(Reassignment(here.cluster_id, (TopicPlan(topic, one, {0: (1,)}, {0: (2,)}),)), 1000, "under way")
            for one in ("mine", "other", "unkept")
        )
        here.record.save(mine)
        there.record.save(replace(mine, state="cancelled"))
        assert here.kept() == replace(mine, state="cancelled")
        there.record.save(other)
        assert here.kept() == other
        there.record.save(replace(other, state="done"))
        assert here.kept() == replace(other, state="done")

        Record(here.record.home).save(unkept)  # the ledger was unavailable when it began
        assert here.kept() == unkept

        here.record.save(mine)
        with psycopg.connect(company.urls["owner"], autocommit=True) as connection:  # restored, or created again
            connection.execute(
                "UPDATE tidegate.reassignment SET state = 'done', changed_at = changed_at - '1 day'::interval"
            )
            assert here.kept() == mine
            connection.execute("DELETE FROM tidegate.reassignment")
        assert here.kept() == mine


def _rate(world: World) -> str | None:
    return _value(world, ResourceType.BROKER, "1", f"{LEADER}.rate")


def _value(world: World, kind: Any, name: str, setting: str) -> str | None:
    admin: Any = world.admin()
    place = ConfigResource(kind, name)
    found = (
        admin.describe_configs([place])[place].result(BOUND).get(setting)
    )  # without a throttle there is no such rate
    return None if found is None else found.value


def test_a_plan_of_another_cluster_is_refused_and_its_record_left(look: Look, topic: str, tmp_path: Path) -> None:
    reassigning = Reassigning(look, Record(tmp_path))
    other = Reassignment("another", (TopicPlan(topic, "id", {0: (1,)}, {0: (2,)}),))
    with pytest.raises(ChangedMeanwhile, match="it is for cluster another"):
        reassigning.begin(other, 1000)
    assert reassigning.kept() is None
    kept = Kept(other, 1000, "under way")
    for asked in (reassigning.status, reassigning.cancel):
        with pytest.raises(BadInput, match="belongs to cluster another"):
            asked(kept)


def test_a_plan_that_a_broker_cannot_hold_changes_nothing(look: Look, topic: str, tmp_path: Path) -> None:
    ids = look.partitions.topic_ids([topic])
    cluster = look.partitions.topics([topic]).cluster_id
    to_nobody = Reassignment(cluster, (TopicPlan(topic, ids[topic], {0: (1,)}, {0: (7,)}),))
    with pytest.raises(BadInput, match="broker 7, which the plan assigns replicas to, does not answer"):
        Reassigning(look, Record(tmp_path)).begin(to_nobody, 1000)


def test_an_empty_plan_leaves_the_record_of_the_last_one(look: Look, tmp_path: Path) -> None:
    reassigning = Reassigning(look, Record(tmp_path))
    begun = reassigning.begin(Reassignment(look.observe().cluster_id, ()), 1000)
    assert begun.kept.state == "done"
    assert reassigning.kept() is None


@pytest.mark.longest  # it takes as long as a broker may
def test_where_no_broker_answers_nothing_is_said_of_the_cluster() -> None:
    with pytest.raises(BrokerAway, match=r"127\.0\.0\.1:1 did not answer"):
        Look({"bootstrap.servers": "127.0.0.1:1"}).partitions.topics()
