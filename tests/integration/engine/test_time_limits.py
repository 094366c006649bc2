"""Time limits of a role: none of them ends a batch, whichever client sends a statement."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from sqlalchemy import create_engine, text
from typing_extensions import override

from platform_defs.contract.model.contract import BatchRule
from platform_defs.dagster.storage import storage_url
from platform_defs.engine.batch import drain
from platform_defs.engine.commit.auditor import GreatExpectationsAuditor
from platform_defs.engine.interfaces.broker_and_auditor import AuditView
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.errors import LedgerAway
from platform_defs.offsets import PendingBatch
from platform_defs.postgres.connection import connect, database_errors, session_statement, session_uri, session_url
from platform_defs.postgres.sqlalchemy_sessions import with_sessions
from platform_defs.verify.verify import verify
from tests.support.staging_areas import ChangedArea
from tests.support.world import World, transfers

NAMES = (
    "statement_timeout",
    "lock_timeout",
    "idle_session_timeout",
    "idle_in_transaction_session_timeout",
    "transaction_timeout",
)
LIMIT, LONGER = 1.0, 1.5  # seconds; a busy machine takes some tenths of one for a plain statement
MANY = BatchRule("enough", "slow", "ExpectTableRowCountToBeBetween", {"min_value": 1}, "blocking", "There are rows.")


class SlowCopy(ChangedArea):
    """A staging area whose COPY lasts longer than the limit."""

    @override
    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        return super().copy(_slowly(batches), schema)


def _slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(LONGER)  # a COPY takes as long as its rows: the test is that it exceeds the limit
        yield batch


@pytest.mark.longest
def test_a_batch_that_takes_longer_than_its_role_may_is_published(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its COPY and its publication exceed each limit, and its session is idle for longer while it is read."""
    pipeline, opened = world.caught_up(), PostgresLease.open_staging
    _delay_writes(world, pipeline.contract.row_table.name)

    def slow(self: PostgresLease, pending: PendingBatch) -> SlowCopy:
        return SlowCopy(opened(self, pending))

    monkeypatch.setattr(PostgresLease, "open_staging", slow)
    world.send(pipeline, transfers(80, start=8))
    with limited_role(world), world.open_run(pipeline) as context:
        (batch,) = drain(pipeline, context)
        report = verify(pipeline, world.endpoints, world.spark)
    assert batch.messages == 80
    assert report.ok, report.explanation


@pytest.mark.slow
def test_a_rule_that_takes_longer_than_its_role_may_is_judged(world: World) -> None:
    world.rows(f"CREATE VIEW public.slow AS SELECT 1 AS _partition, 2 AS _offset FROM pg_sleep({LONGER})")
    try:
        with limited_role(world):
            (found,) = GreatExpectationsAuditor(world.endpoints.postgres_url).evaluate(
                [MANY], AuditView("public", "slow")
            )
    finally:
        world.rows("DROP VIEW public.slow")
    assert found.passed


@pytest.mark.slow
def test_every_client_sets_its_sessions_free(world: World) -> None:
    url, statement = world.endpoints.postgres_url, f"SELECT pg_sleep({LONGER})"
    engines = create_engine(storage_url(url)), create_engine(with_sessions(session_uri(url, "audit")))
    with limited_role(world):
        with connect(url) as session:
            session.execute(statement.encode())
        for engine in engines:
            with engine.connect() as session:
                session.execute(text(statement))
        with adbc.connect(session_url(url, "copy")) as session, session.cursor() as cursor:
            cursor.execute(session_statement(url, "copy"))
            cursor.execute(f"SELECT 1 FROM pg_sleep({LONGER})")
            assert cursor.fetchone() == (1,)


def test_a_limit_that_the_url_names_is_kept(world: World) -> None:
    given = world.endpoints.postgres_url
    url = f"{given}{'&' if '?' in given else '?'}options=-c%20statement_timeout%3D100ms"
    with pytest.raises(LedgerAway, match="statement timeout"), connect(url) as session, database_errors():
        session.execute("SELECT pg_sleep(10)")


def _delay_writes(world: World, table: str) -> None:
    """Make each statement that inserts into the table take LONGER."""
    body = f"begin perform pg_sleep({LONGER}); return null; end"
    world.rows(f"create function {table}_slow() returns trigger language plpgsql as $$ {body} $$")
    world.rows(f"create trigger slow after insert on {table} for each statement execute function {table}_slow()")


@contextmanager
def limited_role(world: World) -> Iterator[None]:
    """Set all these limits for every session of our role that begins inside the block."""
    with world.session() as session:
        for name in NAMES:
            session.execute(sql.SQL("ALTER ROLE CURRENT_USER SET {} = {}").format(sql.Identifier(name), f"{LIMIT}s"))
    try:
        yield
    finally:
        with psycopg.connect(world.endpoints.postgres_url, autocommit=True) as session:
            session.execute("ALTER ROLE CURRENT_USER RESET ALL")
