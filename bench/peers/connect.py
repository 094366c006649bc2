"""Kafka Connect with Debezium's JDBC sink: a separate standalone worker, whose connector is created for each pass.

The documented ways to write faster: a task for each core, large polls and batches, inserts of many rows
(reWriteBatchedInserts of Postgres' driver). The topic's JSON has no schema in each message, so the converter is given
one (schema.content, KIP-1054); stringtype=unspecified lets Postgres read the amount and the time from text.
"""

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import psycopg
import requests

from bench.peers.asked import Task
from bench.peers.process import CARRY_SECONDS, START_SECONDS, end_group
from bench.producers.three_brokers import free_ports
from platform_defs.errors import BadInput
from platform_defs.stack.java import find_java

FIELDS = ("transfer_id", "debit_account", "credit_account", "amount", "currency", "occurred_at", "memo")
SCHEMA = {"type": "struct", "fields": [{"field": name, "type": "string", "optional": True} for name in FIELDS]}
LOOK = 0.1  # seconds between two polls of the table's size


class Connect:
    """The worker. Raises BadInput if it ends, or does not become ready or carry all in time."""

    def __init__(self, classpath: str, plugins: Path, brokers: str, folder: Path) -> None:
        self._log, self._port = folder / "connect.log", free_ports(1)[0]
        properties = folder / "worker.properties"
        properties.write_text(
            "".join(f"{name}={value}\n" for name, value in self._worker(plugins, brokers, folder).items())
        )
        program = (find_java(), "-Xmx2G", "-XX:+UseG1GC", "-XX:-UsePerfData", "-cp", classpath)
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*program, "org.apache.kafka.connect.cli.ConnectStandalone", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        try:
            self._wait(START_SECONDS, self._serves)
        except BaseException:
            self.close()
            raise

    def carry(self, task: Task) -> None:
        """Run a connector from the topic's beginning, until its table has every message."""
        name = f"bench-{uuid4().hex[:6]}"  # its consumer group's too: a new one begins at the beginning
        started = requests.put(self._url(f"{name}/config"), json=_connector(task), timeout=60)
        if not started.ok:
            raise BadInput(f"Kafka Connect refused the connector: {started.text}")
        try:
            with psycopg.connect(task["postgres_url"], autocommit=True) as database:
                filled = _Filled(database, task)
                self._wait(CARRY_SECONDS, lambda: self._runs(name) and filled())
        finally:
            requests.delete(self._url(name), timeout=60)

    def close(self) -> None:
        end_group(self._process)

    def _worker(self, plugins: Path, brokers: str, folder: Path) -> Mapping[str, Any]:
        converter = "org.apache.kafka.connect"
        return {
            "bootstrap.servers": brokers,
            "listeners": f"http://127.0.0.1:{self._port}",
            "key.converter": f"{converter}.storage.StringConverter",
            "value.converter": f"{converter}.json.JsonConverter",
            "value.converter.schemas.enable": "true",
            "value.converter.schema.content": json.dumps(SCHEMA),
            "offset.storage.file.filename": folder / "connect.offsets",
            "plugin.path": plugins,
        }

    def _url(self, what: str) -> str:
        return f"http://127.0.0.1:{self._port}/connectors/{what}"

    def _wait(self, seconds: float, reached: Any) -> None:
        until = time.monotonic() + seconds
        while not reached():
            if self._process.poll() is not None:
                raise BadInput(f"Kafka Connect ended; its log is {self._log}")
            if time.monotonic() > until:
                raise BadInput(f"Kafka Connect was not done within {seconds:g} s; its log is {self._log}")
            time.sleep(LOOK)  # neither the worker nor Postgres reports the end

    def _serves(self) -> bool:
        try:
            return requests.get(self._url(""), timeout=5).ok
        except requests.RequestException:
            return False

    def _runs(self, name: str) -> bool:
        """Return True; raises BadInput if a task has failed."""
        tasks = requests.get(self._url(f"{name}/status"), timeout=10).json().get("tasks", [])
        failed = [one.get("trace", "") for one in tasks if one["state"] == "FAILED"]
        if failed:
            raise BadInput(f"Kafka Connect's task failed: {failed[0][:2000]}")
        return True


class _Filled:
    """A check that the table has every message. Counts only when its file has stopped growing, since counting costs."""

    def __init__(self, database: psycopg.Connection, task: Task) -> None:
        self._database, self._table, self._messages = database, f"bench.{task['table']}", task["messages"]
        self._size = 0

    def __call__(self) -> bool:
        before, self._size = self._size, self._one("SELECT pg_relation_size(%s)", self._table)
        grown = self._size != before or self._size == 0
        return not grown and self._one(f"SELECT count(*) FROM {self._table}") == self._messages

    def _one(self, query: str, *values: str) -> int:
        row = self._database.execute(query.encode(), values or None).fetchone()
        assert row is not None
        return row[0]


def _connector(task: Task) -> Mapping[str, str]:
    database = urlsplit(task["postgres_url"])
    place = f"{database.hostname}:{database.port}{database.path}"
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": str(os.cpu_count()),
        "topics": task["topic"],
        "connection.url": f"jdbc:postgresql://{place}?reWriteBatchedInserts=true&stringtype=unspecified",
        "connection.username": unquote(database.username or ""),
        "connection.password": unquote(database.password or ""),
        "insert.mode": "insert",
        "primary.key.mode": "none",
        "schema.evolution": "none",
        "collection.name.format": f"bench.{task['table']}",
        "batch.size": "10000",
        "consumer.override.max.poll.records": "10000",
        "consumer.override.fetch.min.bytes": "1000000",
        "consumer.override.max.partition.fetch.bytes": "4194304",
    }
