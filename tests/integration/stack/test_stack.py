"""The embedded stack with real servers: started, killed, recovered, stopped, emptied."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import LiteralString

import psutil
import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from platform_defs.errors import BadInput
from platform_defs.settings.home import MARKER, private_home
from platform_defs.settings.settings import PROJECT_ROOT
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack import postgres_server as postgres
from platform_defs.stack import processes, stack, state
from platform_defs.stack import registry_server as registry
from platform_defs.stack.cli.stack import needs_registry
from platform_defs.stack.endpoints import connection
from platform_defs.stack.jars import broker_classpath
from platform_defs.stack.java import find_java
from platform_defs.stack.kafka_node import Node, Program, new_id
from platform_defs.stack.processes import ServerFailed
from platform_defs.stack.stack import StackStatus
from tests.support.own_home import TIDEGATE, own_home
from tests.support.waiting import wait_for, within


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a home for this whole file; stop its servers at the end."""
    with own_home(tmp_path_factory.mktemp("home")) as folder:
        yield folder


@pytest.fixture
def running(home: Path) -> StackStatus:
    """Start this file's stack, whatever the previous test did to it."""
    return stack.up()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a home that no server has used, with an external database: only Kafka would start."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://me@db.invalid/shop?sslmode=require")
    return tmp_path / "elsewhere"


