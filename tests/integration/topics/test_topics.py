"""`tidegate topics` on a real broker: planned, applied, refused, and never more than was declared."""

import pytest
from confluent_kafka import Producer

from platform_defs.cluster.ledger import TopicsLedger
from platform_defs.errors import Halt, TopicMissing
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.settings.contracts import find_pipeline
from platform_defs.topics.steps import AddPartitions, SetConfig, Value
from tests.support.kafka.group_members import commit
from tests.support.kafka.topic_sites import Site, violations


def test_topics_are_made_as_declared_and_what_a_rule_refuses_changes_nothing(site: Site) -> None:
    path = site.declare(partitions="12", replicationFactor="1", config="{retention.ms: 604800000}")
    site.list_others(f"- name: {site.name}.receipts", "  partitions: 2", f"- name: {site.name}.dead")
    assert site.run("plan", "--exit-code").code == 10
    site.apply()
    assert site.run("plan", "--exit-code").code == 0
    made = site.look()
    assert (len(made.partitions), made.overrides) == (12, {"retention.ms": "604800000"})
    assert len(site.look(f"{site.name}.receipts").partitions) == 2

    site.declare(replicationFactor="4")
    refused = site.run("plan", "-o", "json")
    line = 1 + path.read_text().splitlines().index("      - {property: replicationFactor, value: 4}")
    answer = violations(refused)["replication_fits"]
    assert (refused.code, answer["file"], answer["line"]) == (1, str(path), line)

    site.declare(partitions="6")
    assert site.run("apply", "--yes").code == 1
    site.declare(partitions="24", keyOrder="strict")
    assert "50% of the keys" in site.run("apply", "--yes").said
    assert site.look() == made


def test_a_missing_topic_of_a_contract_that_declares_nothing_is_created_and_then_left_alone(site: Site) -> None:
    site.declare()
    listed = site.listed()
    assert (listed["state"], listed["changes"]) == ("missing", ["create it with the cluster's number of partitions"])
    with pytest.raises(TopicMissing, match="To create it: tidegate topics apply"):
        KafkaBroker(site.world.endpoints.kafka_options()).describe(site.topic)
    assert site.run("plan", "--exit-code").code == 10
    assert site.run("apply", "--yes", "--topic", site.topic).code == 0
    assert site.look().overrides == {}
    site.admin.apply([SetConfig(site.topic, {"retention.ms": Value(None, "86400000")})])
    assert "Nothing to do" in site.run("plan", "--exit-code").said
    site.apply()
    assert site.look().overrides == {"retention.ms": "86400000"}


@pytest.mark.slow
@pytest.mark.parametrize("declared", [{}, {"partitions": "1"}])
def test_a_topic_that_a_pipeline_has_read_is_created_again_only_when_asked(
    site: Site, declared: dict[str, str]
) -> None:
    site.declare(**declared)
    site.apply()
    site.produce(30)
    pipeline = find_pipeline(site.name)
    site.world.drain(pipeline)
    site.admin.delete(site.topic, site.look().topic_id)
    refused = site.run("apply", "--yes", "-o", "json")
    assert f"{site.name} has read {site.topic}" in violations(refused)["read_before"]["message"]
    assert refused.code == 1
    assert site.admin.observe([site.topic]).topics == {}
    site.apply("--recreate")
    with pytest.raises(Halt, match="deleted and created again"):
        site.world.drain(pipeline)


def test_what_is_not_declared_is_left_alone_and_drift_of_what_is_declared_is_shown(site: Site) -> None:
    site.declare(partitions="1", config="{retention.ms: 604800000}")
    site.apply()
    by_hand = {"retention.ms": Value(None, "86400000"), "max.message.bytes": Value(None, "2000000")}
    site.admin.apply([SetConfig(site.topic, by_hand)])
    assert "retention.ms 86400000 → 604800000" in site.run("plan").said
    site.apply()
    assert site.look().overrides == {"retention.ms": "604800000", "max.message.bytes": "2000000"}
    listed = site.listed()
    assert (listed["state"], listed["pipelines"]) == ("as_declared", [site.name])
    site.declare(config="{max.message.bytes: null}")
    site.apply()
    assert site.look().overrides == {"retention.ms": "604800000"}


