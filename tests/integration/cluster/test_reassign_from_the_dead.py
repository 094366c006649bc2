"""Replicas are moved away from a dead broker, one of three, throttled as usual."""

import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from platform_defs.cluster.observe import Look
from platform_defs.cluster.reassign import Reassigning, Record
from platform_defs.cluster.reassign_plan import Wanted, plan
from platform_defs.topics.admin import TopicAdmin
from tests.chaos.kafka.three_brokers import THREE_BROKERS, three_brokers
from tests.support.waiting import BOUND
from tests.support.world import World


@pytest.mark.longest
@pytest.mark.xdist_group(THREE_BROKERS)
def test_replicas_of_a_dead_broker_are_made_anew_elsewhere(world: World, tmp_path: Path) -> None:
    cluster = three_brokers()
    ours, topic = cluster.world(world), f"from.the.dead.{tmp_path.parent.name}"
    new = NewTopic(topic, 2, replica_assignment=[[1, 3], [3, 2]], config={"min.insync.replicas": "1"})
    admin, options = ours.admin(), ours.endpoints.kafka_options()
    admin.create_topics([new])[topic].result(BOUND)  # `admin` is named: the futures of a collected client are cancelled
    cluster.wait_until_known(topic)
    cluster.kill([3])
    try:
        cluster.wait_until_led_by_others(topic, than=3)
        world.ledger.migrate()
        url = world.endpoints.postgres_url
        reassigning, elsewhere = (Reassigning(Look(options), Record(tmp_path / one, url)) for one in ("home", "other"))
        wanted = plan(reassigning.look, Wanted((topic,), without=(3,)))
        reassigning.begin(wanted, 10_000_000)
        shutil.rmtree(tmp_path / "home")  # on a machine that is gone
        kept = elsewhere.kept()
        assert kept is not None
        ended = elsewhere.wait(kept, 60.0, lambda _: None)
        assert ended is not None
        assert ended.kept.state == "done"
        found = TopicAdmin(options).observe([topic]).topics[topic]
        assert [set(one) for one in found.replicas] == [{1, 2}, {1, 2}]
        assert not [name for name in found.overrides if "throttled" in name]
    finally:
        cluster.start([3])
    cluster.wait_until_all_is_whole()
