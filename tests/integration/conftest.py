"""Fixtures shared by tests of several files here."""

from collections.abc import Iterator

import pytest
from dagster import DagsterInstance

from resources.endpoints import Endpoints
from resources.postgres.ledger import prune_ledger
from resources.process.settings import PROJECT_ROOT
from tests.support.kafka.kafka_actions import Place
from tests.support.kafka.secured_kafka import ADMIN, SecuredKafka
from tests.support.world import World, transfers


@pytest.fixture(scope="module")
def instance(endpoints: Endpoints) -> Iterator[DagsterInstance]:
    """Yield the instance of dagster.yaml, in the session's Postgres."""
    with DagsterInstance.from_config(str(PROJECT_ROOT)) as found:
        yield found


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
