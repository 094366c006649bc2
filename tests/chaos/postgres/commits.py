"""A connection cut while COMMIT is in flight, with each possible outcome."""

from dataclasses import replace

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import LedgerAway, OutcomeUnknown
from tests.chaos.postgres.proxy import CommitCutter
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.world import World, transfers


@scenario(FaultClass.COMMIT_CUT)
def connection_cut_before_COMMIT_arrives(chaos: Chaos) -> Verdict:
    """Not committed, and reported so; the next run reads the same offsets."""
    pipeline = _sent(chaos.world)
    cutter = CommitCutter(chaos.world.endpoints.postgres_url, "before")
    with cutter, pytest.raises(LedgerAway, match="lost before batch"):
        _through(chaos.world, cutter).drain(pipeline)
    assert chaos.world.table(pipeline) == []
    return chaos.judge(pipeline, cutter.fired, "not committed, and said so")


@scenario(FaultClass.COMMIT_CUT, representative=True)
def connection_cut_after_COMMIT_is_done(chaos: Chaos) -> Verdict:
    """Found committed under the row lock, by batch id and owner; nothing is repeated."""
    pipeline = _sent(chaos.world)
    with CommitCutter(chaos.world.endpoints.postgres_url, "after") as cutter:
        (batch,) = _through(chaos.world, cutter).drain(pipeline)
    assert batch.messages == 800
    return chaos.judge(pipeline, cutter.fired, "found committed")


@scenario(FaultClass.COMMIT_CUT)
def connection_cut_in_COMMIT_and_Postgres_away(chaos: Chaos) -> Verdict:
    """Reported as unknown, never as not committed; the next run knows."""
    pipeline = _sent(chaos.world)
    cutter = CommitCutter(chaos.world.endpoints.postgres_url, "after", then_away=True)
    with cutter, pytest.raises(OutcomeUnknown, match="Whether the batch was committed is in the ledger"):
        _through(chaos.world, cutter).drain(pipeline)
    assert len(chaos.world.table(pipeline)) == 1_600
    return chaos.judge(pipeline, cutter.fired, "reported as unknown")


def _sent(world: World) -> Pipeline:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(800))
    return pipeline


def _through(world: World, cutter: CommitCutter) -> World:
    return replace(world, endpoints=replace(world.endpoints, postgres_url=cutter.url))
