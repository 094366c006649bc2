"""What runs on a schedule."""

import dagster as dg

from platform_defs.orchestration.jobs import AssetJob

NIGHTLY = "0 3 * * *"  # UTC


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
