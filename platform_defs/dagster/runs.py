"""Dagster's runs: which of them work on pipelines, which are dead, and which pipelines each was started for.

A run from the command line bypasses the queue, and one that is killed stays started forever: run monitoring does not
see it. So a run counts as alive while it has its database session (dagster/run_session.py), which every
sensor tick and every run's start checks here. The ledger knows who works on a pipeline now: no run that Dagster starts
fences a live owner.

Code locations with other ledgers may share the instance. Their runs have sessions in other databases, so they are left
to them. A run has its ledger's tag at the latest when its session opens. Until then it belongs to the code location
that it was started from; a run from the command line has none, and counts as everyone's.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from dagster import AssetKey, DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter

from platform_defs.contract.model.contract import Contract
from platform_defs.dagster.keys import (
    CONTINUOUS,
    CONTINUOUS_JOB,
    CONTINUOUS_OP,
    DRAIN_JOB,
    LOAD_JOB,
    STARTED_FOR,
    job_tag,
    table_keys,
)
from platform_defs.dagster.run_session import LEDGER_TAG, TAG

UNFINISHED = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
WORKING = [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
DIED = (
    "The process of this run is gone: its database session ended before the run did. What it committed stays; the "
    "next run reads the rest again. If a library crashed, the run's stderr has the Python stack and, for a "
    "verification, the messages that were being read."
)
REOPENED = 3.0  # seconds in which a run that has lost its session has another, once Postgres is there
GRACE = 120.0  # seconds for a run to open its session, or to end after closing it


def scheduled(run: DagsterRun) -> bool:
    """Return True if the sensor started the run, for whatever is due. A re-execution by hand has the tag, but counts as
    by hand.
    """
    return STARTED_FOR in run.tags and run.parent_run_id is None


def stays(run: DagsterRun) -> bool:
    """Return True if the sensor started the run to stay, for pipelines whose latency is a few seconds."""
    return scheduled(run) and CONTINUOUS in run.tags


def selected(run: DagsterRun, contracts: Sequence[Contract]) -> list[str]:
    """Return the pipelines that the run was started for: those with a table, or its check, in its selection, or those
    in the run config of a continuous run. Without a selection, a run of the job `drain` is for all of them.
    """
    if CONTINUOUS in run.tags or _is_job(run, CONTINUOUS_JOB, contracts):  # an older version set only the former
        ops: Any = run.run_config.get("ops", {})
        config = ops.get(f"{run.job_name.removesuffix(CONTINUOUS_JOB)}{CONTINUOUS_OP}", {}).get("config", {})
        return [contract.pipeline for contract in contracts if contract.pipeline in config.get("pipelines", ())]
    if run.asset_selection is None and run.asset_check_selection is None:
        whole = _is_job(run, DRAIN_JOB, contracts) or run.job_name.startswith("__ASSET_JOB")
        return [contract.pipeline for contract in contracts] if whole else []
    keys = {*(run.asset_selection or ()), *(check.asset_key for check in run.asset_check_selection or ())}
    return of_tables(keys, contracts)


def _is_job(run: DagsterRun, job: str, contracts: Sequence[Contract]) -> bool:
    """Return True if the run is of our job for these contracts, which all have one prefix."""
    return any(run.tags.get(LOAD_JOB) == job_tag(job, contract.asset_prefix)[LOAD_JOB] for contract in contracts[:1])


def asked_by_hand(runs: Iterable[DagsterRun], contracts: Sequence[Contract]) -> frozenset[str]:
    """Return the pipelines that a person started one of these runs for; it waits for its turn, or has it."""
    return frozenset(name for run in runs if not scheduled(run) for name in selected(run, contracts))


def of_tables(keys: Iterable[AssetKey], contracts: Sequence[Contract]) -> list[str]:
    """Return the pipelines that own one of these tables. A pipeline's tables commit together, so one is enough."""
    wanted = set(keys)
    return [contract.pipeline for contract in contracts if not wanted.isdisjoint(table_keys(contract))]


def location_of(run: DagsterRun) -> str | None:
    """Return the id of the code location that the run was started from; None from the command line."""
    return run.remote_job_origin.repository_origin.get_selector_id() if run.remote_job_origin else None


