"""A Kafka with ACLs: the rights listed in docs/how-to/kafka-rights.md are sufficient and necessary, and a missing right
is reported as such.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from platform_defs.cluster.observe import Look
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import AccessDenied, NotDelivered, ProducerBroken, TransactionAborted
from platform_defs.groups.child import KafkaGroups
from platform_defs.groups.dagster_checks import group_metadata, survey_groups
from platform_defs.groups.groups import Groups
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.kafka.group_state import Group
from platform_defs.kafka.topic_views import KafkaTopics
from platform_defs.offsets import TopicView
from platform_defs.producers.message import Message
from platform_defs.producers.producer import Producer
from platform_defs.resolve.settlement import propose
from tests.support.commands import tidegate
from tests.support.kafka.group_members import member
from tests.support.kafka.kafka_actions import (
    Place,
    change,
    change_group,
    describe_topic,
    look,
    look_at_cluster,
    look_at_groups,
    move,
    note,
    peek,
    produce,
    produce_together,
    progress,
    read,
    resend,
    run,
    sections,
)
from tests.support.kafka.secured_kafka import SecuredKafka
from tests.support.kafka.sending import Desk
from tests.support.waiting import wait_for
from tests.support.world import transfer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("secured")]


def single(line: str) -> list[str]:
    """Return a line for each operation that the line grants."""
    operations = re.findall(r"--operation (\w+)", line)
    rest = re.sub(r"--operation \w+ ", "", line)
    return [f"{rest} --operation {operation}" for operation in operations]


DEEDS: Mapping[str, Sequence[Callable[[Place], None]]] = {
    "Runs, sensors and lag": (read, run),
    "Produce": (produce, produce_together),
    "Write a topic from Dagster": (note,),
    "Send again what was not delivered": (resend,),
    "Look at messages": (peek,),
    "Look at topics": (look, describe_topic),
    "Look at consumer groups": (look_at_groups,),
    "Change consumer groups": (change_group,),
    "Change topics": (change,),
    "Look at the cluster": (look_at_cluster,),
    "Move partitions and leaders": (move,),
}
# Each right on the page with its heading: the one to revoke.
GRANTED = [(heading, line) for heading, lines in sections().items() for each in lines for line in single(each)]


def test_every_section_of_the_page_is_tried() -> None:
    assert list(sections()) == list(DEEDS)


@pytest.mark.parametrize("heading", list(DEEDS))
def test_the_rights_that_are_listed_are_enough(place: Place, secured: SecuredKafka, heading: str) -> None:
    with secured.granted(*place.lines(heading)):
        for deed in DEEDS[heading]:
            deed(place)


@pytest.mark.longest
@pytest.mark.parametrize(("heading", "right"), GRANTED, ids=lambda text: re.sub(r".*User:\S+ ", "", text))
def test_without_a_right_that_is_listed_the_error_says_what_to_grant(
    place: Place, secured: SecuredKafka, heading: str, right: str
) -> None:
    """Following the errors' advice ends with the action done and the revoked right granted again."""
    deeds = (progress,) if "--group tidegate- " in right else DEEDS[heading]
    mine = right.replace("--topic payments", f"--topic {place.topic}")
    others = [one for line in place.lines(heading) for one in single(line) if one != mine]
    asked = set[str]()
    with secured.granted(*others or ["--operation Describe --group nobody"]):
        for deed in deeds:
            while (message := refused(deed, place)) is not None:
                lines = re.findall(r"kafka-acls.sh (.*?)(?= &&| \(docs|$)", message)
                assert set(lines) - asked, message
                asked.update(lines)
                secured.grant(*lines)
    resource, operation = re.findall(r"--topic|--group|--cluster|--transactional-id|--operation \w+", right)
    assert any(operation in line and resource in line for line in asked), asked
    assert place.admin.dead_letters(place.pipeline) == []
    assert place.blamed() == 0


def produce_until_it_fails(at: Place) -> None:
    producer = Producer(at.options, at.topic, "transactional", client_id=f"tidegate.{at.pipeline.name}.produce")
    with producer, producer.transaction():
        for _ in range(1_000_000):
            producer.send(Message(b"{}", None))


def refused(deed: Callable[[Place], None], at: Place) -> str | None:
    """Return the action's error about a missing right, or None."""
    try:
        deed(at)
    except (AccessDenied, NotDelivered, TransactionAborted, ProducerBroken) as error:
        return str(error)
    return None


def test_a_transaction_without_the_right_says_so_at_whatever_call_it_fails(place: Place, secured: SecuredKafka) -> None:
    """The broker's response comes while offsets are added to the transaction, before or after: it is a race."""
    mine = f"--topic {place.topic} --operation Write"
    rights = [one for line in place.lines("Write a topic from Dagster") for one in single(line)]
    with secured.granted(*(one for one in rights if one != mine)):
        for deed in (*[note] * 8, *[produce_until_it_fails] * 2):
            with pytest.raises(AccessDenied, match=rf"--operation Write --topic {place.topic}"):
                deed(place)


@pytest.mark.longest
def test_a_run_goes_on_once_the_right_is_granted(place: Place, secured: SecuredKafka) -> None:
    with secured.granted(f"--operation Describe --operation DescribeConfigs --topic {place.topic}"):
        for _ in range(2):
            with pytest.raises(AccessDenied, match=rf"--operation Read .*--topic {place.topic}"):
                place.world.drain(place.pipeline)
        assert place.blamed() == 0
        secured.grant(f"--operation Read --topic {place.topic}")
        assert sum(batch.messages for batch in place.world.drain(place.pipeline)) == 8
    assert place.admin.dead_letters(place.pipeline) == []


