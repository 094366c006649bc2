"""Sessions behind a pooler: exclusive in session mode; refused in the other modes, before anything is changed."""

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from platform_defs.dagster.kept_session import KeptSession
from platform_defs.dagster.run_session import PREFIX, runs_with_session
from platform_defs.dagster.storage import storage_url
from platform_defs.doctor.vitals import look
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import BadInput, LedgerAway, PipelineHeld
from platform_defs.ledger.ledger import Ledger
from platform_defs.postgres import pooling
from platform_defs.postgres.connection import application_name, connect, queries, session_uri
from platform_defs.postgres.sqlalchemy_sessions import with_sessions
from platform_defs.stack.endpoints import Endpoints
from tests.support.postgres.databases import new_database
from tests.support.postgres.pgbouncer import needs_pgbouncer, pgbouncer
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = needs_pgbouncer
SETTINGS = "TimeZone statement_timeout lock_timeout idle_session_timeout transaction_timeout search_path"
ASKED = f"SELECT {', '.join(f'current_setting({name!r})' for name in SETTINGS.split())}"
POOLS: list[dict[str, Any]] = [{}, {"default_pool_size": 1}, {"min_pool_size": 5, "server_round_robin": 1}]
PID = "SELECT pg_backend_pid()"
SECRET = "secret"  # noqa: S105  # of the roles of these tests


@pytest.fixture(autouse=True)
def asked_again() -> Iterator[None]:
    """Clear the process' memory of another test's pooler."""
    pooling.require_session_mode.cache_clear()
    yield
    pooling.require_session_mode.cache_clear()


@pytest.fixture(scope="module")
def pooled(endpoints: Endpoints) -> Iterator[str]:
    """Yield the URL of the worker's Postgres through a pooler in session mode."""
    with pgbouncer(endpoints.postgres_url) as url:
        yield url


@pytest.fixture
def database(endpoints: Endpoints) -> Iterator[str]:
    """Yield the direct URL of an empty database, in which other sessions have a statement_timeout."""
    with new_database(endpoints.postgres_url) as url:
        with psycopg.connect(url, autocommit=True) as session:
            session.execute(f"ALTER DATABASE {session.info.dbname} SET statement_timeout = '1h'".encode())
        yield url


def test_a_session_is_set_as_on_a_direct_server(endpoints: Endpoints, pooled: str) -> None:
    for url in (endpoints.postgres_url, pooled):
        with connect(url, "name", settings={"lock_timeout": "7s"}) as session:
            assert (session.execute(ASKED.encode()).fetchone() or ())[:5] == ("UTC", "0", "7s", "0", "0")
            assert session.execute("SHOW application_name").fetchone() == ("name",)


def test_sessions_of_great_expectations_and_of_dagster_are_set_too(pooled: str) -> None:
    for url, path in ((storage_url(pooled), "dagster"), (with_sessions(session_uri(pooled, "audit")), None)):
        with closing(create_engine(url).raw_connection()) as session, closing(session.cursor()) as cursor:
            cursor.execute(ASKED)
            found = cursor.fetchone()
            assert found is not None
            assert found[:5] == ("UTC", "0", "0", "0", "0")
            assert path in (None, found[5])


@pytest.mark.parametrize(
    "pools", [{}, {"default_pool_size": 1}, {"min_pool_size": 5, "server_round_robin": 1}], ids=str
)
@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_other_modes_are_refused_before_anything_is_changed(database: str, mode: str, pools: dict[str, Any]) -> None:
    with pgbouncer(database, mode, **pools) as url:
        dagster: Callable[[], object] = create_engine(storage_url(url)).connect
        for ask in (Ledger(url).migrate, lambda: look(url), dagster):
            with pytest.raises(BadInput, match="pool_mode = session"):
                ask()
        with psycopg.connect(url, autocommit=True) as theirs:
            assert theirs.execute("SHOW statement_timeout").fetchone() == ("1h",)
            assert (
                theirs.execute("SELECT to_regnamespace('tidegate'), to_regnamespace('dagster')").fetchone()
                == (None,) * 2
            )


def test_a_pool_that_is_busy_is_refused_each_time(database: str) -> None:
    with pgbouncer(database, "transaction", default_pool_size=4) as url, _crowd(url, 6):
        for _ in range(10):
            with pytest.raises(BadInput, match="pool_mode = session"):
                connect(url)


def test_a_notification_alone_tells_the_modes_apart(
    database: str, pooled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "LOOKS", 0)
    pooling.require_session_mode(pooled)
    monkeypatch.setattr(pooling, "PATIENCE", 0.5)
    with pgbouncer(database, "transaction") as url, pytest.raises(BadInput, match="does not receive a notification"):
        pooling.require_session_mode(url)


