"""`tidegate groups` on a real broker: groups of both protocols, watched over a rebalance, reset and deleted."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from platform_defs.errors import BadInput, BrokerAway, ChangedMeanwhile, InternalError, TidegateError
from platform_defs.groups import child
from platform_defs.groups.child import KafkaGroups
from platform_defs.groups.events import GroupEvent, Watch
from platform_defs.groups.groups import Groups
from platform_defs.groups.own_groups import show_progress
from platform_defs.groups.reset import Target
from platform_defs.kafka.group_state import Group
from tests.support.commands import Called, invoke
from tests.support.kafka.group_members import commit, member, members
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World

WRITTEN = 1_795_255_200_000  # 2026-11-21T10:00:00Z, the timestamp of the first message; each later one is 1 s newer


@dataclass(frozen=True)
class Site:
    """A topic of three partitions with ten messages each, and actions on its groups."""

    world: World
    topic: str

    @property
    def options(self) -> dict[str, Any]:
        return self.world.endpoints.kafka_options()

    @property
    def groups(self) -> Groups:
        return Groups(KafkaGroups(self.options))

    def commit(self, group: str, *offsets: int) -> None:
        commit(self.world.admin(), group, self.topic, *offsets)

    def new_group(self, *offsets: int) -> str:
        """Return a group without members that has committed these offsets, by partition."""
        name = f"g{uuid4().hex[:8]}"
        self.commit(name, *offsets)
        return name

    def committed(self, group: str) -> list[int]:
        admin = self.world.admin()
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(BOUND)
        return [one.offset for one in sorted(asked.topic_partitions, key=lambda at: at.partition)]

    def delete_below(self, offset: int) -> None:
        """Delete the records of partition 0 below `offset`, as retention does."""
        admin = self.world.admin()
        place = TopicPartition(self.topic, 0, offset)
        admin.delete_records([place])[place].result(BOUND)


def new_site(world: World) -> Site:
    topic = f"t{uuid4().hex[:10]}"
    world.create_topic(topic, 3)
    producer = Producer(world.endpoints.kafka_options())
    for number in range(30):
        producer.produce(topic, b"x", partition=number % 3, timestamp=WRITTEN + number // 3 * 1000)
    assert producer.flush(20) == 0
    return Site(world, topic)


@pytest.fixture(scope="module")
def shared(endpoints: Any, spark: Any) -> Site:
    return new_site(World(endpoints, spark))


@pytest.fixture
def site(world: World) -> Site:
    return new_site(world)


@pytest.fixture(scope="module", params=["classic", "consumer"])
def four(request: pytest.FixtureRequest, shared: Site) -> Iterator[str]:
    """Yield a group of four consumers on three partitions, once per protocol, after its assignment has settled."""
    name = shared.new_group(10, 4, 0)
    with members(shared.options, name, shared.topic, 4, request.param):
        wait_for(lambda: settled(shared.groups, name), "three of four consumers have a partition")
        yield name


def settled(groups: Groups, name: str) -> bool:
    found = groups.client.describe([name]).get(name)
    assert not isinstance(found, TidegateError), found
    return found is not None and len(found.assigned) == 3 and len(found.members) == 4 and found.state == "Stable"


def run(*arguments: str, code: int | None = None) -> Called:
    return invoke("groups", *arguments, code=code, COLUMNS="200")


def answer(*arguments: str) -> Any:
    return run(*arguments, "-o", "json", code=0).document


def refusal(*arguments: str) -> str:
    """Return the error of a command, which ends with exit code 1."""
    return run(*arguments, code=1).stderr


@pytest.mark.slow
def test_the_list_and_the_description_show_members_idle_ones_and_lag(shared: Site, four: str) -> None:
    listed = {one["group"]: one for one in answer("list")["groups"]}[four]
    described = answer("describe", four)
    assert listed["type"] == described["type"]
    assert (listed["state"], listed["members"], listed["idle"]) == ("Stable", 4, 1)
    assert (listed["topics"], listed["lag"], listed["past_retention"]) == ([shared.topic], 16, 0)
    assert sorted(one["client_id"] for one in described["members"]) == ["c1", "c2", "c3", "c4"]
    assert {one["host"] for one in described["members"]} == {"127.0.0.1"}
    assert len(described["idle"]) == 1
    assert described["assignor"]
    assert described["coordinator_address"] == shared.options["bootstrap.servers"]
    lags = {one["partition"]: one for one in described["partitions"]}
    offsets = [(lags[n]["committed"], lags[n]["end"], lags[n]["lag"]) for n in range(3)]
    assert offsets == [(10, 10, 0), (4, 10, 6), (0, 10, 10)]
    assert len({one["member_id"] for one in lags.values()}) == 3
    seconds = [lags[number]["lag_seconds"] for number in range(3)]
    now = time.time()
    assert seconds[0] == 0
    assert seconds[1] == pytest.approx(max(0.0, now - WRITTEN / 1000 - 4), abs=30)
    assert seconds[2] == pytest.approx(max(0.0, now - WRITTEN / 1000), abs=30)
    assert "4 consumers, 3 partitions: 1 is idle" in run("describe", four).stdout
    assert f"{four}: 4 consumers, 3 partitions: 1 is idle" in run("list").stdout


@pytest.mark.slow
def test_a_group_with_members_is_neither_reset_nor_deleted_and_they_are_named(shared: Site, four: str) -> None:
    reset = ["reset", four, "--topic", shared.topic, "--to", "earliest", "--execute"]
    for arguments in (reset, ["delete", four, "--execute"]):
        message = refusal(*arguments)
        assert f"{four} is not empty: it has 4 members" in message
        assert all(f"c{number}" in message for number in range(1, 5))
        assert "Stop its consumers, wait until the group is empty" in message
    with pytest.raises(ChangedMeanwhile):  # as if a consumer joined after the offsets were shown
        shared.groups.client.move(four, {(shared.topic, 0): 0})
    with pytest.raises(ChangedMeanwhile):
        shared.groups.client.delete(four)
    with pytest.raises(BrokerAway, match="could not be committed"):  # nor by a run of a pipeline, with this group
        show_progress(shared.options, four, shared.topic, {0: 0})
    assert shared.committed(four) == [10, 4, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("to", "moved"),
    [
        ("earliest", [0, 0, 0]),
        ("latest", [10, 10, 10]),
        ("7", [7, 7, 7]),
        ("2026-11-21T10:00:03Z", [3, 3, 3]),
        ("2026-11-21T12:00:02.500+02:00", [3, 3, 3]),
        ("2036-01-01T00:00:00Z", [10, 10, 10]),
    ],
)
def test_a_reset_shows_first_and_then_moves_what_it_showed(shared: Site, to: str, moved: list[int]) -> None:
    group = shared.new_group(5, 5)
    command = ["reset", group, "--topic", shared.topic, "--to", to]
    shown = answer(*command)
    changes = shown["changes"]
    assert (shown["executed"], [one["current"] for one in changes]) == (False, [5, 5, None])
    assert [one["new"] for one in changes] == moved
    assert [one["skipped"] for one in changes] == [max(0, moved[0] - 5)] * 2 + [None]
    assert [one["read_again"] for one in changes] == [max(0, 5 - moved[0])] * 2 + [None]
    assert shared.committed(group) == [5, 5]
    assert answer(*command, "--execute", "--expect", shown["fingerprint"])["executed"]
    assert shared.committed(group) == moved


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_whose_consumers_have_left_is_reset_and_deleted(shared: Site, protocol: Any) -> None:
    name, groups = f"g{uuid4().hex[:8]}", shared.groups

    def described() -> Group | None:
        found = groups.client.describe([name]).get(name)
        return found if isinstance(found, Group) else None

    with member(shared.options, name, shared.topic, "c1", protocol):
        wait_for(lambda: (found := described()) and len(found.assigned) == 3, "the consumer has its partitions")
    wait_for(lambda: (found := described()) and found.state == "Empty", "the group is empty")
    assert answer("reset", name, "--topic", shared.topic, "--to", "4", "--execute")["executed"]
    assert shared.committed(name) == [4, 4, 4]
    assert answer("describe", name)["type"] == protocol
    assert answer("delete", name, "--execute")["executed"]


def test_offsets_in_a_transaction_that_is_open_are_waited_for(shared: Site) -> None:
    group = shared.new_group(5)
    producer = Producer({**shared.options, "transactional.id": group})
    producer.init_transactions()
    producer.begin_transaction()
    consumer = Consumer({**shared.options, "group.id": group})
    consumed = [TopicPartition(shared.topic, 0, 6)]
    producer.send_offsets_to_transaction(consumed, consumer.consumer_group_metadata())
    impatient = Groups(KafkaGroups(shared.options, timeout=1.5))
    with pytest.raises(BrokerAway, match="transaction"):
        impatient.propose_reset(group, [shared.topic], [], Target.parse("earliest"))
    producer.commit_transaction()
    consumer.close()
    assert shared.groups.propose_reset(group, [shared.topic], [0], Target.parse("earliest")).changes[0].current == 6


def test_a_reset_of_one_partition_leaves_the_others_and_an_old_fingerprint_moves_nothing(shared: Site) -> None:
    group = shared.new_group(5, 5, 5)
    command = ["reset", group, "--topic", shared.topic, "--partition", "1", "--to", "earliest", "--execute"]
    fingerprint = answer(*command[:-1])["fingerprint"]
    assert answer(*command)["changes"][0]["new"] == 0
    assert shared.committed(group) == [5, 0, 5]
    assert "has changed since it was shown" in refusal(*command, "--expect", fingerprint)


def test_a_reset_without_a_topic_is_of_the_only_one_that_the_group_reads(shared: Site, site: Site) -> None:
    group = shared.new_group(1)
    found = answer("reset", group, "--to", "latest")
    assert {one["topic"] for one in found["changes"]} == {shared.topic}
    site.commit(group, 1)
    both = ", ".join(sorted([shared.topic, site.topic]))
    message = refusal("reset", group, "--to", "latest")
    assert f"{group} reads several topics: {both}. Name the topic to reset" in message


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--to", "11"], r"outside the log.*partition 0 of t\w+: 0 to 10"),
        (["--to", "yesterday"], r"is not earliest, latest, an offset \(42\) or a time"),
        (["--to", "latest", "--partition", "3"], "has no partition 3; it has partitions 0 to 2"),
        (["--to", "latest", "--topic", "no.such.topic"], "no.such.topic does not exist"),
    ],
)
def test_a_reset_that_cannot_be_is_refused(shared: Site, arguments: list[str], error: str) -> None:
    group = shared.new_group(5, 5, 5)
    done = run("reset", group, "--topic", shared.topic, *arguments, "--execute")
    assert isinstance(done.error, BadInput)
    assert re.search(error, done.stderr)
    assert shared.committed(group) == [5, 5, 5]


def test_a_group_that_does_not_exist_is_said_with_the_name_that_was_meant(shared: Site) -> None:
    group = f"analytics.{uuid4().hex[:8]}"
    shared.commit(group, 1)
    for command in (["describe"], ["delete"], ["reset", "--topic", shared.topic, "--to", "earliest"]):
        message = refusal(*command, f"{group}x")
        assert f"there is no consumer group {group}x; did you mean {group}?" in message


def test_a_group_is_described_though_librdkafka_ended_its_process(
    shared: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka does so if a broker goes away at the wrong moment (issue 4605): an assertion, so SIGABRT."""
    group = shared.new_group(5)
    client = KafkaGroups(shared.options)
    assert group in client.describe([group])
    assert client._child is not None
    os.kill(client._child._process.pid, signal.SIGABRT)
    assert group in client.describe([group])
    monkeypatch.setattr(child, "COMMAND", (sys.executable, "-c", "import os; os.abort()"))
    with pytest.raises(BrokerAway, match=r"the helper process ended 4 times .*librdkafka issue 4605"):
        KafkaGroups(shared.options).describe([group])
    with pytest.raises(BrokerAway, match="unknown whether the group was changed"):
        KafkaGroups(shared.options).delete(group)
    monkeypatch.setattr(child, "COMMAND", (sys.executable, "-c", "raise ValueError('a mistake')"))
    with pytest.raises(InternalError, match="ValueError: a mistake"):
        KafkaGroups(shared.options).describe([group])


