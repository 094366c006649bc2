"""Halts in scenarios: raised, recorded, and resolved as `tidegate resolve --execute` does."""

from collections.abc import Callable
from typing import Any

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import Halt
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.resolve import settlement
from platform_defs.resolve.choices import BatchChoice, ResumeAt
from platform_defs.resolve.settlement import Settlement
from tests.support.world import World


def halted(
    world: World, pipeline: Pipeline, code: str, run: Callable[[], object] | None = None, *, moves: bool = False
) -> dict[str, Any]:
    """Assert that a run halts with `code`, is recorded as halted, and blocks the next run; return the halt's detail.

    The run must write nothing, unless it `moves` on first.
    """
    before = world.position(pipeline)
    with pytest.raises(Halt, match=f"tidegate resolve {pipeline.name}") as halt:
        run() if run else world.drain(pipeline)
    status: Any = world.ledger.status(pipeline.name)
    assert (halt.value.code, status.state, status.halt_code) == (code, "halted", code)
    assert status.halt_detail == halt.value.detail.to_json()
    with pytest.raises(Halt, match="it has not been resolved"):
        world.drain(pipeline)
    assert moves or world.position(pipeline) == before, "a halted run moved positions"
    return halt.value.detail.to_json()


def resolve_halt(
    world: World, pipeline: Pipeline, start: ResumeAt | None = None, batch: BatchChoice | None = None
) -> Settlement:
    """Resolve the pipeline's halt, or its failed checks, as `tidegate resolve` does; return the decision."""
    broker = KafkaBroker(world.endpoints.kafka_options())
    decided = settlement.propose(pipeline.contract, world.ledger, broker, start, batch)
    assert decided is not None, f"{pipeline.name} is not halted"
    settlement.settle(world.endpoints.postgres_url, pipeline.contract, decided, "a scenario", "chaos")
    return decided
