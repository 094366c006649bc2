"""Steps 2 to 5, from the driver: start the tasks, learn which attempts won, and prove that every range was read."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.interfaces.source_and_staging import Coverage
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.engine.job.job import bound, job_errors, range_numbers, run
from platform_defs.engine.job.transform import transformed
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.task import task
from platform_defs.engine.task.task import TaskWork
from platform_defs.errors import StagingLost
from platform_defs.errors.words import plural
from platform_defs.offsets import OffsetRange, PendingBatch
from platform_defs.spark.own_session import own_session

Results = Sequence[Mapping[str, Any]]  # of a job that stages: attempt, rows, messages of each of its tasks


def stage(
    spark: SparkSession,
    ledger: PostgresLease,
    pipeline: Pipeline,
    pending: PendingBatch,
    work: TaskWork,
    results: Results | None = None,
) -> Staged:
    """Read, decode, check, transform and COPY every range of `pending`, unless a job has done so with these `results`.

    Returns the attempts that won (those whose results arrived) and one complete attempt for each range. Raises
    TransformFailed or RowRefused if a message may be at fault, Retryable if a system is.
    """
    if results is None:
        results = run(stage_frame(spark, pipeline, work), work)
    covered = {item.range for item in ledger.coverage(work.area.staging_id)}
    missing = [item for item in pending.ranges if item not in covered]
    if missing:  # a filter that Spark folded away never pulled its input
        run(range_numbers(spark, work, missing).mapInArrow(bound(task.read_only, work), task.RESULT), work)
    winners = {UUID(row["attempt"]): row["rows"] for row in results if row["rows"]}
    coverage = one_attempt_each(pending.ranges, ledger.coverage(work.area.staging_id))
    staged, decoded = sum(winners.values()), sum(item.rows for item in coverage)
    if pipeline.transform is None and staged != decoded:
        raise StagingLost(
            f"the tasks decoded {plural(decoded, 'row')} but staged {staged}; the batch will be read again"
        )
    registry = work.schemas.registry if work.schemas else ""
    with_rows = None if pipeline.transform is None else sum(row["messages"] for row in results if row["rows"])
    return Staged(
        pending=pending,
        staging_id=work.area.staging_id,
        winners=winners,
        coverage=coverage,
        registry=registry,
        messages_with_rows=with_rows,
    )


def stage_frame(spark: SparkSession, pipeline: Pipeline, work: TaskWork) -> DataFrame:
    """Return the job of a batch, not started: attempt, rows and messages from each of its tasks (`offsets.tasks_for`).
    A transform gets a session of its own each time: its rows depend neither on another pipeline's transform nor on an
    earlier batch.

    Raises SparkAway if Spark ends meanwhile: another pipeline's batch may have caused that.
    """
    with job_errors(work):
        if pipeline.transform is None:
            return range_numbers(spark, work, work.ranges).mapInArrow(bound(task.read_and_stage, work), task.RESULT)
        with own_session(spark) as session:
            rows = transformed(range_numbers(session, work, work.ranges), pipeline, work)
            return rows.mapInArrow(bound(task.stage_rows, work), task.RESULT)


def one_attempt_each(ranges: Sequence[OffsetRange], found: Sequence[Coverage]) -> tuple[Coverage, ...]:
    """Return one complete attempt for each range. Raises StagingLost if one is missing, or if two saw different
    messages.
    """
    chosen: dict[OffsetRange, Coverage] = {}
    for item in found:
        first = chosen.setdefault(item.range, item)
        if first.outcome != item.outcome:
            raise StagingLost(
                f"two complete attempts at {item.range} disagree: {first.outcome} and {item.outcome}; the batch will "
                "be read again"
            )
    if missing := [item for item in ranges if item not in chosen]:
        raise StagingLost(f"no task read {missing[0]} to its end; the batch will be read again")
    return tuple(chosen[item] for item in ranges)
