"""Dagster's own storage: in our Postgres, or that of TIDEGATE_DAGSTER_URL (schema `dagster`); its files are under
TIDEGATE_HOME.

dagster.yaml names these classes, and they need no variable: an unset variable in that file would stop every command.
Each of Dagster's processes finds the database as everything else here does (platform_defs.settings.settings).
"""

import sys
from functools import lru_cache
from typing import Any

import click
from dagster import EventLogEntry, Field
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager
from dagster._core.storage.root import LocalArtifactStorage
from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage
from dagster_postgres.utils import DagsterPostgresException
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from typing_extensions import override

from platform_defs.errors import BadInput, LedgerAway, TidegateError
from platform_defs.postgres.connection import (
    Connection,
    connect,
    database_errors,
    error_for_sqlstate,
    limited,
    queries,
)
from platform_defs.postgres.sqlalchemy_sessions import with_sessions
from platform_defs.postgres.tables import create_schema
from platform_defs.settings.home import private_home
from platform_defs.settings.settings import settings

SCHEMA = "dagster"
# The errors that Dagster raises if its storage does not answer, or is a standby. PoolTimeout: the process's connections
# were all in use for SQLAlchemy's 30 seconds.
STORAGE_AWAY = (OperationalError, InterfaceError, InternalError, DagsterPostgresException, PoolTimeout)
MOST = 20  # maximum connections of a process; one of them is kept
RECYCLED = 600  # seconds after which a kept connection is reopened
ADDRESSES = 2  # addresses with cached connections: a password changed while a process runs makes a second address
# The tables by which Dagster's three storages decide whether to create theirs; the query also checks our rights.
_TABLES = {"schema": SCHEMA, "names": ["runs", "instance_info", "event_logs", "jobs"]}
_FOUND = text(
    "SELECT count(*) = cardinality(:names) AND NOT pg_is_in_recovery() FROM pg_class AS c"
    " JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE n.nspname = :schema AND c.relname = ANY(:names) AND has_schema_privilege(n.oid, 'USAGE')"
    "   AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')"
)

# Postgres looks for a snapshot's runs when it is deleted (prune/dagster_log.py).
_REFERENCE = "CREATE INDEX IF NOT EXISTS runs_snapshot_id ON dagster.runs (snapshot_id)"


class EventLog(PostgresEventLogStorage):
    """Dagster's event log, without a catalogue query for each result of a check, and without errors for log lines."""

    @override
    def store_event(self, event: EventLogEntry) -> None:
        """Store the event. A log line that cannot be stored is written to stderr, which Dagster captures: else the code
        that logs why Postgres is unavailable would fail for that reason, and the line would be lost.
        """
        try:
            super().store_event(event)
        except STORAGE_AWAY as error:
            if event.is_dagster_event:
                raise
            sys.stderr.write(f"{event.user_message}\n(Dagster's storage did not record this line: {error})\n")

    @property
    @override
    def supports_asset_checks(self) -> bool:
        return True  # Dagster >= 1.13 (pyproject.toml) creates the table with the others


class WithoutOptions:
    """A part of Dagster's instance for which dagster.yaml has no options."""

    @classmethod
    def config_type(cls) -> dict[str, Field]:
        return {}


class Storage(WithoutOptions, DagsterPostgresStorage):
    """Runs, events and schedules, in their own schema beside the ledger, over connections that are kept.

    Dagster opens one for each statement, except in its web server: logging in cost more than all that a run writes.
    Dagster makes a storage for each tick of a sensor, so it looks for its tables in one statement.
    """

    def __init__(
        self, postgres_url: str, should_autocreate_tables: bool = True, inst_data: ConfigurableClassData | None = None
    ) -> None:
        super().__init__(postgres_url, should_autocreate_tables, inst_data)
        self._event_log_storage = EventLog(postgres_url, should_autocreate_tables=False)
        engine = kept_connections(postgres_url)
        for part in (self._run_storage, self._event_log_storage, self._schedule_storage):
            part._engine = engine  # pyright: ignore[reportPrivateUsage]  # has no public name
        if should_autocreate_tables:
            with engine.begin() as connection:
                connection.exec_driver_sql(_REFERENCE)

    @classmethod
    @override
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> "Storage":
        """Return the storage; creates a missing schema. Without Postgres a command ends with one sentence."""
        try:
            return _opened(inst_data)[0]
        except TidegateError as error:
            raise click.ClickException(str(error)) from error


