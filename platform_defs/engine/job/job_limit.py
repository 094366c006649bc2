"""Ends the Spark jobs of a batch early: a time limit, the end of the run, and brokers that are unavailable. Each try of
a task waits for them for half a minute, and Spark tries each of the tasks four times, one pipeline after the other.

Only Spark jobs are ever cancelled. Postgres statements have limits of their own (`lock_timeout`, `tcp_user_timeout`),
and a publication that has begun is left to end: cut in COMMIT, its outcome would be unknown.
"""

import threading
import time
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
from platform_defs.errors import BatchTooSlow, BrokerAway, RunStopped
from platform_defs.offsets import PendingBatch

GROUP = "spark.jobGroup.id"  # the local property of a thread that Spark finds its jobs by


# Without this, each task would wait 30 s for the brokers, four times, before its job fails.
POLL_SECONDS = 5.0  # between two queries to the brokers, while a job is running


@dataclass(frozen=True)
class JobLimit:
    """A time limit in `seconds` for the Spark jobs of a batch, or of a try at a part of it, in all; whether the run was
    `stopped`, which cancels every job; and `poll_brokers`, which makes for each job a function that returns the error
    of brokers that do not answer: this cancels the job after `patience` seconds.
    """

    seconds: float = 900.0
    stopped: Callable[[], bool] = lambda: False
    poll_brokers: Callable[[], Callable[[], BrokerAway | None]] = lambda: lambda: None
    patience: float = 30.0

    @contextmanager
    def within(
        self, spark: SparkSession, pipeline: Pipeline, pending: PendingBatch, group: str | None = None
    ) -> Generator[None]:
        """Cancel the Spark jobs that this thread starts in the block once the time is over. They form a `group`, which
        can be cancelled before that (`cancel`).

        Any error in the block becomes RunStopped if the run was stopped, BatchTooSlow if the time was over, and
        BrokerAway if no broker answered. Spark kills a Python worker that ignores the cancellation
        (`spark.python.task.killTimeout`).
        """
        group, late, ended = group or f"tidegate {uuid4()}", threading.Event(), threading.Event()
        unavailable = list[BrokerAway]()
        watches = [
            threading.Thread(target=self._watch, args=(spark, group, late, ended), name=group, daemon=True),
            threading.Thread(
                target=self._watch_brokers, args=(spark, group, unavailable, ended), name=group, daemon=True
            ),
        ]
        try:
            if self.stopped():
                raise _stopped(pipeline, pending)
            try:
                spark.sparkContext.setJobGroup(
                    group, f"{pipeline.name}: batch {pending.batch_id}", interruptOnCancel=True
                )
            except (Py4JError, OSError) as error:
                raise as_ours(error, group) from error
            for watch in watches:
                watch.start()
            yield
        except Exception as error:
            if self.stopped():
                raise _stopped(pipeline, pending) from error
            if late.is_set():
                raise self._too_slow(pipeline, pending) from error
            if unavailable:
                raise unavailable[0] from error
            raise
        finally:
            ended.set()
            with suppress(Py4JError, OSError):  # if Spark has ended, there is nothing to clear
                spark.sparkContext.setLocalProperty(GROUP, None)  # pyright: ignore[reportArgumentType]  # null clears

    def _watch(self, spark: SparkSession, group: str, late: threading.Event, ended: threading.Event) -> None:
        """Wait until the block has ended or is late. A block that has waited for a core all the time gets as much time
        again.
        """
        with suppress(Py4JError, OSError):  # Spark has ended, as the block has noticed by itself
            while not ended.wait(self.seconds):
                if _has_begun(spark, group):
                    late.set()
                    cancel(spark, group)
                    return

    def _watch_brokers(
        self, spark: SparkSession, group: str, unavailable: list[BrokerAway], ended: threading.Event
    ) -> None:
        """Wait until the block has ended, or no broker has answered for `patience` seconds."""
        answered, unreachable = time.monotonic(), self.poll_brokers()
        while not ended.wait(min(POLL_SECONDS, self.patience)):
            error = unreachable()
            if error is None:
                answered = time.monotonic()
            elif time.monotonic() - answered > self.patience:
                unavailable.append(error)
                cancel(spark, group)
                return

    def _too_slow(self, pipeline: Pipeline, pending: PendingBatch) -> BatchTooSlow:
        hangs = ""
        if pipeline.transform:
            file = transform_file(pipeline)
            hangs = (
                f"The transform ({file}), or a service that it calls, may never return: set a timeout on every call. "
            )
        return BatchTooSlow(
            f"the Spark job of batch {pending.batch_id} of {pipeline.name} was still running after {self.seconds:g} "
            f"seconds and was cancelled; nothing was published. {hangs}If the batch is only slow, raise "
            "TIDEGATE_BATCH_TIMEOUT_SECONDS; a lower batchMessages in the contract makes later batches smaller"
        )


def _stopped(pipeline: Pipeline, pending: PendingBatch) -> RunStopped:
    return RunStopped(
        f"the run was stopped before batch {pending.batch_id} of {pipeline.name} was published. Nothing from it was "
        "written; the next run reads it again"
    )


def _has_begun(spark: SparkSession, group: str) -> bool:
    """Return True if a task of the group has had a core, if Spark does not remember, or if no job was started."""
    tracker: Any = spark.sparkContext.statusTracker()  # its methods return named tuples of no type
    jobs = [job for number in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(number)) is not None]
    stages = [tracker.getStageInfo(number) for job in jobs for number in job.stageIds]
    return not stages or any(
        stage is None or stage.numActiveTasks + stage.numCompletedTasks + stage.numFailedTasks > 0 for stage in stages
    )


def cancel(spark: SparkSession, group: str) -> None:
    """End the jobs of the group, including those that are yet to begin. Does nothing if Spark has ended."""
    context: Any = spark.sparkContext  # PySpark itself cancels only the jobs that are running at this moment
    with suppress(Py4JError, OSError):
        context._jsc.sc().cancelJobGroupAndFutureJobs(group)
