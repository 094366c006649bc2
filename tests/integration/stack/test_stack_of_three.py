"""`tidegate stack up --brokers 3` with real brokers: killed, found, restarted."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata, TopicPartition

from platform_defs.errors import BadInput
from platform_defs.groups.child import KafkaGroups
from platform_defs.groups.groups import Groups
from platform_defs.kafka.cluster_admin import KafkaCluster
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack import stack, state
from platform_defs.stack.processes import ServerFailed
from platform_defs.stack.stack import StackStatus
from tests.support.kafka.group_members import commit
from tests.support.own_home import TIDEGATE, own_home
from tests.support.waiting import BOUND, wait_for, within

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a home for this file, in which only Kafka would start; stop it at the end."""
    postgres = "postgresql://me@db.invalid/shop"
    with own_home(tmp_path_factory.mktemp("three"), TIDEGATE_POSTGRES_URL=postgres) as folder:
        yield folder


@pytest.fixture
def running(home: Path) -> StackStatus:
    """Start three brokers, whatever the previous test did to them."""
    return stack.up(brokers=3)


def kill(*pids: int | None) -> None:
    for process in [psutil.Process(pid) for pid in pids]:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)


def options(status: StackStatus) -> dict[str, str]:
    assert status.kafka.address is not None
    return {"bootstrap.servers": status.kafka.address}


def new_topic(status: StackStatus, name: str) -> None:
    """Create a topic of one partition with a message on all three brokers."""
    admin = AdminClient({**options(status)})
    admin.create_topics([NewTopic(name, 1, replica_assignment=[[1, 2, 3]])])[name].result(BOUND)
    producer = Producer({**options(status), "acks": "all"})
    producer.produce(name, b"kept")
    assert producer.flush(20) == 0


def in_sync(status: StackStatus, topic: str) -> set[int]:
    found = AdminClient({**options(status)}).list_topics(topic, timeout=20).topics[topic]
    return set(found.partitions[0].isrs)


def shown(*options: str) -> str:
    """Return the output of `tidegate stack status`."""
    return subprocess.run([*TIDEGATE, "stack", "status", *options], capture_output=True, text=True, check=True).stdout


def shown_leader() -> int | None:
    return json.loads(shown("-o", "json"))["kafka"]["quorum"]["leader"]


@pytest.mark.longest
def test_a_first_start_that_was_killed_while_it_formatted_goes_on(home: Path) -> None:
    command = subprocess.Popen([*TIDEGATE, "stack", "up", "--brokers", "3"], stderr=subprocess.DEVNULL)
    wait_for(lambda: len(kafka.running(home)) == 3, "three storage tools are running")
    tools = kafka.running(home)
    assert all("kafka.tools.StorageTool" in tool.cmdline() for tool in tools)
    command.kill()
    command.wait(10)
    for tool in tools:
        tool.kill()
    assert len(stack.up().kafka.brokers) == 3  # it has the number already
    assert [broker.id for broker in KafkaCluster(options(stack.status())).brokers()] == [1, 2, 3]


@pytest.mark.longest
def test_each_is_a_voter_in_a_rack_of_its_own(running: StackStatus) -> None:
    cluster = KafkaCluster(options(running))
    assert [voter.id for voter in cluster.quorum().voters] == [1, 2, 3]
    assert [(one.id, one.rack, one.fenced) for one in cluster.brokers()] == [
        (1, "a", False),
        (2, "b", False),
        (3, "c", False),
    ]
    assert stack.up() == running


@pytest.mark.longest
def test_a_killed_broker_is_shown_and_started_again(running: StackStatus) -> None:
    new_topic(running, "one.killed")
    leader = KafkaCluster(options(running)).quorum().leader
    kill(running.kafka.brokers[leader - 1].pid)
    wait_for(lambda: shown_leader() not in {leader, None}, "another one leads")
    message = shown()
    assert re.search(rf"kafka, broker {leader} in rack [abc] +not running \(start it with tidegate stack up\)", message)
    assert message.count("  pid ") == 2
    assert re.search(r"kafka, quorum +led by broker [123]\n", message)
    again = stack.up().kafka
    assert again.brokers[leader - 1].pid is not None
    others = [one.pid for one in running.kafka.brokers if one.id != leader]
    assert [one.pid for one in again.brokers if one.id != leader] == others
    assert again.address == running.kafka.address
    wait_for(lambda: in_sync(running, "one.killed") == {1, 2, 3}, "all three have the message")