def unfinished(instance: DagsterInstance, ledger_id: str | None, location: str | None = None) -> Sequence[RunRecord]:
    """Return the unfinished runs of this ledger, and of those without a ledger's tag the runs of the code location
    `location` and of the command line. Such a run has no session yet, or an older version started it.
    """
    records = instance.get_run_records(RunsFilter(statuses=UNFINISHED))
    return [item for item in records if _is_ours(item.dagster_run, ledger_id, location)]


def _is_ours(run: DagsterRun, ledger_id: str | None, location: str | None) -> bool:
    if LEDGER_TAG in run.tags:
        return run.tags[LEDGER_TAG] == ledger_id
    return location_of(run) in (None, location)


def live(
    instance: DagsterInstance,
    contracts: Sequence[Contract],
    ledger_id: str | None,
    location: str | None = None,
    besides: str | None = None,
) -> list[RunRecord]:
    """Return the runs that work on one of these pipelines now, or are going to. Call after `report_dead`."""
    now = datetime.now(UTC)
    return [
        item
        for item in unfinished(instance, ledger_id, location)
        # A command that is killed before it starts the run that it has created leaves one that never starts.
        if not (item.dagster_run.status == DagsterRunStatus.NOT_STARTED and _silent(item, now))
        and item.dagster_run.run_id != besides
        and selected(item.dagster_run, contracts)
    ]


def report_dead(
    instance: DagsterInstance,
    alive: Callable[[Sequence[str]], set[str]],
    contracts: Sequence[Contract],
    ledger_id: str | None,
    location: str | None = None,
    besides: str | None = None,
) -> list[str]:
    """Report dead runs as failed, and return their ids. `besides`: the calling run. `alive`: returns those of the given
    runs that have their session now, in the database of the ledger `ledger_id`. `location`: as of `unfinished`.

    A run that seems dead is checked again a little later: it may have lost its session, by a restart of Postgres say.
    """
    records = [item for item in unfinished(instance, ledger_id, location) if item.dagster_run.run_id != besides]
    found = dead(records, alive(_ids(records)), contracts, datetime.now(UTC))
    if not found:
        return []
    time.sleep(REOPENED)
    still = alive(_ids(found))  # before the tags: a run that ended meanwhile changed its tag before its session ended
    again = instance.get_run_records(RunsFilter(run_ids=_ids(found)))
    again = [item for item in again if _is_ours(item.dagster_run, ledger_id, location)]  # it may have its tag now
    found = dead(again, still, contracts, datetime.now(UTC))
    for record in found:
        instance.report_run_failed(record.dagster_run, DIED)
    return _ids(found)


def _ids(records: Iterable[RunRecord]) -> list[str]:
    return [record.dagster_run.run_id for record in records]


def dead(
    records: Iterable[RunRecord], alive: set[str], contracts: Sequence[Contract], now: datetime
) -> list[RunRecord]:
    """Return the runs whose process is gone: their tag says that their session is open, and it is not.

    A run that has not opened its session yet, or has closed it, gets GRACE seconds.
    """
    return [record for record in records if record.dagster_run.run_id not in alive and _is_dead(record, contracts, now)]


def _is_dead(record: RunRecord, contracts: Sequence[Contract], now: datetime) -> bool:
    run = record.dagster_run
    if run.status not in WORKING:
        return False  # run monitoring watches the queue and the start: start_timeout_seconds
    if run.tags.get(TAG) == "open":
        return True
    return _works_for_us_alone(run, contracts) and _silent(record, now)


def _works_for_us_alone(run: DagsterRun, contracts: Sequence[Contract]) -> bool:
    """Return True if the run has no step but ours. Other steps have no session, and may take as long as they like."""
    if run.asset_selection is None and run.asset_check_selection is None:
        return LOAD_JOB in run.tags or CONTINUOUS in run.tags
    ours = {key for item in contracts for key in table_keys(item)}
    return bool(selected(run, contracts)) and ours.issuperset(run.asset_selection or ())


def _silent(record: RunRecord, now: datetime) -> bool:
    stamp = record.update_timestamp
    stamp = stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    return (now - stamp).total_seconds() > GRACE
