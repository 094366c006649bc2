"""Sessions of ours are set the same, whatever a role, a database or a server sets for every session."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pytest
from psycopg import sql
from sqlalchemy import create_engine

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.storage import storage_url
from platform_defs.errors import LedgerAway
from platform_defs.ledger.ledger import Ledger
from platform_defs.postgres.connection import connect, session_statement, session_uri, session_url
from platform_defs.postgres.session import FIXED
from platform_defs.postgres.sqlalchemy_sessions import with_sessions
from platform_defs.settings.contracts import find_pipeline
from platform_defs.verify.verify import verify
from tests.integration.verify.test_verify import customer
from tests.support.commands import invoke
from tests.support.postgres.databases import new_database
from tests.support.postgres.pgbouncer import needs_pgbouncer, pgbouncer
from tests.support.world import World, transfers

# A value of each that differs from Postgres' own default, for every setting that each user may change and that could
# change the meaning of a text, a statement or a transaction.
HOSTILE = {
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Tokyo",
    "array_nulls": "off",
    "backslash_quote": "off",
    "bytea_output": "escape",
    "check_function_bodies": "off",
    "client_encoding": "LATIN1",
    "client_min_messages": "debug1",
    "default_table_access_method": "elsewhere",
    "default_tablespace": "pg_default",
    "default_text_search_config": "pg_catalog.german",
    "default_transaction_deferrable": "on",
    "default_transaction_isolation": "serializable",
    "exit_on_error": "on",
    "extra_float_digits": "-15",
    "gin_fuzzy_search_limit": "1",
    "quote_all_identifiers": "on",
    "restrict_nonsystem_relation_kind": "view, foreign-table",
    "row_security": "off",
    "search_path": "elsewhere",
    "session_replication_role": "replica",
    "standard_conforming_strings": "off",
    "synchronous_commit": "off",
    "synchronize_seqscans": "off",
    "temp_tablespaces": "pg_default",
    "transform_null_equals": "on",
    "xmlbinary": "hex",
    "xmloption": "document",
    "lock_timeout": "1ms",
    "plpgsql.extra_errors": "all",
    "plpgsql.variable_conflict": "use_variable",
}
COLUMNS = """
      - {name: id, logicalType: string, required: true}
      - {name: day, logicalType: date}
      - {name: at, logicalType: timestamp}
      - {name: degrees, physicalType: double}
      - {name: raw, physicalType: bytes}
      - {name: names, logicalType: array, items: {logicalType: string}}
      - {name: times, logicalType: array, items: {logicalType: timestamp}}
      - {name: rest, logicalType: object, physicalType: json}"""
CONTRACT = """\
apiVersion: v3.1.0
kind: DataContract
id: hostile
version: 1.0.0
domain: hostile
servers: [{{server: kafka, type: kafka, format: json}}]
schema:
  - name: readings
    physicalType: topic
    physicalName: {topic}
    properties:{columns}
  - name: readings
    physicalType: table
    physicalName: hostile.readings
    description: A reading's \\ 'value'.
    customProperties: [{{property: disposition, value: append}}]
    properties:{columns}
"""


@pytest.fixture
def hostile(world: World) -> Iterator[World]:
    """Yield a world with a new database, whose sessions have the HOSTILE settings."""
    with new_database(world.endpoints.postgres_url) as url:
        with psycopg.connect(url, autocommit=True) as session:
            session.execute("CREATE ACCESS METHOD elsewhere TYPE TABLE HANDLER heap_tableam_handler")
            database = sql.Identifier(session.info.dbname)
            for name, value in HOSTILE.items():
                setting = sql.SQL(".").join(map(sql.Identifier, name.split(".")))
                session.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(database, setting, value))
        yield replace(world, endpoints=replace(world.endpoints, postgres_url=url))


def written(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Return a pipeline that the commands find too, with a column of every type whose text a setting could change."""
    topic, path = f"t{uuid4().hex[:10]}", folder / "hostile" / "readings.odcs.yaml"
    path.parent.mkdir()
    path.write_text(CONTRACT.format(topic=topic, columns=COLUMNS))
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(folder))
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", world.endpoints.postgres_url)
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", world.endpoints.bootstrap_servers)
    world.create_topic(topic)
    return find_pipeline("hostile")