def test_the_plan_of_one_topic_names_the_mistake_in_its_contract(site: Site) -> None:
    path = site.declare(partitions="1")
    text = path.read_text()
    line = 1 + text.splitlines().index(f"    physicalName: {site.topic}")
    path.write_text(text.replace(f"    physicalName: {site.topic}", f"    physicalName: {site.topic}\n   - ["))
    done = site.run("plan", "--topic", site.topic)
    assert done.code == 1
    assert f"{path}:{line + 1}" in done.said
    assert "is not declared, neither" not in done.said
    assert "another.topic is declared neither" in site.run("plan", "--topic", "another.topic").said


def test_the_list_shows_bytes_overrides_and_who_reads_each_topic(site: Site) -> None:
    site.declare(partitions="2", config="{retention.ms: 604800000}")
    site.apply()
    site.produce(30)
    document = site.run("list", "-o", "json").document
    listed = {one["topic"]: one for one in document["topics"]}[site.topic]
    assert (listed["partitions"], listed["config"], document["sizes_unknown"]) == (
        2,
        {"retention.ms": "604800000"},
        None,
    )
    assert listed["size"] > 1_000
    shown = site.run("list").said
    assert f"{site.topic} overrides retention.ms 604800000" in shown


def test_a_topic_is_described_with_its_files_settings_and_readers(site: Site) -> None:
    site.declare(partitions="2", config="{retention.ms: 604800000, segment.ms: 60000}")
    site.apply()
    site.produce(30)
    broken = site.folder / "web" / "broken.odcs.yaml"
    broken.write_text(f"physicalName: {site.topic}\n- [")
    group = f"analytics-{site.topic}"
    commit(site.world.admin(), group, site.topic, 1)
    found = site.run("describe", site.topic, "-o", "json").document
    (reading,) = found["groups"]
    assert (reading["group"], reading["members"], reading["partitions"]) == (group, 0, 1)
    assert reading["lag"] == found["partitions"][0]["latest"] - 1
    assert (found["topic"], found["topic_id"], found["unknown"]) == (site.topic, site.look().topic_id, [])
    first, second = found["partitions"]
    assert (first["leader"], first["earliest"], first["latest"] + second["latest"]) == (1, 0, 30)
    assert first["last_stable"] == first["latest"] == first["messages"]
    (replica,) = first["replicas"]
    assert replica == {
        "broker": 1,
        "in_sync": True,
        "size": replica["size"],
        "segments": [{"name": "00000000000000000000.log", "size": replica["size"]}],
    }
    assert replica["size"] > 500
    settings = {one["name"]: (one["value"], one["source"]) for one in found["settings"]}
    assert settings["retention.ms"] == ("604800000", "topic")
    assert settings["min.insync.replicas"] == ("1", "broker")
    assert settings["cleanup.policy"] == ("delete", "default")
    assert [(one["pipeline"], one["disposition"]) for one in found["contracts"]] == [
        (site.name, "append"),
        ("web/broken", None),
    ]
    shown = site.run("describe", site.topic).said
    assert "segment.ms" in shown
    assert "flush.messages" not in shown
    assert "flush.messages" in site.run("describe", site.topic, "--all").said
    assert "web/broken" in shown
    assert group in shown
    assert max(map(len, shown.splitlines()[:10])) <= 80
    assert "nowhere does not exist" in site.run("describe", "nowhere").said


def test_a_plan_in_a_file_is_applied_once_and_not_after_somebody_changed_the_topic(site: Site) -> None:
    file = str(site.folder / "plan.json")
    site.declare(partitions="2")
    assert site.run("plan", "--file", file).code == 0
    assert site.run("apply", file, "--yes").code == 0
    assert site.run("apply", file, "--yes").code == 0  # it is done already
    site.declare(partitions="4", config="{retention.ms: 604800001}")
    assert site.run("plan", "--file", file).code == 0
    site.admin.apply([SetConfig(site.topic, {"max.message.bytes": Value(None, "2000000")})])
    changed = site.look()
    done = site.run("apply", file, "--yes")
    assert (done.code, site.look()) == (1, changed)
    assert "max.message.bytes was not set and is now 2000000. Nothing was changed" in done.said
    assert site.run("plan", "--file", file).code == 0
    site.admin.apply([AddPartitions(site.topic, 2, 3)])
    assert "it had 2 partitions and now has 3" in site.run("apply", file, "--yes").said
    assert site.run("plan", "--file", file).code == 0
    site.declare(partitions="5")
    assert "the declarations have changed" in site.run("apply", file, "--yes").said
    (site.folder / "plan.json").write_text("{}")
    assert "is not a plan of tidegate topics" in site.run("apply", file, "--yes").said