def test_a_halt_is_resolved_with_the_right_to_describe_the_topic(place: Place, secured: SecuredKafka) -> None:
    contract, ledger = place.pipeline.contract, place.admin.ledger
    acquire(ledger.url, contract).connection.close()
    halt = "update tidegate.pipeline set state = 'halted', halt_code = 'keeps_failing' where name = %s"
    place.admin.rows(halt, contract.pipeline)
    broker = KafkaBroker(place.options, timeout=5)
    with secured.granted("--operation Describe --group nobody"):
        with pytest.raises(AccessDenied, match=rf"--operation Describe --topic {place.topic}"):
            propose(contract, ledger, broker, None)
        secured.grant(f"--operation Describe --topic {place.topic}")
        decided = propose(contract, ledger, broker, None)
    assert decided is not None
    assert decided.keep_pending


@pytest.mark.longest
def test_send_needs_to_write_the_topic_and_nothing_else(place: Place, secured: SecuredKafka, tmp_path: Path) -> None:
    desk = Desk(tmp_path, place.admin, place.topic, suffix="")
    desk.declare()
    place.admin.ledger.migrate()
    environment = {**secured.environment(), "TIDEGATE_CONTRACTS": str(tmp_path)}
    with secured.granted(f"--operation Describe --topic {place.topic}"):
        refused = tidegate("send", place.topic, transfer(1).decode(), **environment)
    assert refused.code == 1
    assert f"--operation Write --topic {place.topic}" in refused.stderr
    with secured.granted(f"--operation Write --topic {place.topic}"):
        done = tidegate("send", place.topic, transfer(1).decode(), "-o", "json", **environment)
    assert done.code == 0, done.stderr
    assert (done.document["checked"], done.document["sent"]) == (True, 1)


def test_groups_and_topics_that_are_hidden_are_said_and_hide_no_other(place: Place, secured: SecuredKafka) -> None:
    hidden = place.admin.new_pipeline().contract.topic
    place.admin_commits("analytics", place.topic, hidden)
    place.admin_commits("secret", place.topic)
    groups = Groups(KafkaGroups(place.options))
    with secured.granted("--operation Describe --group analytics", f"--operation Read --topic {place.topic}"):
        listed, described = groups.list_all(), groups.describe("analytics")
        with pytest.raises(AccessDenied, match=r"kafka-acls.sh .*--operation Describe --group secret"):
            groups.describe("secret")
        survey, views = survey_groups(groups.client), KafkaTopics(place.options).views([place.topic])
    assert [one.group.name for one in listed.groups] == ["analytics"]
    assert "--operation Describe --cluster" in listed.incomplete[0]
    assert [one.topic for one in described.progress.partitions] == [place.topic]
    view = views[place.topic]
    assert isinstance(view, TopicView)
    shown = group_metadata(view, survey, [])
    assert [record.data["group"] for record in shown["groups"].records] == ["analytics"]
    assert "--operation Describe --cluster" in shown["groups_not_shown"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_hidden_topic_that_members_read_is_said_with_the_right_for_it(
    place: Place, secured: SecuredKafka, protocol: Any
) -> None:
    """For a KIP-848 group with such a member, Kafka describes nothing and does not name the topic."""
    group = f"g{place.topic}"
    with member(place.admin.endpoints.kafka_options(), group, place.topic, "c1", protocol):
        wait_for(lambda: _assigned(place, group), "the consumer has its partitions")
        with secured.granted(f"--operation Describe --group {group}"):
            if protocol == "consumer":
                with pytest.raises(AccessDenied, match=r"--operation Describe --topic TOPIC"):
                    Groups(KafkaGroups(place.options)).describe(group)
                return
            described = Groups(KafkaGroups(place.options)).describe(group)
    notes = {one.note or "" for one in described.progress.partitions}
    assert len(described.progress.group.members) == 1
    assert any(f"--operation Describe --topic {place.topic}" in note for note in notes), notes


def _assigned(place: Place, group: str) -> bool:
    found = KafkaGroups(place.admin.endpoints.kafka_options()).describe([group]).get(group)
    return isinstance(found, Group) and len(found.assigned) == 4


def test_a_topic_whose_settings_are_hidden_hides_no_other(place: Place, secured: SecuredKafka) -> None:
    seen = place.admin.new_pipeline().contract.topic
    rights = [
        f"--operation Describe --topic {place.topic} --topic {seen}",
        f"--operation DescribeConfigs --topic {seen}",
    ]
    with secured.granted(*rights):
        called = tidegate("topics", "list", "-o", "json", **secured.environment())
        observed = Look(place.options).observe()
    assert called.code == 0, called.stderr
    listed = {one["topic"]: one for one in called.document["topics"]}
    assert (listed[seen]["state"], listed[place.topic]["state"]) == ("not_declared", "hidden")
    problem = listed[place.topic]["problem"]
    assert f"--operation Describe --operation DescribeConfigs --topic {place.topic}" in problem
    assert {item.topic: item.min_in_sync for item in observed.partitions} == {seen: 1, place.topic: 0}
