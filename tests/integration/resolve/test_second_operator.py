"""A second operator, a producer or a run changes something between a command's plan and its execution."""

import os
import re
import subprocess
import sys
import time

import pytest
from confluent_kafka import Producer

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import NotDelivered
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.producers.message import Message
from platform_defs.producers.unsent.files import UnsentFiles
from platform_defs.producers.unsent.ledger import UnsentLedger
from platform_defs.producers.unsent.sink import UnsentSink
from platform_defs.topics.steps import AddPartitions
from tests.support.commands import Called, invoke
from tests.support.kafka.topic_sites import Site, violations
from tests.support.postgres.restricted_roles import new_company
from tests.support.world import World, transfers


def expected(done: Called) -> str:
    """Return the value that confirms what the command showed."""
    found = re.search(r"--expect ([0-9a-f]{12})", done.said)
    assert found is not None, done.said
    return found[1]


@pytest.fixture
def read(world: World) -> Pipeline:
    """Return a pipeline that has read its topic to the end; as a fixture, it comes before the folder of `site`."""
    return world.caught_up()


@pytest.mark.longest
def test_a_topic_with_messages_that_a_pipeline_has_not_read_is_deleted_only_as_it_was_shown(
    world: World, read: Pipeline, site: Site
) -> None:
    topic = read.contract.topic
    delete = ("delete", topic, "--confirm", topic)
    world.send(read, transfers(5))
    shown = site.run(*delete)  # no contract in the folder names the topic
    assert shown.code == 1
    assert f"{read.name} has 5 messages left to read from it" in shown.said
    world.send(read, transfers(1))
    changed = site.run(*delete, "--expect", expected(shown))
    assert (changed.code, topic in site.admin.observe([topic]).topics) == (1, True)
    assert "has changed since it was shown" in changed.said
    world.drain(read)
    assert "has changed since it was shown" in site.run(*delete, "--expect", expected(shown)).said
    assert site.run(*delete).code == 0  # all is read
    assert topic not in site.admin.observe([topic]).topics


def test_a_topic_is_not_deleted_where_no_ledger_can_show_who_reads_it(
    site: Site, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"{site.name}.other"
    site.world.create_topic(topic, 1)
    delete = ("delete", topic, "--confirm", topic)
    for_nothing = site.run(*delete)
    assert for_nothing.code == 1
    assert "the ledger does not know this cluster" in for_nothing.said
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1")
    shown = site.run(*delete)
    assert (shown.code, topic in site.admin.observe([topic]).topics) == (1, True)
    assert "cannot tell whether pipelines have unread messages" in shown.said
    site.admin.delete(topic, site.look(topic).topic_id)
    site.world.create_topic(topic, 1)
    assert "has changed since it was shown" in site.run(*delete, "--expect", expected(shown)).said
    assert site.run(*delete, "--expect", expected(site.run(*delete))).code == 0
    assert topic not in site.admin.observe([topic]).topics


def test_two_hundred_readers_are_counted_and_a_role_without_rights_on_the_ledger_deletes_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"{site.name}.other"
    site.world.create_topic(topic, 1)
    client = Producer(site.world.endpoints.kafka_options())
    client.produce(topic, b"{}")
    assert client.flush(30) == 0
    delete = ("delete", topic, "--confirm", topic)
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", site.world.endpoints.bootstrap_servers)
    with new_company(site.world) as company:
        company.as_("owner").ledger.migrate()
        monkeypatch.setenv("TIDEGATE_POSTGRES_URL", company.urls["reader"])
        assert "may not read or upgrade the ledger" in site.run(*delete).said
        company.execute("owner", "insert into tidegate.pipeline (name) select 'p' || n from generate_series(1, 200) n")
        company.execute(
            "owner",
            "insert into tidegate.source_position (pipeline, topic, partition, cluster_id, topic_id, start_offset, "
            f"next_offset) select name, '{topic}', 0, '{site.admin.observe([]).cluster_id}', "
            f"'{site.look(topic).topic_id}', 0, 0 from tidegate.pipeline",
        )
        monkeypatch.setenv("TIDEGATE_POSTGRES_URL", company.urls["owner"])
        done = site.run(*delete)
    assert (done.code, topic in site.admin.observe([topic]).topics) == (1, True)
    assert "p1 has 1 message left to read from it; p10 h" in done.said
    assert "190 more have messages left to read" in done.said


@pytest.mark.slow
def test_an_apply_that_waits_for_an_answer_applies_only_what_it_showed(site: Site) -> None:
    site.declare(partitions="2")
    assert site.run("apply", "--yes").code == 0
    site.declare(partitions="4", config="{retention.ms: 604800001}")
    ours, theirs = os.openpty()
    command = (sys.executable, "-c", "from platform_defs.cli.main import main; main()", "topics", "apply")
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ)
    ) as apply:
        assert apply.stdout is not None
        message = b""
        while b"Apply it?" not in message:
            more = os.read(apply.stdout.fileno(), 4096)
            assert more, message
            message += more
        site.admin.apply([AddPartitions(site.topic, 2, 3)])
        os.write(ours, b"y\n")
        message += apply.stdout.read()
        assert apply.wait(60) == 1, message
    os.close(ours)
    os.close(theirs)
    assert b"it had 2 partitions and now has 3" in message
    assert (len(site.look().partitions), site.look().overrides) == (3, {})