def test_retention_below_what_no_run_has_read_is_refused_with_the_number_of_messages(site: Site) -> None:
    site.declare(partitions="2")
    site.apply()
    site.produce(30)
    site.declare(config="{retention.ms: 1000}")
    done = site.run("apply", "--yes", "-o", "json")
    assert done.code == 1
    assert f"{site.name} has not read 30 messages of {site.topic}" in violations(done)["unread_kept"]["message"]
    site.declare(config="{retention.ms: 86400000}")
    site.apply()
    site.declare(config="{retention.bytes: 1000}")
    assert site.run("plan").code == 1


def test_what_kafka_would_refuse_is_refused_at_its_place_before_anything_is_changed(site: Site) -> None:
    site.list_others(f"- name: {site.name}.a", f"- name: {site.name}.b", "  config: {retention.ms: soon}")
    done = site.run("apply", "--yes")
    assert done.code == 1
    assert (
        f"topics.yaml:3 ({site.name}.b): Kafka refuses the request to create {site.name}.b: Invalid value soon"
        in done.said
    )
    assert site.admin.observe([f"{site.name}.a"]).topics == {}
    site.list_others(f"- name: {site.name}.a")
    assert "stdin is not a terminal" in site.run("apply").said
    assert site.admin.observe([f"{site.name}.a"]).topics == {}


def test_another_cluster_than_the_first_is_refused_until_it_is_said_to_take_its_place(
    site: Site, empty_database: str
) -> None:
    site.list_others(f"- name: {site.name}.a")
    site.apply()
    cluster = site.admin.observe([]).cluster_id
    assert TopicsLedger(empty_database).cluster(cluster) == cluster
    TopicsLedger(empty_database).keep_cluster("another", instead=True)
    site.list_others(f"- name: {site.name}.a", "  partitions: 2")
    done = site.run("apply", "--yes", "-o", "json")
    assert done.code == 1
    assert f"apply --new-cluster {cluster}" in violations(done)["same_cluster"]["message"]
    site.apply("--new-cluster", cluster)
    assert TopicsLedger(empty_database).cluster(cluster) == cluster


