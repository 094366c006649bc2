"""Speculative batches, as tests wait for them and find what is left of them."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import RunContext, drain
from tests.chaos.moments import Change
from tests.support.waiting import wait_for
from tests.support.world import World


@contextmanager
def batch_by_batch(world: World, pipeline: Pipeline, change: Change | None = None) -> Generator[Any]:
    """Yield the batches of a run, which ends with the block. `change` may replace its RunContext."""
    with world.open_run(pipeline) as opened:
        context: RunContext = change(opened) if change else opened
        with closing(drain(pipeline, context)) as batches:
            yield batches


def staged_ahead(world: World, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Return the staging attempts of batches neither pending nor committed, with the number of covered ranges."""
    return world.rows(
        "select s.staging_id, s.batch_id, count(c.attempt) as covered from tidegate.staging as s"
        " left join tidegate_staging.coverage as c using (staging_id) where pipeline = %s"
        " and not exists (select from tidegate.batch as b where b.batch_id = s.batch_id)"
        " and not exists (select from tidegate.pipeline where pending ->> 'batch_id' = s.batch_id::text)"
        " group by s.staging_id, s.batch_id",
        pipeline.name,
    )


def wait_until_staged(world: World, pipeline: Pipeline) -> None:
    """Wait until the four ranges of a speculative batch have been staged."""
    wait_for(lambda: any(one["covered"] == 4 for one in staged_ahead(world, pipeline)))