@pytest.mark.longest
def test_a_topic_is_described_while_a_broker_is_down(running: StackStatus) -> None:
    """One topic has its only replica on the dead broker, the other has three replicas."""
    new_topic(running, "described.of.three")
    admin = AdminClient({**options(running)})
    admin.create_topics([NewTopic("described.alone", 2, replica_assignment=[[2], [3]])])["described.alone"].result(
        BOUND
    )
    kill(running.kafka.brokers[1].pid)
    try:
        wait_for(lambda: in_sync(running, "described.of.three") == {1, 3}, "the broker is missed")
        began = time.monotonic()
        spread, alone = described("described.of.three"), described("described.alone")
        assert time.monotonic() - began < 60
        (partition,) = spread["partitions"]
        replicas = {one["broker"]: (one["in_sync"], one["size"] is None) for one in partition["replicas"]}
        assert replicas == {1: (True, False), 2: (False, True), 3: (True, False)}
        assert (partition["leader"] in {1, 3}, partition["latest"]) == (True, 1)
        assert all(one["segments"] for one in partition["replicas"]), "files are there whether a broker runs or not"
        lost, led = alone["partitions"]
        assert (lost["leader"], lost["latest"], lost["messages"]) == (None, None, None)
        assert (led["leader"], led["latest"]) == (3, 0)
        assert "described.alone[0] has no leader" in " ".join(alone["unknown"])
        peeked = subprocess.run([*TIDEGATE, "peek", "described.alone"], capture_output=True, text=True, check=False)
        assert "To read others: --partition 1" in peeked.stderr
    finally:
        stack.up()
    wait_for(lambda: in_sync(running, "described.of.three") == {1, 2, 3}, "the broker is back")


@pytest.mark.longest
def test_a_group_without_a_name_hides_no_other(running: StackStatus) -> None:
    """Consumers that only commit may have no group.id. Kafka lists that group, and deletes it only after a while."""
    new_topic(running, "nameless")
    commit(AdminClient({**options(running)}), "named", "nameless", 1)
    other: Any = KafkaAdminClient(bootstrap_servers=options(running)["bootstrap.servers"])
    at = {TopicPartition("nameless", 0): OffsetAndMetadata(1, "", -1)}
    wait_for(
        lambda: [*other.alter_group_offsets("", at).values()] == [NoError], "the group without a name has committed"
    )
    other.close()
    found = Groups(KafkaGroups(options(running))).list_all()
    assert "named" in {one.group.name for one in found.groups}
    assert any("A group without a name" in one for one in found.incomplete)
    (reading,) = described("nameless")["groups"]
    assert reading["group"] == "named"


def described(topic: str) -> Any:
    command = [*TIDEGATE, "topics", "describe", topic, "-o", "json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.longest
def test_where_most_controllers_are_dead_status_says_so_and_ends(running: StackStatus) -> None:
    new_topic(running, "two.killed")
    kill(*(one.pid for one in running.kafka.brokers[1:]))
    # The leader resigns only once the others have not fetched for a while.
    wait_for(lambda: shown_leader() is None, "nobody leads")
    with within(3):
        quorum = stack.with_quorum(stack.status()).kafka.quorum
    assert quorum is not None
    assert "did not answer the request to describe the quorum within 2 s" in (quorum.error or "")
    stack.up()
    wait_for(lambda: in_sync(running, "two.killed") == {1, 2, 3}, "all three have the message")


@pytest.mark.longest
def test_a_lost_state_file_loses_no_broker(running: StackStatus, home: Path) -> None:
    """The controllers find each other at their original ports."""
    new_topic(running, "state.lost")
    (home / "stack.json").unlink()
    again = stack.up()
    assert sorted(one.pid or 0 for one in again.kafka.brokers) == sorted(one.pid for one in kafka.running(home))
    wait_for(lambda: in_sync(again, "state.lost") == {1, 2, 3}, "all three have the message")


@pytest.mark.longest
def test_a_port_that_the_others_look_at_is_given_to_no_other_program(running: StackStatus, home: Path) -> None:
    taken = state.load(home).kafka[2].controller_port
    kill(running.kafka.brokers[2].pid)
    with socket.create_server(("127.0.0.1", taken or 0)), pytest.raises(ServerFailed, match=rf"uses port {taken}"):
        stack.up()
    assert stack.up().kafka.brokers[2].pid is not None


def test_another_number_is_refused(running: StackStatus) -> None:
    with pytest.raises(BadInput, match=r"has 3 brokers, but 1 were requested.*tidegate stack reset"):
        stack.up(brokers=1)
    assert stack.status() == running


def test_a_replica_is_moved_to_another_broker(running: StackStatus) -> None:
    new_topic(running, "moved")
    cluster = KafkaCluster(options(running))
    assert cluster.reassign({("moved", 0): [3, 2]}) == {("moved", 0): None}
    wait_for(lambda: cluster.reassignments() == () and in_sync(running, "moved") == {2, 3}, "it has moved")

    def holders() -> set[int]:
        sizes = cluster.replica_sizes([1, 2, 3]).items()
        return {broker for broker, found in sizes if isinstance(found, dict) and ("moved", 0) in found}

    wait_for(lambda: holders() == {2, 3}, "the first broker has deleted it")