def test_without_postgres_nothing_changes_in_a_cluster_that_is_not_named_and_no_retention_gets_shorter(
    site: Site, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1")
    site.declare(partitions="1")
    named = ("--cluster-id", site.admin.observe([]).cluster_id)
    done = site.run("apply", "--yes", "-o", "json")
    assert (done.code, violations(done)["cluster_known"]["severity"]) == (1, "refuse")
    assert " ".join(named) in violations(done)["cluster_known"]["message"]
    assert site.topic not in site.admin.observe([site.topic]).topics
    assert "--cluster-id is another, but this is cluster" in site.run("plan", "--cluster-id", "another").said
    done = site.run("apply", "--yes", "-o", "json", *named)
    assert (done.code, violations(done)["cluster_known"]["severity"]) == (0, "warn")
    site.declare(config="{retention.ms: 1000}")
    done = site.run("apply", "--yes", "-o", "json", *named)
    assert done.code == 1
    assert "cannot tell whether" in violations(done)["unread_kept"]["message"]
    assert site.look().overrides == {}


def test_a_ledger_without_a_cluster_lets_topics_be_made_and_none_that_exists_be_changed(
    site: Site, empty_database: str
) -> None:
    topics = [f"{site.name}.a", f"{site.name}.b"]
    site.world.create_topic(topics[0], 1)
    site.list_others(f"- name: {topics[0]}", "  partitions: 2")
    done = site.run("apply", "--yes", "-o", "json")
    assert (done.code, violations(done)["cluster_known"]["severity"]) == (1, "refuse")
    assert len(site.look(topics[0]).partitions) == 1
    site.list_others(f"- name: {topics[1]}")
    site.apply()
    site.list_others(f"- name: {topics[0]}", "  partitions: 2")
    site.apply()  # the cluster of the first apply


def test_a_topic_that_exists_is_imported_and_then_as_declared(site: Site) -> None:
    other = f"{site.name}.other"
    site.world.create_topic(other, 3, {"cleanup.policy": "compact", "retention.ms": "-1"})
    assert site.run("import", other, "--write").code == 0
    assert site.run("plan", "--exit-code").code == 0
    assert (site.folder / "topics.yaml").read_text() == (
        f"topics:\n  - name: {other}\n    partitions: 3\n    replicationFactor: 1\n"
        "    config: {cleanup.policy: compact, retention.ms: -1}\n"
    )
    site.declare()
    site.world.create_topic(site.topic, 2)
    answer = site.run("import", site.topic, "-o", "json").document
    assert (answer["pipelines"], answer["written"]) == ([site.name], False)
    assert "      - {property: partitions, value: 2}\n" in answer["yaml"]
    assert site.run("import", f"{site.name}.none").code == 1


def test_only_a_topic_that_nothing_declares_is_deleted_and_only_by_its_name(site: Site) -> None:
    other = f"{site.name}.other"
    site.world.create_topic(other, 1)
    site.declare(partitions="1")
    site.apply()
    assert f"{site.name} reads it" in site.run("delete", site.topic, "--confirm", site.topic).said
    assert "is not the name of the topic" in site.run("delete", other, "--confirm", "other").said
    site.list_others(f"- name: {other}")
    assert "topics.yaml:2" in site.run("delete", other, "--confirm", other).said
    site.list_others()
    (site.folder / "topics.yaml").unlink()
    assert site.run("delete", other, "--confirm", other).code == 0
    assert site.admin.observe([other]).topics == {}
    assert "does not exist" in site.run("delete", other, "--confirm", other).said


def test_a_contract_that_cannot_be_read_refuses_a_plan_of_all_and_none_of_another_topic(site: Site) -> None:
    path = site.declare(partitions="two")
    site.list_others(f"- name: {site.name}.a")
    done = site.run("plan", "-o", "json")
    assert (done.code, violations(done)["contract"]["file"]) == (1, str(path))
    site.apply("--topic", f"{site.name}.a")
    assert site.run("apply", "--yes", "--topic", f"{site.name}.b").code == 1


def test_a_topic_is_not_compacted_while_another_contract_that_reads_it_is_broken(site: Site) -> None:
    path = site.declare_upsert("{cleanup.policy: compact}")
    other = site.declare()
    other.write_text(other.read_text().replace("logicalType: timestamp", "logicalType: timestmap"))
    done = site.run("apply", "--yes", "--topic", site.topic)
    assert done.code == 1
    assert str(other) in done.said
    assert f"It may read {site.topic}. Correct it first" in done.said
    other.unlink()
    assert path.exists()
    site.apply("--topic", site.topic)


def test_producers_that_would_put_keys_elsewhere_and_messages_without_keys_are_seen_in_the_log(site: Site) -> None:
    site.declare(partitions="3", producerOptions="{partitioner: keyed-crc32}")
    site.apply()
    client = Producer({**site.world.endpoints.kafka_options(), "partitioner": "murmur2_random"})
    for number in range(60):
        client.produce(site.topic, b"{}", key=f"key-{number}".encode())
    assert client.flush(30) == 0
    answer = violations(site.run("plan", "-o", "json"))["partitioner_kept"]
    assert (answer["severity"], f"keys of {site.topic} were partitioned by murmur2" in answer["message"]) == (
        "warn",
        True,
    )
    site.declare(partitions="3", producerOptions="{partitioner: keyed}")
    assert "partitioner_kept" not in violations(site.run("plan", "-o", "json"))
    other = f"{site.name}.plain"
    site.world.create_topic(other, 1)
    client.produce(other, b"{}")
    assert client.flush(30) == 0
    site.list_others(f"- name: {other}", "  config: {cleanup.policy: compact}")
    assert violations(site.run("plan", "-o", "json"))["keys_needed"]["severity"] == "refuse"
