"""Each night a run verifies one pipeline, and none is requested for twice at once."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, DagsterRunStatus, Definitions, RunRequest, build_schedule_context
from dagster._core.definitions.schedule_definition import ScheduleExecutionData
from dagster._core.errors import ScheduleExecutionError

from platform_defs.code_location import compose
from platform_defs.dagster.keys import VERIFIES, VERIFY_JOB, VERIFY_POOL
from platform_defs.dagster.run_session import LEDGER_TAG
from platform_defs.settings.contracts import find_all
from tests.support.world import World

PIPELINES = find_all().pipelines
DEFINITIONS = compose(PIPELINES)
NIGHT = datetime(2026, 11, 1, 3, tzinfo=UTC)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[DagsterInstance]:
    with DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


def tick(name: str, instance: DagsterInstance, definitions: Definitions = DEFINITIONS) -> ScheduleExecutionData:
    schedule = definitions.get_repository_def().get_schedule_def(name)
    return schedule.evaluate_tick(build_schedule_context(instance, scheduled_execution_time=NIGHT))


def requested(name: str, instance: DagsterInstance, definitions: Definitions = DEFINITIONS) -> list[RunRequest]:
    return [*(tick(name, instance, definitions).run_requests or ())]


@pytest.mark.parametrize("names", ["", "tidegate_"])
@pytest.mark.parametrize(("name", "whole"), [("nightly_verify", False), ("weekly_whole_verify", True)])
def test_a_run_for_each_pipeline_has_its_check_alone(
    world: World, name: str, whole: bool, names: str, instance: DagsterInstance
) -> None:
    world.ledger.migrate()
    definitions = compose(PIPELINES, names=names)
    requests = requested(f"{names}{name}", instance, definitions)
    assert [one.tags[VERIFIES] for one in requests] == [pipeline.name for pipeline in PIPELINES]
    assert len({one.run_key for one in requests}) == len(PIPELINES)
    job = definitions.get_repository_def().get_job(f"{names}{VERIFY_JOB}")
    for one, pipeline in zip(requests, PIPELINES, strict=True):
        assert one.tags[LEDGER_TAG] == world.ledger.ledger_id()
        subset = job.get_subset(asset_selection=None, asset_check_selection={*(one.asset_check_keys or ())})
        (op,) = subset.all_node_defs
        assert op.name == f"{names}verify_{pipeline.name}"
        config: Any = {"ops": {op.name: {"config": {"whole": True}}}} if whole else {}
        assert one.run_config == config
        assert getattr(op, "pool", None) == VERIFY_POOL


def queued(instance: DagsterInstance, pipeline: str, ledger_id: str) -> None:
    """Put a verification into Dagster's queue."""
    job, tags = DEFINITIONS.get_repository_def().get_job(VERIFY_JOB), {VERIFIES: pipeline, LEDGER_TAG: ledger_id}
    instance.create_run_for_job(job, status=DagsterRunStatus.NOT_STARTED, tags=tags)


def test_a_pipeline_whose_check_still_waits_gets_no_second_one(world: World, instance: DagsterInstance) -> None:
    world.ledger.migrate()
    first, *others = [pipeline.name for pipeline in PIPELINES]
    queued(instance, first, world.ledger.ledger_id() or "")
    queued(instance, others[0], "another")
    assert [one.tags[VERIFIES] for one in requested("nightly_verify", instance)] == others


def test_nothing_is_queued_while_the_ledger_cannot_be_read(
    world: World, instance: DagsterInstance, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued(instance, PIPELINES[0].name, world.ledger.ledger_id() or "")
    assert "there is no ledger yet" in (tick("nightly_verify", instance).skip_message or "")
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", f"{empty_database}_missing")
    with pytest.raises(ScheduleExecutionError) as raised:
        tick("nightly_verify", instance)
    sentence = str(raised.value.__cause__)
    assert sentence.startswith("no verification was queued, since the ledger could not be read: ")
    assert sentence.endswith("The next tick tries again; to verify before that, run tidegate verify")
