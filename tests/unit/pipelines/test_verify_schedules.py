"""Each night a run verifies one pipeline, and none is asked for twice at once."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, DagsterRunStatus, Definitions, RunRequest, build_schedule_context

from platform_defs.code_location import compose
from platform_defs.dagster.keys import VERIFIES, VERIFY_JOB, VERIFY_POOL
from platform_defs.dagster.run_session import LEDGER_TAG
from platform_defs.settings.contracts import find_all

pytestmark = pytest.mark.long


PIPELINES = find_all().pipelines
DEFINITIONS = compose(PIPELINES)
NIGHT = datetime(2026, 11, 1, 3, tzinfo=UTC)


def asked(name: str, instance: DagsterInstance, definitions: Definitions = DEFINITIONS) -> list[RunRequest]:
    schedule = definitions.get_repository_def().get_schedule_def(name)
    context = build_schedule_context(instance, scheduled_execution_time=NIGHT)
    return [*(schedule.evaluate_tick(context).run_requests or ())]


@pytest.mark.parametrize("names", ["", "tidegate_"])
@pytest.mark.parametrize(("name", "whole"), [("nightly_verify", False), ("weekly_whole_verify", True)])
def test_a_run_for_each_pipeline_has_its_check_alone(name: str, whole: bool, names: str, tmp_path: Path) -> None:
    definitions = compose(PIPELINES, names=names)
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        requests = asked(f"{names}{name}", instance, definitions)
    assert [one.tags[VERIFIES] for one in requests] == [pipeline.name for pipeline in PIPELINES]
    assert len({one.run_key for one in requests}) == len(PIPELINES)
    job = definitions.get_repository_def().get_job(f"{names}{VERIFY_JOB}")
    for one, pipeline in zip(requests, PIPELINES, strict=True):
        subset = job.get_subset(asset_selection=None, asset_check_selection={*(one.asset_check_keys or ())})
        (op,) = subset.all_node_defs
        assert op.name == f"{names}verify_{pipeline.name}"
        config: Any = {"ops": {op.name: {"config": {"whole": True}}}} if whole else {}
        assert one.run_config == config
        assert getattr(op, "pool", None) == VERIFY_POOL


def test_a_pipeline_whose_check_still_waits_gets_no_second_one(tmp_path: Path) -> None:
    first, *others = [pipeline.name for pipeline in PIPELINES]
    job = DEFINITIONS.get_repository_def().get_job(VERIFY_JOB)
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.create_run_for_job(job, status=DagsterRunStatus.NOT_STARTED, tags={VERIFIES: first})
        of_another_ledger = {VERIFIES: others[0], LEDGER_TAG: "another"}
        instance.create_run_for_job(job, status=DagsterRunStatus.NOT_STARTED, tags=of_another_ledger)
        assert [one.tags[VERIFIES] for one in asked("nightly_verify", instance)] == others
