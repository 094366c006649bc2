"""Fixtures shared by tests of several files here."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from dagster import DagsterInstance

from platform_defs.prune import ledger as prune_ledger
from platform_defs.settings.settings import PROJECT_ROOT
from platform_defs.stack.endpoints import Endpoints
from tests.support.kafka.kafka_actions import Place
from tests.support.kafka.secured_kafka import ADMIN, SecuredKafka
from tests.support.kafka.topic_sites import Site
from tests.support.postgres.databases import new_database
from tests.support.world import World, transfers


@pytest.fixture(scope="module")
def instance(endpoints: Endpoints) -> Iterator[DagsterInstance]:
    """Yield the instance of dagster.yaml, in the session's Postgres."""
    with DagsterInstance.from_config(str(PROJECT_ROOT)) as found:
        yield found


@pytest.fixture
def site(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return an empty folder of contracts, which commands use."""
    folder = tmp_path / "contracts"
    folder.mkdir()
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(folder))
    return Site(folder, f"t{uuid4().hex[:8]}", world)


@pytest.fixture
def empty_database(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield a database without a ledger, which the commands use."""
    with new_database(world.endpoints.postgres_url) as url:
        monkeypatch.setenv("TIDEGATE_POSTGRES_URL", url)
        monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", world.endpoints.bootstrap_servers)
        yield url


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a prune small pages, and one batch that is always kept."""
    monkeypatch.setattr(prune_ledger, "NEWEST", 1)
    monkeypatch.setattr(prune_ledger, "PAGE", 3)


@pytest.fixture
def place(world: World, secured: SecuredKafka) -> Iterator[Place]:
    secured.revoke_all()
    world.ledger.migrate()  # an action that only reports progress does not
    admin = secured.world(world, ADMIN)
    pipeline = admin.new_pipeline()
    admin.send(pipeline, transfers(8))
    yield Place(secured.world(world), admin, pipeline)
    secured.revoke_all()