class Logs(WithoutOptions, LocalComputeLogManager):
    """The output of runs, under TIDEGATE_HOME."""

    @classmethod
    @override
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> "Logs":
        return cls(_folder("compute_logs"), inst_data=inst_data)


class Artifacts(WithoutOptions, LocalArtifactStorage):
    """Files that Dagster keeps for itself, under TIDEGATE_HOME."""

    @classmethod
    @override
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> "Artifacts":
        return cls(_folder("artifacts"), inst_data=inst_data)


def create_missing_tables() -> bool:
    """Create Dagster's tables if they are missing. Return True if they were. Raises LedgerAway, BadInput."""
    return _opened()[1]


def _opened(inst_data: ConfigurableClassData | None = None) -> tuple[Storage, bool]:
    """Return the storage, and True if its tables were created here. Dagster's processes start at once: one creates the
    tables, the others wait for it, since Dagster creates each table in a transaction of its own.
    """
    address = _postgres_url()
    url = storage_url(address)
    if _has_tables(url):
        return Storage(url, should_autocreate_tables=False, inst_data=inst_data), False
    with connect(address) as connection, database_errors():
        connection.execute("SELECT pg_advisory_lock(hashtext('tidegate dagster schema'))")  # until the session ends
        _create_schema(connection)
        missing = not _has_tables(url)
        try:
            return Storage(url, should_autocreate_tables=missing, inst_data=inst_data), missing
        except DBAPIError as error:
            raise error_for_sqlstate(getattr(error.orig, "pgcode", None), str(error.orig).strip(), "ledger") from error


@lru_cache(ADDRESSES)
def kept_connections(url: str) -> Engine:
    """Return the process's connection pool, for all storages. It tests a connection before use, so it notices a
    restart.

    The pool of an address that is no longer used is closed with the last storage that has it.
    """
    return create_engine(
        url, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=MOST - 1, pool_pre_ping=True, pool_recycle=RECYCLED
    )


def _has_tables(url: str) -> bool:
    """Return True if Dagster's tables exist; False also if the database does not answer: the next query reports why."""
    try:
        with kept_connections(url).connect() as connection:
            return bool(connection.execute(_FOUND, _TABLES).scalar())
    except STORAGE_AWAY:
        return False


def storage_url(postgres_url: str) -> str:
    """Return a libpq URI in SQLAlchemy's form, with the tables in the schema `dagster`.

    The driver is named: SQLAlchemy 2.1 would take psycopg 3, with which Dagster's storage fails.
    """
    # Each setting is a parameter: SQLAlchemy takes several hosts with ports in no other form.
    given = {"target_session_attrs": "read-write", **conninfo_to_dict(limited(postgres_url))}
    url = URL.create("postgresql+psycopg2", query={name: str(value) for name, value in given.items()})
    return with_sessions(url.render_as_string(hide_password=False), search_path=SCHEMA)


def _postgres_url() -> str:
    """Return the database's address, even while Kafka is down: the UI is needed most then."""
    from platform_defs.stack import stack

    if (given := settings().dagster_url) is not None:
        return given
    running = stack.status()
    if running.postgres.address is None:
        raise LedgerAway(
            f"the embedded Postgres in {running.home}, which also holds Dagster's storage, is not running "
            "(start it with `tidegate stack up`)"
        )
    return running.postgres.address


def _create_schema(connection: Connection) -> None:
    """Create the schema if it is missing. Raises BadInput if this role may not create it, or tables in it."""
    role, may = connection.execute(queries()["may_create_in"], {"schema": SCHEMA}).fetchone() or (None, False)
    if not may:
        raise BadInput(
            f"{role} may not create Dagster's tables in {connection.info.dbname}, or may not use the existing "
            "ones. As the owner of the schema, run tidegate migrate --tables, then execute the output of "
            "tidegate rights",
            field="TIDEGATE_POSTGRES_URL" if settings().dagster_url is None else "TIDEGATE_DAGSTER_URL",
        )
    create_schema(connection, SCHEMA)


def _folder(name: str) -> str:
    folder = private_home(settings().home) / "dagster" / name
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)
