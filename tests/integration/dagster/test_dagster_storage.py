"""Dagster's tables in our Postgres: created once, and then found in one statement."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import psycopg
import pytest
import sqlalchemy
from dagster import DagsterEvent, DagsterEventType, DagsterInstance, EventLogEntry
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager
from dagster._daemon.types import DaemonHeartbeat

from platform_defs.dagster.storage import STORAGE_AWAY, Artifacts, EventLog, Storage
from platform_defs.settings.settings import PROJECT_ROOT
from platform_defs.stack import dagster_dev as ui
from platform_defs.stack.endpoints import Endpoints
from tests.support.commands import tidegate
from tests.support.kafka.fake_servers import closed_port
from tests.support.postgres.databases import new_database


@pytest.fixture
def database(endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    """Yield a session of an empty database, in which Dagster keeps its state."""
    with new_database(endpoints.postgres_url) as url, psycopg.connect(url, autocommit=True) as found:
        monkeypatch.setenv("TIDEGATE_DAGSTER_URL", url)
        yield found


def test_tables_are_created_once_and_again_where_one_is_missing(
    database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Storage.from_config_value(None, {}).run_storage.get_runs_count() == 0
    with monkeypatch.context() as watched:
        watched.setattr(sqlalchemy, "inspect", pytest.fail)
        assert Storage.from_config_value(None, {}).run_storage.get_runs_count() == 0
    database.execute("DROP TABLE dagster.jobs CASCADE")
    assert Storage.from_config_value(None, {}).schedule_storage.all_instigator_state() == []
    assert database.execute("SELECT to_regclass('dagster.jobs') IS NOT NULL").fetchone() == (True,)


@pytest.mark.longest
def test_a_log_line_that_cannot_be_stored_is_printed_and_fails_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """A run that logs why Postgres is unavailable must end with that reason, not with the failure to log it."""
    log = EventLog(f"postgresql://nobody@127.0.0.1:{closed_port()}/nothing", should_autocreate_tables=False)
    line = EventLogEntry(None, logging.ERROR, "bank: Postgres is away", "a-run", time.time())
    log.store_event(line)
    assert "bank: Postgres is away" in capfd.readouterr().err
    started = line._replace(dagster_event=DagsterEvent(DagsterEventType.RUN_START.value, "a_job"))
    with pytest.raises(STORAGE_AWAY):
        log.store_event(started)


OWN = """\
storage:
  custom: {{module: platform_defs.dagster.storage, class: Storage}}
local_artifact_storage: {{module: platform_defs.dagster.storage, class: Artifacts}}
compute_logs:
  module: dagster._core.storage.local_compute_log_manager
  class: LocalComputeLogManager
  config: {{base_dir: {logs}}}
run_launcher: {{module: tests.integration.dagster.test_dagster_storage, class: OwnLauncher}}
concurrency: {{runs: {{max_concurrent_runs: 7}}}}
"""


class OwnLauncher(dg.DefaultRunLauncher):
    """A third-party launcher, such as dagster_k8s.K8sRunLauncher."""


def test_an_instance_of_ones_own_stands_beside_ours(
    database: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dagster.yaml").write_text(OWN.format(logs=tmp_path / "logs"))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        kinds = type(instance.event_log_storage), type(instance._local_artifact_storage), type(instance.run_launcher)
        assert kinds == (EventLog, Artifacts, OwnLauncher)
        assert instance.run_storage.get_runs_count() == 0
        logs = instance.compute_log_manager
        assert isinstance(logs, LocalComputeLogManager)
        assert str(tmp_path / "logs") in logs.get_captured_local_path(["run"], "out")
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None
        assert queue.max_concurrent_runs == 7
    assert database.execute("SELECT to_regclass('dagster.runs') IS NOT NULL").fetchone() == (True,)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    assert ui._environment(tmp_path)["DAGSTER_HOME"] == str(tmp_path), "tidegate ui up uses it as well"


@pytest.mark.slow
def test_the_doctor_looks_for_the_daemon_where_dagster_keeps_its_state(
    database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DagsterInstance.from_config(str(PROJECT_ROOT)) as instance:
        instance.add_daemon_heartbeat(DaemonHeartbeat(time.time(), "SENSOR", "a daemon", []))

    def said() -> list[tuple[str, str, str]]:
        found = tidegate("doctor", "-o", "json").document["findings"]
        return [(one["severity"], one["subject"], one["what"]) for one in found if one["area"] == "dagster"]

    ((severity, subject, words),) = said()
    assert (severity, subject) == ("ok", "daemon")
    assert "The last heartbeat" in words
    monkeypatch.setenv("TIDEGATE_DAGSTER_URL", f"postgresql://nobody@127.0.0.1:{closed_port()}/nothing")
    ((severity, subject, words),) = said()
    assert (severity, subject) == ("error", "storage")
    assert "Connection refused" in words
    assert database.execute("SELECT count(*) FROM dagster.daemon_heartbeats").fetchone() == (1,)
