"""A run for the tables of pipelines: it reads their topics, turn by turn, and reports what happened.

Imported by the ops of pipelines/assets.py when they begin: the engine, Arrow, Spark and Dagster's storage take longer
to import than all that Dagster needs for definitions.
"""

import time
from collections.abc import Collection, Generator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import dagster as dg
import psutil
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import SensorInstigatorData
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.tags import SENSOR_NAME_TAG
from sqlalchemy import tuple_
from sqlalchemy.exc import SQLAlchemyError

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.keys import BESIDE, FAILED, HANDS_OVER, LAG_SENSOR, LEAVE
from platform_defs.dagster.run_session import LEDGER_TAG
from platform_defs.dagster.runs import asked_by_hand, live, location_of, report_dead, scheduled, stays
from platform_defs.dagster.storage import STORAGE_AWAY
from platform_defs.engine.commit.auditor import warm_up
from platform_defs.errors import BrokerAway, GateFailed, Halt, LedgerAway, TidegateError
from platform_defs.errors.words import plural
from platform_defs.pipelines.reporting.halts import halt_metadata
from platform_defs.pipelines.scheduler.continuous import Continuous, RunBudget, SchedulerInputs
from platform_defs.pipelines.scheduler.rounds import MAX_CONCURRENT_TURNS, in_rounds
from platform_defs.pipelines.scheduler.run_policy import EverythingThere, OtherRuns, WhatIsDue
from platform_defs.pipelines.scheduler.survey import Survey
from platform_defs.pipelines.scheduler.turns import Turns
from platform_defs.pipelines.scheduler.waiting import Waits, from_cursor
from platform_defs.spark.resource import SparkResource
from platform_defs.stack.endpoints import connection

ENDED = "the Spark session ended; the next run reads the remaining pipelines"


@contextmanager
def expected_failures(log: dg.DagsterLogManager) -> Generator[None]:
    """Turn an error of the ledger, the brokers or Dagster's storage outside any pipeline into a failure without
    retries.
    """
    try:
        yield
    except TidegateError as error:
        log.error(str(error))
        raise dg.Failure(str(error), allow_retries=False) from error
    except STORAGE_AWAY as error:
        raise dg.Failure(f"Dagster's storage did not answer, so the run ends: {error}", allow_retries=False) from error


def drain(
    context: dg.OpExecutionContext, pipelines: Sequence[Pipeline], names: Collection[str], spark: SparkResource
) -> None:
    """Work on the pipelines with these `names`, and on others as the run's policy has it."""
    contracts, endpoints = [item.contract for item in pipelines], connection()
    survey = Survey(endpoints)
    survey.ledger.migrate()
    own, ledger_id = context.run.run_id, survey.ledger_id()
    location = location_of(context.run)
    for run_id in report_dead(context.instance, survey.live_runs, contracts, ledger_id, location, besides=own):
        context.log.warning(f"run {run_id} was shown as started, but its process is gone: it is now reported as failed")
    chosen = [item for item in contracts if item.pipeline in names]
    warm_up(chosen)  # imports Great Expectations while Spark starts
    turns = Turns(context, pipelines, endpoints, survey.ledger, spark, stays=stays(context.run))
    try:
        if stays(context.run):
            failures = _continuous(context, contracts, survey, turns)
        else:
            policy = _policy(context, contracts, chosen, survey)
            turns.others_waiting = lambda: policy.others_waiting(MAX_CONCURRENT_TURNS)
            failures = in_rounds(policy, turns)
    finally:
        turns.finish()
        survey.close()
    if spark.has_ended():
        context.log.error(ENDED)
    if failures:
        _tag_failed(context, sorted(failures))
    if failure := ends_with(failures, turns.taken, spark_ended=spark.has_ended(), staying=stays(context.run)):
        raise failure


def _tag_failed(context: dg.OpExecutionContext, names: Sequence[str]) -> None:
    """Name up to ten failed pipelines in a tag of the run. If Dagster's storage is away, only the tag is lost."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    try:
        context.instance.add_run_tags(context.run.run_id, {FAILED: f"{', '.join(names[:10])}{more}"})
    except STORAGE_AWAY as error:
        context.log.warning(f"the tag {FAILED} was not set: {error}")


def _policy(
    context: dg.OpExecutionContext, contracts: Sequence[Contract], chosen: Sequence[Contract], survey: Survey
) -> EverythingThere | WhatIsDue:
    """Return the run's policy: what is due if the sensor started it, everything there if a person did."""
    if not scheduled(context.run):
        return EverythingThere(survey.look(chosen))
    others = partial(other_runs, context.instance, contracts, context.run.run_id)
    ours = [contract for contract in contracts if not contract.limits.continuous]
    first = [contract.pipeline for contract in chosen]
    return WhatIsDue(ours, first, sensor_waits(context.instance, context.run), survey.look, others)


