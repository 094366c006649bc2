"""Dagster's tables in our Postgres: created once, and looked for in one statement from then on."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import make_conninfo

from resources.dagster import storage
from resources.dagster.storage import Storage
from resources.endpoints import Endpoints


@pytest.fixture
def database(endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    """A session of an empty database, in which Dagster keeps its state."""
    name = f"dagster_{uuid4().hex[:10]}"
    url = sqlalchemy.make_url(endpoints.postgres_url).set(database=name).render_as_string(hide_password=False)
    monkeypatch.setattr(storage, "_postgres_url", lambda: url)
    with psycopg.connect(endpoints.postgres_url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}".encode())
        with psycopg.connect(make_conninfo(endpoints.postgres_url, dbname=name), autocommit=True) as found:
            yield found
        session.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


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
