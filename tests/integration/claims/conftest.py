"""Pipelines before and after their tables are created, and a user who may only read them."""

from collections.abc import Iterator
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.ledger.ledger import Ledger
from tests.support.claims import claim
from tests.support.world import World


@pytest.fixture
def pipeline(world: World) -> Pipeline:
    """Return a pipeline whose tables are created: postings (append) and balances (accumulate)."""
    made = world.new_pipeline()
    world.ledger.migrate()
    claim(world.ledger, made.contract)
    return made


@pytest.fixture
def tableless(world: World) -> Pipeline:
    """Return a pipeline that has its schema, and no table yet."""
    made = world.new_pipeline()
    world.ledger.migrate()
    world.rows(f"create schema {made.name}")
    return made


@pytest.fixture
def clerk(world: World, pipeline: Pipeline) -> Iterator[tuple[Ledger, str]]:
    """Yield the ledger as a user with all rights on it who may only read the pipeline's tables; and the user."""
    role = f"clerk_{uuid4().hex[:10]}"
    for statement in (
        f"create role {role} login password 'secret'",
        f"grant usage on schema {pipeline.name} to {role}",
        f"grant select on all tables in schema {pipeline.name} to {role}",
        f"grant usage, create on schema tidegate, tidegate_staging to {role}",
        f"grant all on all tables in schema tidegate, tidegate_staging to {role}",
        f"grant all on all sequences in schema tidegate to {role}",
    ):
        world.rows(statement)
    parts = urlsplit(world.endpoints.postgres_url)
    place = parts.netloc.rpartition("@")[2]
    yield Ledger(parts._replace(netloc=f"{role}:secret@{place}").geturl()), role
    world.rows(f"drop owned by {role}")
    world.rows(f"drop role {role}")