def reading(number: int) -> bytes:
    return json.dumps(
        {
            "id": f"r{number}",
            "day": f"2026-02-{number + 1:02}",
            "at": "2026-02-03T23:59:59.123456Z",
            "degrees": 0.1 + number,
            "raw": "AAH/XCc=",
            "names": ["NULL", "null", "", "a'b\\c"],
            "times": ["2026-02-03T04:05:06Z"],
            "rest": {"text": "\\'NULL", "none": None},
        }
    ).encode()


def test_every_client_sets_its_sessions(hostile: World) -> None:
    _every_client_sets_its_sessions(hostile.endpoints.postgres_url)


@needs_pgbouncer
def test_every_client_sets_its_sessions_behind_a_pooler(hostile: World) -> None:
    with pgbouncer(hostile.endpoints.postgres_url) as url:
        _every_client_sets_its_sessions(url)


def _every_client_sets_its_sessions(url: str) -> None:
    """psycopg, ADBC, Great Expectations' engine and that of Dagster's storage. The owner's defaults and triggers read
    dates in the owner's order.
    """
    names = [name for name in HOSTILE if name in FIXED]
    asked = f"SELECT '03/02/2026'::date::text, {', '.join(f'current_setting({name!r})' for name in names)}"
    wanted = ["2026-02-03", *({**FIXED, "DateStyle": "ISO, DMY"}[name] for name in names)]
    with connect(url) as session:
        assert [*(session.execute(asked.encode()).fetchone() or ())] == wanted
    for engine in map(create_engine, (storage_url(url), with_sessions(session_uri(url, "audit")))):
        with engine.connect() as session:
            assert [*session.exec_driver_sql(asked).one()] == wanted
    with adbc.connect(session_url(url, "copy"), autocommit=True) as session, session.cursor() as cursor:
        cursor.execute(session_statement(url, "copy"))
        cursor.execute(asked)
        values: Any = cursor.fetchone()
        assert [value.decode() if isinstance(value, bytes) else value for value in values] == wanted


def test_sessions_that_are_read_only_by_default_stay_so_and_runs_wait(world: World) -> None:
    """An owner, or a provider whose disk is nearly full, means it."""
    with new_database(world.endpoints.postgres_url) as url:
        with psycopg.connect(url, autocommit=True) as session:
            database = sql.Identifier(session.info.dbname)
            session.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(database))
        with pytest.raises(LedgerAway, match="session is read-only"):
            Ledger(url).migrate()


@pytest.mark.longest
def test_a_batch_verify_a_replay_and_the_commands_work_under_hostile_defaults(
    hostile: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    postings, customers = hostile.new_pipeline(), hostile.new_pipeline("upsert")
    readings = written(hostile, tmp_path, monkeypatch)
    hostile.send(postings, transfers(8))
    hostile.send(customers, map(customer, range(8)), keys=[b"C%d" % (number % 4) for number in range(8)], partition=0)
    hostile.send(readings, [*map(reading, range(8)), b"garbage"])
    for pipeline, messages in ((readings, 9), (postings, 8), (customers, 8)):
        with subtests.test("a batch and verify", pipeline=pipeline.name):
            assert [batch.messages for batch in hostile.drain(pipeline)] == [messages]
            report = verify(pipeline, hostile.endpoints, hostile.spark)
            assert report.ok, report.explanation
    hostile.send_and_drain(readings, [reading(9)])  # over tables that exist
    name = readings.name
    for command in (
        ("lag", name),
        ("plan", name),
        ("dlq", "list", name),
        ("contract", "check", "--against", "ledger"),
        ("contract", "diff", name),
        ("contract", "apply", name, "--yes"),
        ("replay", name),
        ("replay", name, "--execute", "--reason", "a test"),
        ("verify", name),
        ("adopt", name),
        ("prune",),
        ("migrate",),
        ("migrate", "--tables"),
        ("rights", "--owner", "a", "--publisher", "b", "--reader", "c"),
        ("doctor",),
    ):
        with subtests.test("a command", command=command):
            called = invoke(*command)
            assert called.code == 0, called.said
