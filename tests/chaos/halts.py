"""Halts, as scenarios see them: raised, written down, and settled as `tidegate ack --execute` settles them."""

from typing import Any

import pytest

from platform_defs.engine.errors import Halt
from platform_defs.engine.ports import Pipeline
from resources import settlement
from resources.kafka import KafkaBroker
from resources.outside import kafka_options
from resources.settlement import From
from tests.world import World


def halted(world: World, pipeline: Pipeline) -> tuple[str, dict[str, Any]]:
    """The code and the detail of the halt to which a run comes. The next run finds it halted, and the ledger says the same."""
    before = world.position(pipeline), world.table(pipeline)
    for _ in ("the run that meets it", "and the next"):
        with pytest.raises(Halt, match=f"tidegate ack {pipeline.name}") as halt:
            world.drain(pipeline)
    status: Any = world.ledger.status(pipeline.name)
    assert (status["state"], status["halt_code"], status["halt_detail"]) == (
        "halted",
        halt.value.code,
        halt.value.detail,
    )
    assert (world.position(pipeline), world.table(pipeline)) == before, "a halted run wrote something"
    return halt.value.code, halt.value.detail


def acknowledge(world: World, pipeline: Pipeline, start: From | None = None) -> None:
    """Settle the halt as it is shown."""
    decided = settlement.plan(pipeline.contract, world.ledger, KafkaBroker(kafka_options(world.endpoints)), start)
    assert decided is not None, f"{pipeline.name} is not halted"
    settlement.settle(world.endpoints.postgres_url, pipeline.contract, decided, "a scenario", "chaos")
