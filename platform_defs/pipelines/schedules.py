"""The schedules: prune and verify."""

from collections.abc import Sequence

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
NIGHTLY_VERIFY = dg.DefaultScheduleStatus.RUNNING, "0 3 * * *"
WEEKLY_VERIFY = dg.DefaultScheduleStatus.STOPPED, "0 5 * * 6"  # off until a person turns it on: it reads every topic


def verify_schedule(
    job: AssetJob, contracts: Sequence[Contract], names: str = "", *, whole: bool
) -> dg.ScheduleDefinition:
    """Return the schedule that runs the job `verify` of what is new every night, or of everything every week; a run for
    each pipeline: a slow one hides no other.
    """
    name = "weekly_whole_verify" if whole else "nightly_verify"
    default_status, cron = WEEKLY_VERIFY if whole else NIGHTLY_VERIFY
    nightly = "Checks every night that no message was lost or repeated since the previous check."
    weekly = "Compares every message with the tables, in one snapshot for each pipeline, however long it takes."

    @dg.schedule(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=f"{names}{name}",
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=default_status,
        description=weekly if whole else nightly,
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
        requests = list[dg.RunRequest]()
        for contract in free:
            key = verify_key(contract)
            request = dg.RunRequest(
                run_key=f"{name} {moment} {contract.pipeline}",
                asset_check_keys=[key],
                run_config={"ops": {f"{names}{key.name}": {"config": {"whole": True}}}} if whole else None,
                tags={VERIFIES: contract.pipeline, **tags_of_ledger(ledger_id)},
            )
            requests.append(request)
        return requests or dg.SkipReason("a verification of every pipeline is already running or queued")

    return each


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