def test_the_process_that_asks_imports_as_its_parent_and_may_print(
    shared: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A token callback may print, and the working directory may contain anything."""
    group = shared.new_group(5)
    (tmp_path / "resources").mkdir()
    for name in ("resources/__init__.py", "pickle.py", "resource.py"):
        (tmp_path / name).write_text("raise ValueError('of the working directory')")
    monkeypatch.chdir(tmp_path)
    assert group in KafkaGroups(shared.options).describe([group])
    serve = "import sys; from platform_defs.groups.child import serve; print('a token'); serve(int(sys.argv[1]))"
    monkeypatch.setattr(child, "COMMAND", (sys.executable, "-P", "-c", serve))
    assert group in KafkaGroups(shared.options).describe([group])


def test_a_mistake_in_one_question_leaves_the_process_for_the_next(shared: Site) -> None:
    group = shared.new_group(5)
    client = KafkaGroups(shared.options)
    with pytest.raises(InternalError, match="ValueError"):
        client.committed([""])  # which no ConsumerGroupTopicPartitions takes
    assert group in client.committed([group])


def test_a_name_that_no_group_can_have_is_refused() -> None:
    for name in ("", "\udcff"):
        assert "cannot be the name of a consumer group" in refusal("describe", name)


def test_a_deletion_shows_the_offsets_and_then_the_group_is_gone(shared: Site) -> None:
    group = shared.new_group(1, 2, 3)
    shown = answer("delete", group)
    assert [one["committed"] for one in shown["partitions"]] == [1, 2, 3]
    assert not shown["executed"]
    command = f"tidegate groups delete {group} --execute --expect {shown['fingerprint']}"
    assert command in run("delete", group).stdout
    assert answer("delete", group, "--execute")["executed"]
    assert "there is no consumer group" in run("describe", group).stderr


def test_a_group_behind_the_log_start_lags_past_retention(site: Site) -> None:
    group = site.new_group(2, 9)
    site.delete_below(6)
    found = {one["partition"]: one for one in answer("describe", group)["partitions"]}
    assert (found[0]["log_start"], found[0]["expired"], found[0]["lag"], found[0]["lag_seconds"]) == (6, 4, 8, None)
    note = "lags past retention: offset 2 is below the log start 6, so 4 messages can no longer be read"
    assert found[0]["note"] == note
    assert (found[1]["expired"], found[1]["lag"], found[1]["note"]) == (0, 1, None)
    listed = {one["group"]: one for one in answer("list")["groups"]}[group]
    assert (listed["past_retention"], listed["lag"]) == (1, 9)
    with pytest.raises(BadInput, match=r"partition 0 of t\w+: 6 to 10"):
        site.groups.propose_reset(group, [site.topic], [], Target.parse("3"))


def test_a_pipelines_group_is_shown_as_such_and_reset_points_at_replay(
    shared: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.commit("tidegate-bank_transfers", 3)
    listed = {one["group"]: one for one in answer("list")["groups"]}["tidegate-bank_transfers"]
    assert listed["pipeline"] == "bank_transfers"
    message = refusal("reset", "tidegate-bank_transfers", "--topic", shared.topic, "--to", "earliest", "--execute")
    assert "tidegate replay bank_transfers" in message
    assert "its next run that reads" in run("delete", "tidegate-bank_transfers", "--execute").stdout
    assert "would write its messages again" in refusal("delete", "tidegate.bank_transfers.asset", "--execute")


@pytest.mark.slow
def test_a_watch_sees_joins_assignments_and_leaves_as_they_happen(site: Site) -> None:
    group, events, over = f"g{uuid4().hex[:8]}", list[GroupEvent](), list[bool]()

    def watch() -> None:
        for event in Watch(KafkaGroups(site.options), group).events(lambda: bool(over)):
            events.append(event)

    def seen(kind: str, client: str = "") -> list[GroupEvent]:
        return [one for one in events if one.kind == kind and (not client or client in str(one.member))]

    watching = Thread(target=watch, daemon=True)
    watching.start()
    wait_for(lambda: seen("absent"), "the group is watched before it exists")
    with member(site.options, group, site.topic, "first"):
        wait_for(lambda: seen("assignment", "first"), "the first consumer has all partitions")
        assert seen("joined", "first")
        assert len(seen("assignment", "first")[0].gained) == 3
        with member(site.options, group, site.topic, "second"):
            wait_for(lambda: seen("assignment", "second"), "the second consumer has partitions")
            assert seen("joined", "second")
            wait_for(lambda: len(seen("assignment", "first")) == 2, "the first consumer has fewer")
            lost, gained = seen("assignment", "first")[1].lost, seen("assignment", "second")[0].gained
            assert {*lost} == {*gained}
        wait_for(lambda: seen("left", "second"), "the second consumer has left")
    wait_for(lambda: seen("left", "first"), "the first consumer has left")
    over.append(True)
    watching.join()
    assert not seen("away")


@pytest.mark.slow
def test_a_watch_prints_a_line_of_json_for_each_event_and_ends_well_on_ctrl_c(shared: Site) -> None:
    group = shared.new_group(1)
    command = [sys.executable, "-m", "platform_defs.cli.main", "groups", "watch", group, "-o", "json"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    first: Mapping[str, Any] = json.loads(watching.stdout.readline())
    assert (first["event"], first["group"], first["state"], first["members"]) == ("group", group, "Empty", [])
    assert abs((datetime.now(UTC) - datetime.fromisoformat(first["at"])).total_seconds()) < 60
    watching.send_signal(signal.SIGINT)
    _, message = watching.communicate(timeout=60)
    assert (watching.returncode, message) == (0, "")