def test_a_pooler_that_does_not_reset_sessions_is_refused(endpoints: Endpoints) -> None:
    with pgbouncer(endpoints.postgres_url, server_reset_query="") as url, pytest.raises(BadInput, match="DISCARD ALL"):
        connect(url)


def test_a_pool_that_is_full_counts_as_a_system_that_is_away(endpoints: Endpoints) -> None:
    """A pooler reports every error with one SQLSTATE, which from Postgres is an error that may recur."""
    for size in (1, 2):
        with pgbouncer(endpoints.postgres_url, default_pool_size=size, query_wait_timeout=1) as url:
            with pytest.raises(LedgerAway, match="query_wait_timeout") as full:
                connect(url)
            assert full.value.sqlstate is None


@pytest.mark.parametrize("step", ["_share", "_hears"])
def test_a_connection_that_ends_while_the_modes_are_told_apart_is_no_wrong_mode(
    endpoints: Endpoints, pooled: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, Postgres ends it, or it exceeds the pooler's time limit: that may be over the next time."""
    reported = vars(pooling)[step]

    def once_it_has_ended(one: psycopg.Connection[Any], other: psycopg.Connection[Any], *more: int) -> bool:
        with connect(endpoints.postgres_url) as ending:
            pids = [(session.execute(PID).fetchone() or (0,))[0] for session in (one, other)]
            assert ending.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid", [pids]).rowcount == 2
        return reported(one, other, *more)

    monkeypatch.setattr(pooling, step, once_it_has_ended)
    with pytest.raises(LedgerAway) as ended:
        connect(pooled)
    assert "pool_mode" not in str(ended.value)


def test_a_pooler_that_ends_a_connection_is_quoted_and_not_taken_for_one_that_refuses_transactions(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = vars(pooling)["_share"]

    def once_it_has_ended(one: psycopg.Connection[Any], other: psycopg.Connection[Any], mine: int) -> bool:
        one.execute("BEGIN")
        assert select.select([one], [], [], 20)[0]
        return reported(one, other, mine)

    monkeypatch.setattr(pooling, "_share", once_it_has_ended)
    pooler = pgbouncer(endpoints.postgres_url, idle_transaction_timeout=1)
    with pooler as url, pytest.raises(LedgerAway, match="idle transaction timeout"):
        connect(url)


def test_a_direct_server_is_asked_nothing_more(endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("platform_defs.postgres.connection.require_session_mode", asked.append)
    connect(endpoints.postgres_url).close()
    assert asked == []


def test_nobody_else_who_is_given_a_fenced_runs_server_process_is_ended(endpoints: Endpoints) -> None:
    name = application_name("pipeline", uuid4())
    ended = {"application_name": name}
    with pgbouncer(endpoints.postgres_url, default_pool_size=5) as url, connect(endpoints.postgres_url) as taking_over:
        with closing(connect(url, name)) as fenced:
            (pid,) = fenced.execute(PID).fetchone() or (0,)
        others = [psycopg.connect(url, autocommit=True) for _ in range(5)]
        assert pid in {(other.execute(PID).fetchone() or (0,))[0] for other in others}
        assert taking_over.execute(queries()["end_sessions"], ended).fetchall() == []
        for other in others:
            other.execute("SELECT 1")
            other.close()


def test_a_role_that_may_not_see_other_sessions_sees_which_runs_are_alive(world: World, pooled: str) -> None:
    """Ended runs are no longer seen."""
    world.ledger.migrate()
    pipeline, role = world.new_pipeline(), f"reader_{uuid4().hex[:8]}"
    for statement in (
        f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'",
        f"GRANT USAGE ON SCHEMA tidegate TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA tidegate TO {role}",
    ):
        world.rows(statement)
    asking = Ledger(_as(role, world.endpoints.postgres_url))
    try:
        assert not asking.status(pipeline.name).held
        with closing(acquire(pooled, pipeline.contract)), closing(KeptSession(pooled, f"{PREFIX}one")):
            assert asking.status(pipeline.name).held
            assert runs_with_session(asking, ["one", "other"]) == {"one"}
            with pytest.raises(PipelineHeld):
                acquire(world.ledger.url, pipeline.contract, unless_held=True)
        for ledger in (asking, world.ledger):  # names include those of the pooler's processes
            wait_for(lambda ledger=ledger: not runs_with_session(ledger, ["one"]), "the session is gone")
            assert not ledger.status(pipeline.name).held
    finally:
        world.rows(f"DROP OWNED BY {role}")
        world.rows(f"DROP ROLE {role}")


def _as(role: str, url: str) -> str:
    return make_url(url).set(username=role, password=SECRET).render_as_string(hide_password=False)


@contextmanager
def _crowd(url: str, clients: int) -> Iterator[None]:
    """Run this many other clients, each with one transaction after another."""
    over = threading.Event()

    def work() -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as session:
            while not over.is_set():
                session.execute("SELECT count(*) FROM generate_series(1, 1000)")

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