def sensor_waits(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Waits:
    """Return since when each pipeline has been waiting, as of the last tick of the sensor that started the run; empty
    if it has had none. Another code location may have a sensor of the same name.
    """
    location = location_of(run)
    if location is None:  # not started by a daemon
        return {}
    name = run.tags.get(SENSOR_NAME_TAG, LAG_SENSOR)
    for state in instance.all_instigator_state(repository_selector_id=location, instigator_type=InstigatorType.SENSOR):
        if state.instigator_name == name and isinstance(state.instigator_data, SensorInstigatorData):
            return from_cursor(state.instigator_data.cursor)
    return {}


def _continuous(
    context: dg.OpExecutionContext, contracts: Sequence[Contract], survey: Survey, turns: Turns
) -> dict[str, Exception]:
    """Stay for the pipelines whose latency is a few seconds. Return what turns raised, by pipeline."""
    own, instance = context.run.run_id, context.instance

    def hand_over(why: str) -> None:
        context.log.info(f"requested another run to take over from this one: {why}")
        instance.add_run_tags(own, {HANDS_OVER: why})

    turns.warm_up()
    record = instance.get_run_record_by_id(own)
    age = max(0.0, time.time() - record.start_time) if record and record.start_time else 0.0
    ours = [contract for contract in contracts if contract.limits.continuous]
    unreported = partial(survey.left_unreported, ours)
    around = SchedulerInputs(
        look=survey.look,
        ends=survey.topics.ends,
        others=partial(other_runs, instance, contracts, own),
        unreported=unreported,
        memory=resident_bytes,
        hand_over=hand_over,
        over=turns.over,
    )
    policy = Continuous(ours, around, RunBudget(), age)
    turns.others_waiting = policy.others_waiting
    return in_rounds(policy, turns, poll_seconds=policy.poll_seconds)


def other_runs(instance: dg.DagsterInstance, contracts: Sequence[Contract], own: str) -> OtherRuns:
    """Return what the other runs leave to the run with id `own`, and what the sensor asked of it
    (pipelines/scheduler/handover.py).

    A run that Dagster shows as ended must leave: the sensor has started another one, and tags this one no more.
    """
    run = instance.get_run_by_id(own)
    tags: Mapping[str, str] = run.tags if run else {}
    records = live(instance, contracts, tags.get(LEDGER_TAG), location_of(run) if run else None, besides=own)
    by_hand = asked_by_hand((item.dagster_run for item in records if item.start_time), contracts)
    warming = not {item.dagster_run.run_id for item in records}.isdisjoint(tags.get(BESIDE, "").split())
    ended = run is not None and run.is_finished
    return OtherRuns(by_hand, superseded=LEAVE in tags or ended, one_turn=warming)


def ends_with(
    failures: Mapping[str, Exception], taken: Sequence[str], *, spark_ended: bool, staying: bool
) -> dg.Failure | None:
    """Return the failure of the run; None if it ends well. A run that was to stay, and whose Spark ended before any
    turn failed, must fail: then the next one starts after a pause, and the failure is visible.
    """
    if not failures:
        return dg.Failure(ENDED, allow_retries=False) if spark_ended and staying else None
    # With each pipeline's sentence. No retry: the sensor starts the next run.
    if len(failures) == 1 and len(taken) == 1:
        (error,) = failures.values()
        return dg.Failure(_sentence(error), _metadata(error), allow_retries=False)
    sentences = {name: _sentence(error) for name, error in failures.items()}
    text = "; ".join(f"{name}: {sentence}" for name, sentence in sentences.items())
    return dg.Failure(
        f"{len(failures)} of {plural(len(taken), 'pipeline')} failed. {text}",
        dict(sentences),
        allow_retries=False,
    )


def _sentence(error: Exception) -> str:
    """Return the error's message; for a system that is unavailable, with the consequence for the run."""
    if isinstance(error, BrokerAway | LedgerAway):
        return f"{str(error).rstrip('.?')}. Nothing was published by this attempt; the next run will retry."
    return str(error)


def _metadata(error: Exception) -> dict[str, Any]:
    if isinstance(error, Halt):
        return halt_metadata(error)
    if isinstance(error, GateFailed):
        names = [item.name for item in error.results if not item.passed and item.severity == "blocking"]
        return {"failed checks": ", ".join(names)}
    return {}


@contextmanager
def checks_kept(context: dg.AssetExecutionContext) -> Generator[None]:
    """At the end, let Dagster show the last result of each selected check that the run has not evaluated: it would show
    it as skipped.
    """
    # The results are logged batch by batch, so Dagster misses those that it expects the op to return.
    context.log.addFilter(lambda record: "did not yield or return expected outputs" not in record.getMessage())
    try:
        yield
    finally:
        try:
            _forget_plans(context.instance, context.run.run_id, context.selected_asset_check_keys)
        except (SQLAlchemyError, *STORAGE_AWAY) as error:
            context.log.warning(f"checks without new messages are shown as skipped: {error}")


def _forget_plans(instance: dg.DagsterInstance, run_id: str, keys: AbstractSet[dg.AssetCheckKey]) -> None:
    """Delete the rows by which Dagster's storage expects the run to evaluate these checks, as far as it has not: the
    latest row of such a check is then that of its last result. One statement, however many checks there are.
    """
    storage, column = instance.event_log_storage, AssetCheckExecutionsTable.c
    if not keys or not isinstance(storage, SqlEventLogStorage):
        return
    planned = AssetCheckExecutionsTable.delete().where(
        column.run_id == run_id,
        column.execution_status == AssetCheckExecutionRecordStatus.PLANNED.value,
        tuple_(column.asset_key, column.check_name).in_([(key.asset_key.to_string(), key.name) for key in keys]),
    )
    with storage.index_connection() as connection:
        connection.execute(planned)


def resident_bytes() -> int:
    """Return the resident memory of this process and its children. Pages that they share count in each."""
    own = psutil.Process()
    found = 0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it may end meanwhile
            found += process.memory_info().rss
    return found
