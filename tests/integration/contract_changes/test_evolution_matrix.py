"""The registry's own result for each change of a writer's schema, beside the outcome for the rows (tests/unit)."""

from uuid import uuid4

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from platform_defs.stack import stack
from platform_defs.stack.endpoints import connection
from tests.support.world import World
from tests.unit.evolution.evolution_matrix import Change
from tests.unit.evolution.test_evolution_matrix import CHANGES

pytestmark = pytest.mark.xdist_group("registry")


@pytest.fixture
def client(world: World) -> SchemaRegistryClient:
    """Return a client of the embedded registry."""
    stack.up(registry=True)
    registry = connection().registry
    assert registry is not None
    return SchemaRegistryClient({"url": registry.options["url"]})


@pytest.mark.slow
def test_what_the_registry_says_of_each_change(client: SchemaRegistryClient) -> None:
    messages = [(change, _said(client, change)) for change in CHANGES]
    wrong = [f"{change.name}: {found}, not {change.registry}" for change, found in messages if found != change.registry]
    assert not wrong, "\n".join(wrong)


def _said(client: SchemaRegistryClient, change: Change) -> str:
    """Return the strictest compatibility level at which the registry accepts the new version after the old one."""
    subject, kind = uuid4().hex, change.format.upper()
    before, after = (Schema(text, kind) for text in change.schemas)
    client.register_schema(subject, before)
    taken = [level for level in ("BACKWARD", "FORWARD") if _takes(client, subject, level, after)]
    return {0: "NONE", 2: "FULL"}.get(len(taken)) or taken[0]


def _takes(client: SchemaRegistryClient, subject: str, level: str, schema: Schema) -> bool:
    client.set_compatibility(subject, level)
    return client.test_compatibility(subject, schema)
