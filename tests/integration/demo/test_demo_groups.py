"""`tidegate demo groups`: the partitions of each consumer, and nothing left behind."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from platform_defs.demo.groups import AUDIT, BILLING, PARTITIONS, TOPIC, GroupsDemo
from platform_defs.errors import TidegateError
from tests.support.kafka.secured_kafka import ADMIN, SecuredKafka
from tests.support.own_home import TIDEGATE
from tests.support.waiting import BOUND
from tests.support.world import World

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "watch-a-rebalance.md").read_text()


def demo(*options: str) -> "subprocess.CompletedProcess[str]":
    """Run `tidegate demo groups` to its end."""
    return subprocess.run([*TIDEGATE, "demo", "groups", *options], capture_output=True, text=True, check=False)


def left(world: World) -> list[str]:
    """Return the topics and groups that the demo has left."""
    admin = world.admin()
    groups = {one.group_id for one in admin.list_consumer_groups().result(BOUND).valid}
    return [*({TOPIC} & {*admin.list_topics(timeout=20).topics}), *({BILLING, AUDIT} & groups)]


@pytest.mark.longest
def test_partitions_are_shared_in_a_group_and_every_group_receives_every_message(world: World) -> None:
    ended = demo("-o", "json")
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    *joined, gone, other = [shared(step) for step in document["rebalances"]]
    names = [f"billing-{number}" for number in range(1, PARTITIONS + 2)]
    assert [[*step] for step in joined] == [names[:count] for count in range(1, PARTITIONS + 2)]
    assert [[*step] for step in (gone, other)] == [["billing-1", "billing-3", "billing-4"], ["audit-1"]]
    for step in (*joined, gone, other):
        assert sorted(one for partitions in step.values() for one in partitions) == [*range(PARTITIONS)]
    consumers = [(step["event"], one) for step in document["rebalances"] for one in step["consumers"]]
    assert [(event, one["consumer"]) for event, one in consumers if one["idle"]] == [
        ("billing-4 has joined", "billing-4")
    ]
    assert all((one["received"] == 0) == one["idle"] for _, one in consumers)
    received = [(one["group"], one["received"]) for one in document["groups"]]
    assert received == [(BILLING, document["sent"]), (AUDIT, document["sent"])]
    assert document["left"] == left(world) == []


def shared(step: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the partitions of each consumer after a rebalance."""
    return {one["consumer"]: one["partitions"] for one in step["consumers"]}


@pytest.mark.slow
def test_nothing_is_left_of_a_demo_that_was_terminated(world: World) -> None:
    with subprocess.Popen([*TIDEGATE, "demo", "groups"], stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        next(line for line in running.stderr if "billing-2 joins" in line)
        running.send_signal(signal.SIGTERM)
        message = running.stderr.read()
    assert running.returncode == 128 + signal.SIGTERM, message
    assert left(world) == []


@pytest.fixture
def topic_of_a_user(world: World) -> Iterator[str]:
    world.create_topic(TOPIC, 1)
    yield TOPIC
    admin = world.admin()  # named: a future is cancelled when its client is collected
    admin.delete_topics([TOPIC])[TOPIC].result(BOUND)


def test_a_topic_that_the_demo_did_not_make_is_not_touched(world: World, topic_of_a_user: str) -> None:
    assert f"tidegate topics delete {TOPIC} --confirm {TOPIC}" in demo().stderr
    assert left(world) == [topic_of_a_user]


@pytest.mark.longest
@pytest.mark.xdist_group("secured")
def test_the_rights_that_are_listed_are_enough_and_a_missing_one_is_named(world: World, secured: SecuredKafka) -> None:
    admin = secured.world(world, ADMIN).admin()
    listed, asked = rights(), set[str]()
    with secured.granted(*listed):
        report = GroupsDemo(options=secured.options(), show=lambda _: None).run(lambda _: None)
        assert report["left"] == []
    with secured.granted("--operation Describe --group nobody"):
        while refused := refused_by(secured):
            lines = re.findall(r"kafka-acls.sh (.*?)(?= &&| \(docs|$)", refused)
            assert {*lines} - asked, refused
            asked.update(lines)
            secured.grant(*lines)
            if TOPIC in admin.list_topics(timeout=20).topics:
                admin.delete_topics([TOPIC])[TOPIC].result(BOUND)
    granted = {operation for line in asked for operation in re.findall(r"--operation (\w+)", line)}
    assert granted - {"Describe"} == {
        operation for line in listed for operation in re.findall(r"--operation (\w+)", line)
    }


def rights() -> list[str]:
    """Return the arguments of each $ACLS on the page, with its other variables replaced."""
    variables = re.findall(r"^(\w+)=\"(.*)\"$", PAGE, re.MULTILINE)
    found = PAGE
    for name, value in variables:
        found = found.replace(f"${name}", value)
    return re.findall(r"^\$ACLS (.*)$", found, re.MULTILINE)


def refused_by(secured: SecuredKafka) -> str | None:
    """Return the demo's report of a missing right, during its run or in its clean-up."""
    try:
        report = GroupsDemo(options=secured.options(), show=lambda _: None).run(lambda _: None)
    except TidegateError as error:
        return str(error)
    return " ".join(report["left"])