def tidegate(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([*TIDEGATE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def produce(topic: str, value: bytes) -> None:
    address = {"bootstrap.servers": connection().bootstrap_servers}
    admin = AdminClient({**address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    producer = Producer(address)
    producer.produce(topic, value)
    assert producer.flush(10) == 0


def read_first(topic: str) -> bytes | None:
    consumer = Consumer({**connection().kafka_options(), "group.id": "test", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(10)
        return message.value() if message is not None and message.error() is None else None
    finally:
        consumer.close()


def insert_row(table: LiteralString) -> None:
    with psycopg.connect(connection().postgres_url) as session:
        session.execute(f"CREATE TABLE {table} (n int)")
        session.execute(f"INSERT INTO {table} VALUES (42)")


def rows(table: LiteralString) -> list[tuple[int]]:
    with psycopg.connect(connection().postgres_url) as session:
        return session.execute(f"SELECT n FROM {table}").fetchall()


def kill(pid: int | None) -> None:
    assert pid is not None
    killed = psutil.Process(pid)
    os.kill(pid, signal.SIGKILL)
    killed.wait(10)  # kill() returns before the process has ended


def left_over(home: Path) -> list[psutil.Process]:
    return kafka.running(home) + postgres.running(home)


def test_up_twice_starts_each_server_once(running: StackStatus) -> None:
    assert running.kafka.pid
    assert running.postgres.pid
    assert stack.up() == running


def test_a_registry_is_started_only_where_one_is_asked_for(running: StackStatus, home: Path) -> None:
    assert running.as_json()["registry"] == {"url": None, "pid": None, "embedded": True}
    assert not (home / "registry").exists()


def test_a_contract_whose_messages_name_schemas_needs_a_registry(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`stack up` checks this before it downloads or starts one."""
    assert not needs_registry()
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(PROJECT_ROOT / "docs" / "examples"))
    assert needs_registry()


def test_the_address_works_for_every_driver(running: StackStatus) -> None:
    import adbc_driver_postgresql.dbapi
    import sqlalchemy

    url = connection().postgres_url
    with adbc_driver_postgresql.dbapi.connect(url) as session, session.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        assert cursor.fetchall() == [("tidegate",)]
    for driver in ("postgresql:", "postgresql+psycopg2:"):
        with sqlalchemy.create_engine(url.replace("postgresql:", driver)).connect() as session:
            assert session.execute(sqlalchemy.text("SHOW fsync")).scalar() == "on"


def test_the_database_asks_for_its_password(running: StackStatus) -> None:
    url = connection().postgres_url.replace(state.password(stack.settings().home), "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url)


@pytest.mark.longest
def test_a_killed_broker_comes_back_with_its_messages(running: StackStatus) -> None:
    produce("kept.messages", b"before")
    kill(running.kafka.pid)
    again = stack.up()
    assert again.kafka.pid != running.kafka.pid
    assert again.kafka.address == running.kafka.address
    assert again.postgres == running.postgres
    assert read_first("kept.messages") == b"before"


def test_a_killed_database_comes_back_with_its_committed_rows(running: StackStatus) -> None:
    insert_row("kept_rows")
    with psycopg.connect(connection().postgres_url) as session:  # its process may outlive the killed postmaster
        kill(running.postgres.pid)
        again = stack.up()
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
    assert again.postgres.address == running.postgres.address
    assert again.postgres.pid != running.postgres.pid
    assert rows("kept_rows") == [(42,)]


def test_a_killed_server_is_not_a_running_one(running: StackStatus) -> None:
    kill(running.postgres.pid)
    with pytest.raises(BadInput, match=r"embedded Postgres .* is not running.*tidegate stack up"):
        connection()
    assert stack.status().as_json()["postgres"] == {"url": None, "pid": None, "embedded": True}


class Slowed:
    """Takes the progress of a start: each process that is being started is stopped when it appears, and continues once
    its server is reported as still starting.
    """

    def __init__(self, home: Path) -> None:
        self.messages = list[str]()
        self._find: dict[str, Callable[[], list[psutil.Process]]] = {
            "Kafka": lambda: kafka.running(home),
            "the schema registry": lambda: registry.running(home),
        }

    def __call__(self, text: str) -> None:
        self.messages.append(text)
        for name, find in self._find.items():
            if text == f"starting {name}":
                Thread(target=self._stop, args=(find,)).start()
            elif text.startswith(f"{name} is still starting"):
                self._signal(find, signal.SIGCONT)

    def _stop(self, find: Callable[[], list[psutil.Process]]) -> None:
        wait_for(find, "it is being started")
        self._signal(find, signal.SIGSTOP)

    def _signal(self, find: Callable[[], list[psutil.Process]], number: int) -> None:
        for process in find():
            process.send_signal(number)


@pytest.mark.longest
def test_a_server_that_starts_slowly_is_waited_for_and_reported(home: Path) -> None:
    stack.down()
    slowed = Slowed(home)
    started = stack.up(slowed, registry=True)
    assert started.kafka.address
    assert started.registry.address
    reports = sorted(text.split(",")[0] for text in slowed.messages if "still starting" in text)
    assert {"Kafka is still starting", "the schema registry is still starting"} <= set(reports)


@pytest.mark.slow
def test_ctrl_c_ends_a_start_that_would_be_waited_for(home: Path) -> None:
    stack.down()
    command = tidegate("stack", "up")
    wait_for(lambda: kafka.running(home), "Kafka is being started")
    for process in kafka.running(home):
        process.send_signal(signal.SIGSTOP)
    command.send_signal(signal.SIGINT)
    with within(30):
        assert command.wait() != 0
    assert kafka.running(home) == []


@pytest.mark.longest
def test_a_lost_state_file_loses_no_data_and_leaves_no_second_server(running: StackStatus, home: Path) -> None:
    insert_row("survives_lost_state")
    (home / "stack.json").unlink()
    again = stack.up()
    assert rows("survives_lost_state") == [(42,)]
    assert again.kafka.pid != running.kafka.pid
    assert [process.pid for process in kafka.running(home)] == [again.kafka.pid]


@pytest.mark.longest
def test_down_leaves_no_process_and_up_finds_ports_taken_meanwhile(running: StackStatus, home: Path) -> None:
    insert_row("moves_ports")
    with within(10):
        stopped = stack.down()
    assert stopped.kafka.pid is None
    assert stopped.postgres.address is None
    assert left_over(home) == []

    kept = state.load(home)
    messages: list[str] = []
    with socket.socket() as one, socket.socket() as other:
        for taken, server in ((one, kept.kafka[0]), (other, kept.postgres)):
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # earlier connections are in TIME_WAIT
            taken.bind(("127.0.0.1", server.port))
            taken.listen()
        again = stack.up(messages.append)
    assert again.kafka.address != running.kafka.address
    assert any(f"port {kept.postgres.port} is used" in line for line in messages)
    assert rows("moves_ports") == [(42,)]
    produce("after.the.move", b"here")
    assert read_first("after.the.move") == b"here"


@pytest.mark.slow
def test_restart_starts_other_processes_over_the_same_data(
    running: StackStatus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    insert_row("survives_a_restart")
    again = json.loads(tidegate("stack", "restart", "-o", "json").communicate(timeout=60)[0])
    assert again["postgres"]["pid"] != running.postgres.pid
    assert again["kafka"]["pid"] != running.kafka.pid
    (tmp_path / "services").write_text("[another]\nhost=127.0.0.1\nport=1\ndbname=another\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    monkeypatch.setenv("PGSERVICE", "another")  # libpq prefers its settings to those of PGHOST and PGDATABASE
    asked = tidegate("psql", "--no-psqlrc", "-At", "-c", "SELECT n FROM survives_a_restart")
    assert asked.communicate(timeout=60) == ("42\n", "")


@pytest.mark.longest
def test_two_commands_at_once_start_each_server_once(home: Path) -> None:
    stack.down()
    both = [tidegate("stack", "up", "-o", "json") for _ in range(2)]
    answers = [json.loads(command.communicate(timeout=60)[0]) for command in both]
    assert answers[0] == answers[1] == stack.status().as_json()
    assert [process.pid for process in kafka.running(home)] == [answers[0]["kafka"]["pid"]]


def test_a_server_that_dies_at_its_start_shows_the_end_of_its_log(running: StackStatus, home: Path) -> None:
    broken = state.postgres_data(home) / "postgresql.auto.conf"
    kill(running.postgres.pid)
    broken.write_text("no_such_setting = 1\n")
    with pytest.raises(ServerFailed, match=r"(?s)Postgres did not start.*postgres\.log.*no_such_setting"):
        stack.up()
    broken.write_text("")
    assert stack.up().kafka == running.kafka


@pytest.mark.slow
def test_reset_deletes_the_data_and_stops_the_servers(running: StackStatus, home: Path) -> None:
    refused = subprocess.run([*TIDEGATE, "stack", "reset"], input="n\n", capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert (home / "kafka").exists()
    (home / "link").symlink_to(Path(__file__).parent)
    (home / "contracts").mkdir()  # by a second operator, since the home was made
    (home / "contracts" / "mine.odcs.yaml").touch()

    emptied = tidegate("stack", "reset", "--yes", "-o", "json")
    answer = json.loads(emptied.communicate(timeout=60)[0])
    assert answer == {"home": str(home), "reset": True, "left": ["contracts", "link"]}
    assert left_over(home) == []
    assert sorted(entry.name for entry in home.iterdir()) == [MARKER, "contracts", "link", "stack.lock"]
    assert (home / "contracts" / "mine.odcs.yaml").exists()
    assert Path(__file__).exists()


def test_reset_touches_nothing_in_a_folder_that_tidegate_did_not_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "mine.log").touch()
    (tmp_path / "contracts").mkdir()
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    private_home(tmp_path)  # as any command does that writes there
    with pytest.raises(BadInput, match=MARKER):
        stack.reset()
    assert (tmp_path / "logs" / "mine.log").exists()


def test_reset_refuses_a_home_that_holds_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(Path(__file__).parents[3]))
    with pytest.raises(BadInput, match="was not emptied"):
        stack.reset()


def test_given_endpoints_start_nothing(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "broker.invalid:9092")
    given = stack.up()
    assert given.kafka == stack.KafkaStatus("broker.invalid:9092", None, embedded=False)
    assert given.postgres.pid is None
    assert not elsewhere.exists()


@pytest.mark.longest
def test_a_home_that_an_older_version_formatted_is_started(elsewhere: Path) -> None:
    """The older version formatted its controller as `--standalone`, and recorded one server and no voters."""
    node, program = Node(elsewhere, 1, (state.Server(1, 2, 3),)), Program(find_java(), broker_classpath(stack.silent))
    node.write_properties()
    ours = ["format", "--standalone", "--cluster-id", new_id(), "--config", str(node.properties)]
    subprocess.run([*node.java(program), "kafka.tools.StorageTool", *ours], check=True, capture_output=True)
    port = processes.kept_or_free_port(None, stack.silent)
    kept = {"kafka": {"port": port, "controller_port": None, "pid": None}, "postgres": {}}
    (elsewhere / "stack.json").write_text(json.dumps(kept))
    try:
        assert stack.up().kafka.address == f"127.0.0.1:{port}"
        produce("kept.by.one", b"here")
        assert read_first("kept.by.one") == b"here"
    finally:
        stack.down()


def test_without_java_the_error_says_what_to_install(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere.mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(elsewhere))
    with pytest.raises(BadInput, match=r"No Java was found.*openjdk-17"):
        stack.up()
    assert left_over(elsewhere) == []


def test_an_old_java_is_one_sentence_and_exit_code_1(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "bin").mkdir(parents=True)
    java = elsewhere / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(elsewhere))
    command = tidegate("stack", "up")
    output, errors = command.communicate(timeout=60)
    assert command.returncode == 1
    assert output == ""
    assert errors.startswith(f"{java} is Java 11; the embedded Kafka needs Java 17 or newer.")
    assert errors.count("\n") == 1


def test_jars_that_cannot_be_had_are_named_with_the_remedy(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("M2_REPO", str(elsewhere / "m2"))
    monkeypatch.setenv("JGO_CONFIG_FILE", str(elsewhere / "none"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # the discard port: nothing listens there
    with pytest.raises(BadInput, match=r"jar org\.apache\.kafka:kafka_2\.13.*TIDEGATE_KAFKA_BOOTSTRAP_SERVERS"):
        stack.up()
    assert list((elsewhere / "m2").iterdir()) == []


def test_a_command_that_is_called_wrongly_ends_with_2(home: Path) -> None:
    command = tidegate("stack", "sideways")
    command.communicate(timeout=60)
    assert command.returncode == 2
