"""The schedules: prune and verify."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from platform_defs.contract.model.contract import Contract
from platform_defs.orchestration.dagster_runs.keys import VERIFIES, VERIFY_JOB, verify_key
from platform_defs.orchestration.dagster_runs.runs import UNFINISHED
from platform_defs.orchestration.jobs import AssetJob
from platform_defs.orchestration.pruning import JOB

NIGHTLY_PRUNE = "30 2 * * *"  # UTC; what is pruned is verified the same night
NIGHTLY_VERIFY = "0 3 * * *"
WEEKLY_VERIFY = "0 5 * * 6"


def nightly_verify(job: AssetJob, contracts: Sequence[Contract]) -> dg.ScheduleDefinition:
    """Return the schedule that runs the job `verify` of what is new every night, a run for each pipeline: a slow one
    hides no other.
    """
    return _verify(
        "nightly_verify",
        job,
        contracts,
        whole=False,
        cron_schedule=NIGHTLY_VERIFY,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Checks every night that no message was lost or repeated since the previous check.",
    )


def weekly_verify(job: AssetJob, contracts: Sequence[Contract]) -> dg.ScheduleDefinition:
    """Return the schedule that runs the job `verify` of everything every week. Off until a person turns it on: it reads
    every topic.
    """
    return _verify(
        "weekly_whole_verify",
        job,
        contracts,
        whole=True,
        cron_schedule=WEEKLY_VERIFY,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=(
            "Compares every message with the tables, in one snapshot for each pipeline, however long it takes."
        ),
    )


def _verify(
    name: str, job: AssetJob, contracts: Sequence[Contract], *, whole: bool, **more: Any
) -> dg.ScheduleDefinition:
    @dg.schedule(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=name, job=job, execution_timezone="UTC", **more
    )
    def each(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        at_work = context.instance.get_run_records(dg.RunsFilter(job_name=VERIFY_JOB, statuses=UNFINISHED))
        busy = {item.dagster_run.tags.get(VERIFIES) for item in at_work}
        free = [contract for contract in contracts if contract.pipeline not in busy]
        moment = context.scheduled_execution_time.isoformat()
        requests = [_request(contract, f"{name} {moment}", whole=whole) for contract in free]
        return requests or dg.SkipReason("a verification of every pipeline is already running or queued")

    return each


def _request(contract: Contract, at: str, *, whole: bool) -> dg.RunRequest:
    key = verify_key(contract)
    return dg.RunRequest(
        run_key=f"{at} {contract.pipeline}",
        asset_check_keys=[key],
        run_config={"ops": {key.name: {"config": {"whole": True}}}} if whole else None,
        tags={VERIFIES: contract.pipeline},
    )


def nightly_prune() -> dg.ScheduleDefinition:
    """Return the schedule that runs the job `prune` every night, before `verify`."""
    return dg.ScheduleDefinition(
        name="nightly_prune",
        job_name=JOB,
        cron_schedule=NIGHTLY_PRUNE,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Every night, removes data that is older than the retention and no longer needed.",
    )
