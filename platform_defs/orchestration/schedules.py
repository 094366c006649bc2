"""What runs on a schedule."""

import dagster as dg

from platform_defs.orchestration.jobs import AssetJob
from platform_defs.orchestration.pruning import JOB

NIGHTLY = "0 3 * * *"  # UTC
BEFORE = "30 2 * * *"  # what is pruned is verified the same night


def nightly_verify(job: AssetJob) -> dg.ScheduleDefinition:
    """Runs the job `verify` every night."""
    return dg.ScheduleDefinition(
        name="nightly_verify",
        job=job,
        cron_schedule=NIGHTLY,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Checks every night that no message was lost or repeated.",
    )


def nightly_prune() -> dg.ScheduleDefinition:
    """Runs the job `prune` every night, before `verify`."""
    return dg.ScheduleDefinition(
        name="nightly_prune",
        job_name=JOB,
        cron_schedule=BEFORE,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Removes every night what is older than the retention and no longer needed.",
    )
