"""The stored state of the embedded stack, and the checks before it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from platform_defs.errors import BadInput
from platform_defs.stack import processes, stack, state
from platform_defs.stack.endpoints import connection

pytestmark = pytest.mark.usefixtures("no_variables")


def test_a_stack_that_does_not_run_is_said_with_the_command_that_starts_it() -> None:
    with pytest.raises(BadInput, match="tidegate stack up"):
        connection()


def test_a_pid_that_another_process_has_now_is_no_server(tmp_path: Path) -> None:
    state.save(tmp_path, state.State(kafka=(state.Server(20001, 20002, 20003, os.getpid()),)))
    (kept,) = state.load(tmp_path).kafka
    assert kept.port == 20001
    assert not kept.runs_over(state.kafka_properties(tmp_path))


def test_a_home_of_a_version_that_knew_of_one_broker_has_one(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"kafka": {"port": 1, "controller_port": 2, "pid": 3}, "postgres": {}}')
    assert state.load(tmp_path).kafka == (state.Server(1, 2, None, 3),)
    data = state.kafka_folder(tmp_path) / "data"
    assert state.brokers_of(tmp_path) == 0
    data.mkdir(parents=True)
    (data / "meta.properties").touch()
    assert state.brokers_of(tmp_path) == 1


def test_brokers_are_not_started_where_another_kafka_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", "broker:9092")
    with pytest.raises(BadInput, match=r"names your own \(broker:9092\). Leave out --brokers"):
        stack.up(brokers=3)


def test_a_cluster_keeps_its_number_of_brokers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", "postgresql://me@db/shop")
    state.save_cluster(tmp_path, state.Cluster("c", ("1@127.0.0.1:21000:x",)))
    with pytest.raises(BadInput, match=r"has 1 broker, but 3 were requested.*tidegate stack reset"):
        stack.up(brokers=3)


def test_a_new_port_is_none_that_is_reserved() -> None:
    reserved = range(20_000, 31_900)
    assert processes.kept_or_free_port(None, lambda _: None, reserved) >= 31_900


@pytest.mark.parametrize(
    "text", ['{"kafka": {"po', '{"kafka": null, "postgres": {}}', '{"kafka": [], "postgres": null}']
)
def test_an_incomplete_state_file_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "stack.json").write_text(text)
    assert state.load(tmp_path) == state.State()


def test_only_the_owner_can_read_the_password(tmp_path: Path) -> None:
    assert state.password(tmp_path) == state.password(tmp_path)
    assert (tmp_path / "postgres.password").stat().st_mode & 0o777 == 0o600


def test_a_disk_without_space_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="Free some space"):
        processes.require_space(tmp_path, needed=10**18)


def test_status_loads_neither_spark_nor_dagster_nor_great_expectations() -> None:
    heavy = "{'pyspark', 'dagster', 'great_expectations', 'pandas', 'jgo'}"
    program = f"""
import sys
sys.argv = ["tidegate", "stack", "status", "-o", "json"]
from platform_defs.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code
assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
