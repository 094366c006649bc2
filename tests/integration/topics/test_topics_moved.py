"""A topic's replicas on three brokers in three racks: as many as declared, and moved if racks are not used."""

from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from platform_defs.cluster.reassign import Record
from platform_defs.settings.settings import settings
from tests.chaos.kafka.three_brokers import THREE_BROKERS, three_brokers
from tests.support.kafka.topic_sites import Site, violations
from tests.support.waiting import BOUND
from tests.support.world import World


@pytest.mark.slow
@pytest.mark.xdist_group(THREE_BROKERS)
def test_replicas_are_added_and_taken_away_as_declared(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = three_brokers().world(world)
    folder = tmp_path / "contracts"
    folder.mkdir()
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(folder))
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", cluster.endpoints.bootstrap_servers)
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1")
    site = Site(folder, f"t{tmp_path.name[-8:].replace('_', '')}", cluster)
    topic = f"{site.name}.moved"
    admin = cluster.admin()
    admin.create_topics([NewTopic(topic, 3, replica_assignment=[[1], [1], [2]])])[topic].result(BOUND)
    site.list_others(f"- name: {topic}", "  partitions: 6", "  replicationFactor: 3")
    named = ("--cluster-id", site.admin.observe([]).cluster_id)
    site.apply(*named)
    grown = site.look(topic)
    assert [len(set(one)) for one in grown.replicas] == [3] * 6
    assert [one[0] for one in grown.replicas[:3]] == [1, 1, 2]
    assert not [name for name in grown.overrides if "throttled" in name]
    kept = Record(settings().home).load(site.admin.observe([]).cluster_id)
    assert kept is not None
    assert (kept.state, [item.topic for item in kept.plan.topics]) == ("done", [topic])
    assert site.run("plan", "--exit-code").code == 0
    site.list_others(f"- name: {topic}", "  replicationFactor: 4")
    assert violations(site.run("plan", "-o", "json"))["replication_fits"]["severity"] == "refuse"
    site.list_others(f"- name: {topic}", "  replicationFactor: 2")
    site.apply(*named)
    shrunk = site.look(topic)
    assert [len(one) for one in shrunk.replicas] == [2] * 6
    assert (shrunk.topic_id, len(shrunk.partitions)) == (grown.topic_id, 6)
