"""A replay applies a person's decisions about batches again, and names commands that work."""

from dataclasses import replace

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput, GateFailed
from tests.chaos.postgres.tables import with_impossible_sum
from tests.integration.engine.test_gates import decide_and_settle
from tests.support.replays import counts, exact, execute, shown
from tests.support.world import World, transfers

LETTERS = 'SELECT partition, "offset", error_class FROM tidegate.dead_letter WHERE pipeline = %s ORDER BY 1, 2'


def decided(world: World) -> Pipeline:
    """Return a pipeline of three batches: rows, a manually dead-lettered one, and one published despite a red check."""
    pipeline = world.new_pipeline()
    world.send_and_drain(pipeline, transfers(40))
    strict = with_impossible_sum(pipeline)
    for number, choice in enumerate(("dead-letters", "publish"), 1):
        world.send(pipeline, [*transfers(40, 40 * number), b"no JSON"])
        with pytest.raises(GateFailed):
            world.drain(strict)
        decide_and_settle(world, strict, choice)
        world.drain(strict)
    return pipeline


@pytest.mark.longest
@pytest.mark.parametrize("batch_messages", [pytest.param(1_000_000, marks=pytest.mark.longest), 15])
def test_what_was_set_aside_or_published_with_ack_is_made_again_so(world: World, batch_messages: int) -> None:
    pipeline = decided(world)
    limits = replace(pipeline.contract.limits, batch_messages=batch_messages)
    pipeline = replace(pipeline, contract=replace(pipeline.contract, limits=limits))
    letters, before = world.rows(LETTERS, pipeline.name), exact(world, pipeline)
    assert sum(row["error_class"] == "ManuallyDeadLettered" for row in letters) == 40
    for _ in range(2):  # the second one replaces batches of the first
        found = counts(execute(world, pipeline))
        assert (found["postings"], found["dead letters"]) == ((160, 160, 0, 0), (42, 42, 0, 0))
        assert world.rows(LETTERS, pipeline.name) == letters
        assert exact(world, pipeline) == before
    (row,) = world.rows(
        "SELECT count(*) AS n FROM tidegate.check_result JOIN tidegate.batch USING (batch_id) "
        "WHERE pipeline = %s AND replaced_by IS NULL AND NOT passed AND severity = 'blocking'",
        pipeline.name,
    )
    assert row["n"] == 0, "the rule passes by now"


@pytest.mark.longest
def test_a_batch_that_is_decided_about_again_becomes_rows_for_good(world: World) -> None:
    pipeline = decided(world)
    aside = (
        "SELECT DISTINCT batch_id FROM tidegate.dead_letter"
        " WHERE pipeline = %s AND error_class = 'ManuallyDeadLettered'"
    )
    again = frozenset(row["batch_id"] for row in world.rows(aside, pipeline.name))
    with pytest.raises(BadInput, match=r"batch 0 has no decision from .* Decided batches: \d+, \d+"):
        execute(world, pipeline, decide_again=frozenset({0}))
    found = counts(execute(world, pipeline, decide_again=again))
    assert (found["postings"], found["dead letters"]) == ((160, 240, 0, 80), (42, 2, 40, 0))
    found = counts(execute(world, pipeline))
    assert (found["postings"], found["dead letters"]) == ((240, 240, 0, 0), (2, 2, 0, 0))
    exact(world, pipeline)
    with pytest.raises(BadInput, match=f"batch {min(again)} has no decision"):
        execute(world, pipeline, decide_again=again)


@pytest.mark.longest
def test_a_decision_about_one_batch_lets_no_other_pass(world: World) -> None:
    strict = with_impossible_sum(decided(world))
    with pytest.raises(BadInput) as refused:  # the first batch was published by another rule
        shown(world, strict)
    assert "fails postings_sum_to_zero. The live tables have not changed." in str(refused.value)
    assert f"tidegate replay {strict.name} again" in str(refused.value)
    assert "~replay" not in str(refused.value)
