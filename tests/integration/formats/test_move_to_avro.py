"""A topic moves from JSON to Avro: by a new topic, or within the old one (docs/how-to/json-to-avro.md)."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from platform_defs.contract.evolution.changes import Bump, ChangeClass
from platform_defs.contract.model.contract import WireFormat
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.stack import stack
from platform_defs.stack.endpoints import connection
from platform_defs.verify.verify import verify
from tests.chaos.halts import halted, resolve_halt
from tests.integration.contract_changes.test_contract_apply import apply, versions
from tests.integration.registry.test_registry import documents, serialized
from tests.support.world import World, transfers

pytestmark = pytest.mark.xdist_group("registry")


@pytest.fixture
def registered(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return the world with the embedded registry."""
    monkeypatch.setenv("TIDEGATE_REGISTRY_NAME", uuid4().hex)
    stack.up(registry=True)
    return replace(world, endpoints=connection())


def in_avro(pipeline: Pipeline, **others: Any) -> Pipeline:
    """Return the pipeline with the contract that reads Avro."""
    contract = replace(pipeline.contract, **others)
    wire = WireFormat("prefix", f"{contract.topic}-value")
    return replace(pipeline, contract=replace(contract, format="avro", version="2.0.0", wire=wire))


def read(world: World, pipeline: Pipeline) -> list[tuple[int, int]]:
    """Return rows and dead letters of each batch of a run."""
    return [(batch.rows, batch.dead_letters) for batch in world.drain(pipeline)]


@pytest.mark.longest
def test_a_new_topic_is_read_behind_the_old_one_and_nothing_is_lost_or_doubled(registered: World) -> None:
    before = registered.new_pipeline()
    after = in_avro(before, topic=f"{before.contract.topic}.v2")
    registered.create_topic(after.contract.topic)
    registered.send(before, transfers(20))
    assert read(registered, before) == [(40, 0)]
    registered.send(after, serialized(registered, after, documents(8, 100)))  # the first producers have moved ...
    registered.send(before, transfers(4, 20))  # ... the last ones have not
    assert read(registered, before) == [(8, 0)]
    halted(registered, after, "topic_changed")
    decided = resolve_halt(registered, after, "beginning")
    assert [step.skip for step in decided.steps] == [None] * 4  # the old topic was read to its end
    assert read(registered, after) == [(16, 0)]
    assert versions(registered, after) == [("1.0.0", False, False), ("2.0.0", False, True)]
    report = verify(after, registered.endpoints, registered.spark)
    assert (report.ok, report.rows, report.unverifiable) == (True, 16, 48), report.explanation


@pytest.mark.slow
def test_within_a_topic_that_was_read_to_its_end_each_batch_is_judged_in_its_own_format(registered: World) -> None:
    before = registered.new_pipeline()
    registered.send(before, transfers(20))
    assert read(registered, before) == [(40, 0)]
    after = in_avro(before)
    proposal = apply(registered, after)
    change, _ = proposal.plan.changes  # the other is the subject: words
    assert (change.what, change.kind) == ("format json -> avro", ChangeClass.BREAKS_PRODUCERS)
    assert (change.bump, proposal.plan.statements) == (Bump.MAJOR, ())
    registered.send(after, serialized(registered, after, documents(8, 100)))
    registered.send(after, transfers(2, 200))  # a producer that was not stopped
    assert read(registered, after) == [(16, 2)]
    letters = registered.dead_letters(after)
    assert {letter["error_class"] for letter in letters} == {"NotFramed"}
    assert all("JSON" in letter["error_message"] for letter in letters)
    report = verify(after, registered.endpoints, registered.spark)
    assert (report.ok, report.rows, report.dead_letters) == (True, 56, 2), report.explanation
