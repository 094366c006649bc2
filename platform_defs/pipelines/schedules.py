"""The schedules: prune and verify."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from platform_defs.contract.model.contract import Contract
from platform_defs.dagster.jobs import AssetJob
from platform_defs.dagster.keys import VERIFIES, verify_key
from platform_defs.dagster.run_session import tags_of_ledger
from platform_defs.dagster.runs import unfinished
from platform_defs.errors import TidegateError
from platform_defs.pipelines.scheduler.survey import kept_survey
from platform_defs.stack.endpoints import connection

NIGHTLY_PRUNE = "30 2 * * *"  # UTC; what is pruned is verified the same night
NIGHTLY_VERIFY = "0 3 * * *"
WEEKLY_VERIFY = "0 5 * * 6"


def nightly_verify(job: AssetJob, contracts: Sequence[Contract], names: str = "") -> dg.ScheduleDefinition:
    """Return the schedule that runs the job `verify` of what is new every night, a run for each pipeline: a slow one
    hides no other.
    """
    return _verify(
        "nightly_verify",
        job,
        contracts,
        names,
        whole=False,
        cron_schedule=NIGHTLY_VERIFY,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Checks every night that no message was lost or repeated since the previous check.",
    )


def weekly_verify(job: AssetJob, contracts: Sequence[Contract], names: str = "") -> dg.ScheduleDefinition:
    """Return the schedule that runs the job `verify` of everything every week. Off until a person turns it on: it reads
    every topic.
    """
    return _verify(
        "weekly_whole_verify",
        job,
        contracts,
        names,
        whole=True,
        cron_schedule=WEEKLY_VERIFY,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=(
            "Compares every message with the tables, in one snapshot for each pipeline, however long it takes."
        ),
    )


def _verify(
    name: str, job: AssetJob, contracts: Sequence[Contract], names: str, *, whole: bool, **more: Any
) -> dg.ScheduleDefinition:
    @dg.schedule(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=f"{names}{name}", job=job, execution_timezone="UTC", **more
    )
    def each(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        """Return a run for each pipeline that has none. Raises dg.Failure while the ledger cannot be read: without its
        id, the runs of all pipelines would be taken for another ledger's, and queued again.
        """
        try:
            ledger_id = kept_survey(connection()).ledger_id()
        except TidegateError as error:
            raise dg.Failure(
                f"no verification was queued, since the ledger could not be read: {str(error).rstrip('.')}. The next "
                "tick tries again; to verify before that, run tidegate verify"
            ) from error
        if ledger_id is None:
            return dg.SkipReason("there is no ledger yet: no pipeline has run, so there is nothing to verify")
        busy = {item.dagster_run.tags.get(VERIFIES) for item in unfinished(context.instance, ledger_id)}
        free = [contract for contract in contracts if contract.pipeline not in busy]
        moment = context.scheduled_execution_time.isoformat()
        requests = [_request(contract, f"{name} {moment}", ledger_id, names, whole=whole) for contract in free]
        return requests or dg.SkipReason("a verification of every pipeline is already running or queued")

    return each


def _request(contract: Contract, at: str, ledger_id: str, names: str, *, whole: bool) -> dg.RunRequest:
    key = verify_key(contract)
    return dg.RunRequest(
        run_key=f"{at} {contract.pipeline}",
        asset_check_keys=[key],
        run_config={"ops": {f"{names}{key.name}": {"config": {"whole": True}}}} if whole else None,
        tags={VERIFIES: contract.pipeline, **tags_of_ledger(ledger_id)},
    )


def nightly_prune(job: dg.JobDefinition, names: str = "") -> dg.ScheduleDefinition:
    """Return the schedule that runs the job `prune` every night, before `verify`."""
    return dg.ScheduleDefinition(
        name=f"{names}nightly_prune",
        job=job,
        cron_schedule=NIGHTLY_PRUNE,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Every night, removes data that is older than the retention and no longer needed.",
    )
