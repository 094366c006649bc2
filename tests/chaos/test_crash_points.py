"""A run is killed with SIGKILL at each named point and started again. Nothing is lost, nothing is there twice."""

import signal
from typing import get_args

import pytest

from platform_defs.engine.crash_points import CrashPoint
from platform_defs.verification.verify import verify
from tests.chaos.runs import Run
from tests.world import World, transfers

COMMITTED = {"after_commit"}  # the points at which the batch is real already
PASSED = [point for point in get_args(CrashPoint) if point != "between_commits"]  # that one is for other deliveries


@pytest.mark.parametrize("point", PASSED)
def test_a_run_killed_at_this_point_loses_nothing_and_doubles_nothing(world: World, point: str) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, [*transfers(8_000), b"not json", *transfers(7_999, start=8_000)])

    run = Run(pipeline, point)
    run.process.join(120)
    assert run.process.exitcode == -signal.SIGKILL
    committed = world.rows("select count(*) as n from tidegate.batch where pipeline = %s", pipeline.name)[0]["n"]
    assert committed == (1 if point in COMMITTED else 0)
    assert len(world.table(pipeline)) == (31_998 if point in COMMITTED else 0)

    world.drain(pipeline)
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report.explanation
    assert (report.lost, report.duplicated, report.messages, report.dead_letters) == (0, 0, 16_000, 1)
    assert world.rows("select * from tidegate.staging where pipeline = %s", pipeline.name) == []
    assert (
        world.rows("select 1 from pg_stat_activity where application_name like %s", f"tidegate/{pipeline.name}/%") == []
    )