def test_tombstones_that_an_upsert_has_not_read_keep_a_plan_from_being_applied(site: Site) -> None:
    plan = str(site.folder / "plan.json")
    site.declare_upsert("{cleanup.policy: compact, delete.retention.ms: 86400000}")
    assert site.run("apply", "--yes").code == 0
    site.declare_upsert("{cleanup.policy: compact, delete.retention.ms: 1000}")
    assert "starts a run after 30 s" in violations(site.run("plan", "-o", "json"))["tombstones_outlast"]["message"]
    site.declare_upsert("{cleanup.policy: compact, delete.retention.ms: 60000}")
    assert site.run("plan", "--file", plan).code == 0
    client = Producer(site.world.endpoints.kafka_options())
    now = time.time()
    client.produce(site.topic, None, key=b"C1", timestamp=int((now - 3600) * 1000))
    client.produce(site.topic, None, key=b"C2", timestamp=int((now + 3600) * 1000))  # kept until it is read
    assert client.flush(30) == 0
    done = site.run("apply", plan, "--yes", "-o", "json")
    assert done.code == 1
    message = f"{site.name} has not read 2 messages of {site.topic}, and tombstones among 1 of them could be removed"
    assert message in violations(done)["unread_kept"]["message"]
    assert site.look().overrides["delete.retention.ms"] == "86400000"


@pytest.mark.slow
def test_unread_messages_of_a_pipeline_without_a_readable_contract_are_kept_until_it_is_called_retired(
    world: World, read: Pipeline, site: Site
) -> None:
    topic = read.contract.topic
    (site.folder / "broken.odcs.yaml").write_text("kind: [")
    site.list_others(f"- name: {topic}", "  config: {retention.ms: 1000}")
    apply = ("apply", "--yes", "--topic", topic, "-o", "json")
    world.send(read, transfers(5))
    shown = site.run(*apply)
    assert shown.code == 1
    message = violations(shown)["unread_kept"]["message"]
    assert f"{read.name} has not read 5 messages of {topic}" in message
    world.drain(read)  # another operator has repaired its contract
    world.send(read, transfers(3))
    changed = site.run(*apply, "--retired", message[-12:])
    assert (changed.code, site.look(topic).overrides) == (1, {})
    assert site.run(*apply, "--retired", violations(changed)["unread_kept"]["message"][-12:]).code == 0
    assert site.look(topic).overrides == {"retention.ms": "1000"}


def test_undelivered_messages_are_discarded_only_as_they_were_shown(site: Site) -> None:
    site.declare(partitions="1")
    assert site.run("apply", "--yes").code == 0
    endpoints = site.world.endpoints
    sink = UnsentSink(
        site.name,
        site.topic,
        KafkaBroker(endpoints.kafka_options()),
        UnsentLedger(endpoints.postgres_url),
        UnsentFiles(site.folder / "unsent"),
    )

    def fail(value: bytes) -> None:
        sink.failed(sink.attempt(Message(value), b"id of " + value), NotDelivered("", reason="_MSG_TIMED_OUT"), None)
        sink.keep(all_of_it=True)

    def discard(*arguments: str) -> Called:
        return invoke("dlq", "discard", site.name, "-o", "json", *arguments)

    fail(b"a")
    shown = discard().document
    assert (shown["messages"], shown["discarded"]) == (1, 0)
    execute = ("--execute", "--reason", "exported by hand")
    assert discard(*execute).code == 2  # without what was shown
    fail(b"a second ago")
    assert "has changed since it was shown" in discard(*execute, "--expect", shown["fingerprint"]).stderr
    again = discard().document
    assert (again["messages"], again["by_reason"][0]["error_name"]) == (2, "_MSG_TIMED_OUT")
    assert discard(*execute, "--expect", again["fingerprint"]).document["discarded"] == 2
    assert discard().document["messages"] == 0
