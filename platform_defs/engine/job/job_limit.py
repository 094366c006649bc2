"""What ends the Spark jobs of a batch before their time: a limit of time, and the end of the run.

Only Spark jobs are ever cancelled. What Postgres is asked has limits of its own (`lock_timeout`, `tcp_user_timeout`),
and a publication that has begun is left to end: cut in COMMIT, its outcome would be unknown.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.job.job import as_ours
from platform_defs.engine.job.transform import transform_file
from platform_defs.errors import BatchTooSlow, RunStopped
from platform_defs.offsets import PendingBatch

GROUP = "spark.jobGroup.id"  # the local property of a thread that Spark finds its jobs by


def _goes_on() -> bool:
    return False


@dataclass(frozen=True)
class JobLimit:
    """`seconds` that the Spark jobs of a batch, or of a try at a part of it, may take in all; and whether the run has
    been `stopped`, which has cancelled every job.
    """

    seconds: float = 900.0
    stopped: Callable[[], bool] = _goes_on

    @contextmanager
    def within(
        self, spark: SparkSession, pipeline: Pipeline, pending: PendingBatch, group: str | None = None
    ) -> Generator[None]:
        """In the block, the Spark jobs of this thread are cancelled once the time is over; those of others are not.
        They are a group, whose name may be given, to `cancel` them before that.

        Whatever the block raises is RunStopped once the run was stopped, and BatchTooSlow once the time was over. A
        Python worker that does not heed the cancelling is killed by Spark (`spark.python.task.killTimeout`).
        """
        group, late, ended = group or f"tidegate {uuid4()}", threading.Event(), threading.Event()
        watch = threading.Thread(target=self._watch, args=(spark, group, late, ended), name=group, daemon=True)
        try:
            if self.stopped():
                raise RunStopped.before(pipeline.name, pending.batch_id)
            _set_group(spark, group, f"{pipeline.name}: batch {pending.batch_id}")
            watch.start()
            yield
        except Exception as error:
            if self.stopped():
                raise RunStopped.before(pipeline.name, pending.batch_id) from error
            if late.is_set():
                raise self._too_slow(pipeline, pending) from error
            raise
        finally:
            ended.set()
            with suppress(Py4JError, OSError):  # where Spark has ended, there is nothing to clear
                spark.sparkContext.setLocalProperty(GROUP, None)  # pyright: ignore[reportArgumentType]  # null clears

    def _watch(self, spark: SparkSession, group: str, late: threading.Event, ended: threading.Event) -> None:
        """Until the block has ended or is late. One that has waited for a core all the time gets as much time again."""
        with suppress(Py4JError, OSError):  # Spark has ended, as the block has noticed by itself
            while not ended.wait(self.seconds):
                if _has_begun(spark, group):
                    late.set()
                    cancel(spark, group)
                    return

    def _too_slow(self, pipeline: Pipeline, pending: PendingBatch) -> BatchTooSlow:
        file = transform_file(pipeline) if pipeline.transform else None
        return BatchTooSlow.after(pipeline.name, pending.batch_id, self.seconds, file)


def _set_group(spark: SparkSession, group: str, what: str) -> None:
    try:
        spark.sparkContext.setJobGroup(group, what, interruptOnCancel=True)
    except (Py4JError, OSError) as error:
        raise as_ours(error, group) from error


def _has_begun(spark: SparkSession, group: str) -> bool:
    """Return True if a task of the group has had a core; also where Spark does not remember, or no job was started at
    all.
    """
    tracker: Any = spark.sparkContext.statusTracker()  # its methods return named tuples of no type
    jobs = [job for number in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(number)) is not None]
    stages = [tracker.getStageInfo(number) for job in jobs for number in job.stageIds]
    return not stages or any(
        stage is None or stage.numActiveTasks + stage.numCompletedTasks + stage.numFailedTasks > 0 for stage in stages
    )


def cancel(spark: SparkSession, group: str) -> None:
    """End the jobs of the group, those included that are yet to begin. Does nothing where Spark has ended."""
    context: Any = spark.sparkContext  # PySpark itself cancels only the jobs that are running at this moment
    with suppress(Py4JError, OSError):
        context._jsc.sc().cancelJobGroupAndFutureJobs(group)
