"""The ledger's schema: made when a run opens and by `tidegate migrate`, never by what only reads it."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from dagster import DagsterInstance
from typer.testing import CliRunner

from platform_defs.cli.main import app
from platform_defs.errors import BadInput, LedgerMissing, LedgerOutdated, LedgerTooNew
from platform_defs.orchestration.sensors import look
from platform_defs.orchestration.survey import Survey
from resources.endpoints import Endpoints
from resources.postgres import migrations
from resources.postgres.ledger import Ledger
from resources.postgres.migrations import KNOWN, LedgerVersion
from tests.world import World

REPLAYS = "004_replays.sql"
UNDO_REPLAYS = (
    "ALTER TABLE tidegate.source_position DROP added_late",
    "ALTER TABLE tidegate.batch DROP replaced_by",
    "DROP TABLE tidegate.replay",
)


@pytest.fixture
def url(endpoints: Endpoints) -> Iterator[str]:
    """A database of this test's own, without a ledger."""
    name = f"fresh_{uuid4().hex[:10]}"
    with psycopg.connect(endpoints.postgres_url, autocommit=True) as session:
        session.execute(f'CREATE DATABASE "{name}"'.encode())
        yield urlsplit(endpoints.postgres_url)._replace(path=f"/{name}").geturl()
        session.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def stranger(url: str) -> Iterator[str]:
    """The URL of a user of that database who may create nothing in it."""
    role = f"stranger_{uuid4().hex[:10]}"
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'".encode())
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
        yield parts._replace(netloc=f"{role}:secret@{place}").geturl()
        session.execute(f"DROP OWNED BY {role}".encode())
        session.execute(f"DROP ROLE {role}".encode())


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        for statement in statements:
            session.execute(statement.encode())


def test_what_only_reads_answers_that_nothing_is_there_yet_and_creates_nothing(url: str) -> None:
    ledger = Ledger(url)
    assert ledger.version() is None
    assert not ledger.status("bank_transfers").has_run
    assert ledger.positions("bank_transfers", "bank.transfers") == []
    with psycopg.connect(url) as session:
        assert session.execute("SELECT to_regnamespace('tidegate')").fetchone() == (None,)


def test_lag_on_a_fresh_database_shows_every_pipeline_unread(
    url: str, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", url)
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", endpoints.bootstrap_servers)
    answer = CliRunner().invoke(app, ["lag", "-o", "json"])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)["pipelines"]
    assert len(found) > 1
    assert {item["state"] for item in found} == {"active"}
    assert {part["position"] for item in found for part in item["partitions"]} <= {None}


def test_what_writes_says_that_there_is_no_ledger_and_how_to_get_one(url: str) -> None:
    with pytest.raises(LedgerMissing, match="tidegate migrate"):
        Ledger(url).mark_reported(1)


def test_of_processes_that_migrate_at_once_one_does_and_all_go_on(url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: Ledger(url).migrate(), range(4)))
    assert sorted(done) == [(), (), (), KNOWN]
    assert Ledger(url).version() == LedgerVersion(KNOWN)


def test_a_ledger_that_is_up_to_date_needs_no_right_to_create(url: str, stranger: str) -> None:
    Ledger(url).migrate()
    role = urlsplit(stranger).username
    execute(
        url, f"GRANT USAGE ON SCHEMA tidegate TO {role}", f"GRANT SELECT ON ALL TABLES IN SCHEMA tidegate TO {role}"
    )
    assert Ledger(stranger).migrate() == ()
    assert not Ledger(stranger).status("bank_transfers").has_run


def test_who_may_not_create_the_ledger_is_told_what_to_grant(stranger: str) -> None:
    with pytest.raises(BadInput, match="GRANT CREATE ON DATABASE"):
        Ledger(stranger).migrate()


def test_who_may_not_use_or_upgrade_the_ledger_is_told_whose_it_is(url: str, stranger: str) -> None:
    Ledger(url).migrate()
    for ask in (lambda: Ledger(stranger).migrate(), lambda: Ledger(stranger).status("bank_transfers")):
        with pytest.raises(BadInput, match="which belongs to"):
            ask()


def test_an_older_ledger_is_upgraded_by_a_migration_and_until_then_not_read(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "KNOWN", KNOWN[:2])
        assert Ledger(url).migrate() == KNOWN[:2]
    with pytest.raises(LedgerOutdated, match=f"lacks {', '.join(KNOWN[2:])}.*tidegate migrate"):
        Ledger(url).status("bank_transfers")
    assert Ledger(url).migrate() == KNOWN[2:]
    assert not Ledger(url).status("bank_transfers").has_run


def test_a_ledger_of_a_later_version_is_neither_read_nor_migrated(url: str) -> None:
    Ledger(url).migrate()
    execute(url, "INSERT INTO tidegate.migration (name) VALUES ('999_later.sql')")
    for ask in (lambda: Ledger(url).status("bank_transfers"), lambda: Ledger(url).migrate()):
        with pytest.raises(LedgerTooNew, match=r"has 999_later\.sql.*Upgrade Tidegate"):
            ask()


def test_a_ledger_that_lists_its_migrations_in_public_is_taken_over(url: str) -> None:
    Ledger(url).migrate()
    execute(
        url,
        "ALTER TABLE tidegate.migration RENAME TO tidegate_migration",
        "ALTER TABLE tidegate.tidegate_migration SET SCHEMA public",
    )
    with pytest.raises(LedgerOutdated):
        Ledger(url).status("bank_transfers")
    assert Ledger(url).migrate() == ()
    assert Ledger(url).version() == LedgerVersion(KNOWN)


def test_a_sensor_upgrades_an_older_ledger_and_starts_runs_as_before(
    url: str, endpoints: Endpoints, world: World
) -> None:
    pipeline = world.new_pipeline(lag_messages=1)
    world.send(pipeline, [b"{}"])
    Ledger(url).migrate()
    execute(url, f"DELETE FROM tidegate.migration WHERE name = '{REPLAYS}'", *UNDO_REPLAYS)
    found = look(DagsterInstance.ephemeral(), [pipeline.contract], Survey(replace(endpoints, postgres_url=url)), None)
    assert found.run_requests
    assert Ledger(url).version() == LedgerVersion(KNOWN)


def test_a_sensor_fails_visibly_on_a_newer_ledger(url: str, endpoints: Endpoints, world: World) -> None:
    pipeline = world.new_pipeline()
    Ledger(url).migrate()
    execute(url, "INSERT INTO tidegate.migration (name) VALUES ('999_later.sql')")
    with pytest.raises(LedgerTooNew):
        look(DagsterInstance.ephemeral(), [pipeline.contract], Survey(replace(endpoints, postgres_url=url)), None)
