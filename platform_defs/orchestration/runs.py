"""Which runs write a pipeline, and which of those that Dagster shows as started are dead.

A run from the command line bypasses queue and pool, and one that is killed stays started forever and keeps its pool
slot: run monitoring does not see it. So a run counts as alive while it has its database session
(resources/dagster/run_session.py), which every sensor tick and every run's start checks here.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter

from platform_defs.contract.model import Contract
from platform_defs.orchestration.keys import PIPELINE_TAG, table_keys
from resources.dagster.run_session import TAG, runs_with_session
from resources.postgres.ledger import Ledger

UNFINISHED = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
WORKING = [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
DIED = (
    "The process of this run is gone: its database session ended before the run did. What it committed stays; what it "
    "did not commit is read again by the next run."
)
GRACE = 120.0  # seconds for a run to open its session, or to end after closing it


def writes(run: DagsterRun, contract: Contract) -> bool:
    """Whether the run drains this pipeline: its job, or any materialization that touches one of its tables."""
    if run.tags.get(PIPELINE_TAG) == contract.pipeline or run.job_name == contract.pipeline:
        return True
    if not run.job_name.startswith("__ASSET_JOB"):
        return False
    if run.asset_selection is None and run.asset_check_selection is None:
        return True
    keys = {*(run.asset_selection or ()), *(check.asset_key for check in run.asset_check_selection or ())}
    return not keys.isdisjoint(table_keys(contract))


def unfinished(instance: DagsterInstance) -> Sequence[RunRecord]:
    return instance.get_run_records(RunsFilter(statuses=UNFINISHED))


def dead(records: Iterable[RunRecord], alive: set[str], contract: Contract, now: datetime) -> list[RunRecord]:
    """Those whose process is gone: their tag says that their session is open, and it is not.

    A run that has not opened its session yet, or has closed it, is given GRACE seconds.
    """
    return [record for record in records if record.dagster_run.run_id not in alive and _is_dead(record, contract, now)]


def report_dead(instance: DagsterInstance, ledger: Ledger, contract: Contract, besides: str | None = None) -> list[str]:
    """Report the pipeline's dead runs as failed, and return their ids. `besides` is the run that asks."""
    records = [item for item in unfinished(instance) if item.dagster_run.run_id != besides]
    found = dead(records, runs_with_session(ledger), contract, datetime.now(UTC))
    # A run that ended meanwhile changed its tag before its session ended: read again, it no longer looks dead.
    if not found:
        return []
    again = instance.get_run_records(RunsFilter(run_ids=[item.dagster_run.run_id for item in found]))
    found = dead(again, set(), contract, datetime.now(UTC))
    for record in found:
        instance.report_run_failed(record.dagster_run, DIED)
    return [record.dagster_run.run_id for record in found]


def writer(instance: DagsterInstance, contract: Contract) -> DagsterRun | None:
    """A run that writes the pipeline now or is going to. Ask after `report_dead`."""
    now = datetime.now(UTC)
    runs = [item for item in unfinished(instance) if writes(item.dagster_run, contract)]
    return next((item.dagster_run for item in runs if not _abandoned(item, now)), None)


def failures_in_a_row(instance: DagsterInstance, contract: Contract) -> tuple[int, float]:
    """How many of the pipeline's latest runs failed one after another, and when the last ended (seconds, epoch)."""
    records = instance.get_run_records(RunsFilter(tags={PIPELINE_TAG: contract.pipeline}), limit=8)
    failed = [item.dagster_run.status == DagsterRunStatus.FAILURE for item in records]
    count = failed.index(False) if False in failed else len(failed)
    return count, (records[0].end_time or 0.0) if records else 0.0


def _is_dead(record: RunRecord, contract: Contract, now: datetime) -> bool:
    run = record.dagster_run
    if run.status not in WORKING:
        return False  # run monitoring watches the queue and the start: start_timeout_seconds
    if run.tags.get(TAG) == "open":
        return True
    return writes(run, contract) and _silent(record, now)


def _abandoned(record: RunRecord, now: datetime) -> bool:
    """Created by a command that was killed before it started the run."""
    return record.dagster_run.status == DagsterRunStatus.NOT_STARTED and _silent(record, now)


def _silent(record: RunRecord, now: datetime) -> bool:
    stamp = record.update_timestamp
    stamp = stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    return (now - stamp).total_seconds() > GRACE
