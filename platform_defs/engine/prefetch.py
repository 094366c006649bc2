"""The next batch, staged while this one is audited and published: Spark's tasks use the cores that Postgres leaves.

It is speculative. The ledger knows one pending batch, as without it, and of the speculative batch only a try in
staging. Once the batch before has committed, the next one is planned from the ledger. If the plan equals the
speculative batch, the try becomes the batch's first one; otherwise it is deleted. docs/decisions/0034-staged-ahead.md
has the reasons.

A thread waits for the Spark job, and does nothing else: the publishing transaction may be open on the run's session, so
only the run itself queries Postgres.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.job.job import run
from platform_defs.engine.job.job_limit import cancel
from platform_defs.engine.job.stage import Results, stage_frame
from platform_defs.engine.plan.planning import BatchPlan, decide, is_full
from platform_defs.engine.run_context import RunContext
from platform_defs.engine.task.task import TaskWork
from platform_defs.errors import TidegateError
from platform_defs.offsets import OffsetRange, PendingBatch, Position, TopicView

MIN_SHARE = 2  # prefetch pays from this part of a full batch on: a slow topic is not cut into more batches

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpeculativeBatch:
    """A batch that will be the next one if nothing comes in between. It has an id, but is not in the ledger.

    `positions`: all of the pipeline's, as the batch before will leave them.
    """

    batch: PendingBatch
    positions: tuple[Position, ...]

    def is_next(self, plan: BatchPlan) -> bool:
        """Return True if `plan`, made from the ledger and the broker as they are now, may read exactly this batch."""
        log = self.batch.cluster_id, self.batch.topic_id
        return (
            plan.pending is None
            and plan.halt is None
            and not plan.added
            and plan.positions == self.positions
            and log == (plan.view.cluster_id, plan.view.topic_id)
            and all(_is_led_as_before(item, plan.view) for item in self.batch.ranges)
        )


def _is_led_as_before(item: OffsetRange, view: TopicView) -> bool:
    """Return True if the leader at the time of planning still leads, and its log still reaches the end of the range."""
    held = view.partitions[item.partition]
    return held.leader_epoch == item.end_epoch and held.end >= item.until_offset


def may_leave_more(contract: Contract, batch: PendingBatch) -> bool:
    """Return True if a batch may follow this one and can be prefetched. The next part of a split batch is known."""
    full = is_full(batch.ranges, contract.limits.batch_messages)
    return full and batch.rest is None and contract.publication != "direct"


def plan_after(
    contract: Contract, before: PendingBatch, positions: Sequence[Position], view: TopicView
) -> BatchPlan | None:
    """Return what to read after `before` has committed, given the current `positions`; None if that is not worth a
    prefetch, or not plain. Raises what `decide` raises.
    """
    plan = decide(contract, left_by(before, positions), None, view)
    plain = plan.halt is None and not plan.added and plan.ranges
    return plan if plain and plan.offsets * MIN_SHARE >= contract.limits.batch_messages else None


def left_by(batch: PendingBatch, positions: Sequence[Position]) -> list[Position]:
    """Return `positions` as `batch` leaves them when it commits (`move_positions` in
    engine/pipelines.sql).
    """
    ends = {item.partition: item for item in sorted(batch.ranges)}
    return [_moved(at, ends[at.partition]) if at.partition in ends else at for at in positions]


def _moved(at: Position, end: OffsetRange) -> Position:
    seen_end = max(at.seen_end or 0, end.until_offset)
    return replace(at, next_offset=end.until_offset, leader_epoch=end.end_epoch, seen_end=seen_end)


@dataclass(frozen=True)
class Begun:
    """A speculative batch that is being staged, or that has been."""

    speculative: SpeculativeBatch
    work: TaskWork
    spark: SparkSession
    group: str  # of its Spark job
    job: Future[Results]


class Prefetch:
    """At most one speculative batch. A context manager: it leaves nothing behind, however the run ends.

    `goes_on`: returns True if the run will take another batch after the current one.
    """

    def __init__(self, pipeline: Pipeline, context: RunContext, goes_on: Callable[[], bool] = lambda: False) -> None:
        self._pipeline, self._context, self._goes_on = pipeline, context, goes_on
        self._begun: Begun | None = None
        self._hand = ThreadPoolExecutor(1, f"ahead of {pipeline.name}")
        self._failed = False

    def __enter__(self) -> "Prefetch":
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()
        self._hand.shutdown()

    @property
    def speculative(self) -> SpeculativeBatch | None:
        return self._begun.speculative if self._begun else None

    @property
    def staging_id(self) -> int | None:
        """The try that no sweep may take."""
        return self._begun.work.area.staging_id if self._begun else None

    def begin(self, before: PendingBatch) -> None:
        """Stage the batch after `before`, if it is worth it. `before` is staged: it starts no Spark job any more, or
        `drop` is called first. Raises nothing: the batch meets any error when it is planned.
        """
        if self._failed or not self._goes_on():
            return
        try:
            self._begun = self._start(before)
        except Exception as error:  # noqa: BLE001  # of whatever kind: `before` must not fail for it
            self._give_up(error)

    def _start(self, before: PendingBatch) -> Begun | None:
        contract, ledger = self._pipeline.contract, self._context.ledger
        if not may_leave_more(contract, before):
            return None
        if ledger.has_failed():  # for want of memory, perhaps, which suffices for one batch and not for two at once
            self._failed = True
            return None
        view = self._context.broker.describe(contract.topic)
        plan = plan_after(contract, before, ledger.positions(), view)
        if plan is None:
            return None
        batch = PendingBatch(ledger.new_batch_id(), view.cluster_id, view.topic_id, plan.ranges)
        return self._stage(SpeculativeBatch(batch, plan.positions))

    def _stage(self, speculative: SpeculativeBatch) -> Begun:
        """Stage it. The transform is called in this thread: it may not be thread-safe."""
        context, batch = self._context, speculative.batch
        area, cluster = context.ledger.open_staging(batch), batch.cluster_id
        work = TaskWork(
            self._pipeline.contract, batch.ranges, context.source, area, cluster_id=cluster, schemas=context.schemas
        )
        spark, group = context.spark(), f"tidegate {uuid4()}"
        with context.limit.within(spark, self._pipeline, batch):  # a transform may start jobs: the batch before waits
            frame = stage_frame(spark, self._pipeline, work)
        return Begun(speculative, work, spark, group, self._hand.submit(self._run, spark, group, frame, work, batch))

    def _run(self, spark: SparkSession, group: str, frame: DataFrame, work: TaskWork, batch: PendingBatch) -> Results:
        with self._context.limit.within(spark, self._pipeline, batch, group):
            return run(frame, work)

    def take(self, batch: PendingBatch) -> tuple[TaskWork, Results] | None:
        """Wait for and return the first try at `batch`, if it is the speculative one. None if it is to be staged: then
        the speculative batch is deleted, and `batch` will meet any error it had.
        """
        begun = self._begun
        if begun is None or begun.speculative.batch.batch_id != batch.batch_id:
            self.drop()
            return None
        try:
            results = begun.job.result()
        except Exception as error:  # noqa: BLE001  # of whatever kind: the batch is staged once more, and meets it
            self._give_up(error)
            return None
        self._begun = None
        _log.info(
            "%s: batch %s was staged while the previous one was being published", self._pipeline.name, batch.batch_id
        )
        return begun.work, results

    def drop(self) -> None:
        """Delete the speculative batch, if there is one: cancel its Spark job and delete what it staged. If Postgres is
        away, or a task is still writing, the next sweep does so.
        """
        begun, self._begun = self._begun, None
        if begun is None:
            return
        if not begun.job.done():
            cancel(begun.spark, begun.group)
        wait([begun.job])
        with suppress(TidegateError):
            self._context.ledger.discard(begun.work.area.staging_id)

    def _give_up(self, error: Exception) -> None:
        """Prefetch no more in this run: batches that cannot be staged are not staged twice."""
        _log.info("%s: prefetching stopped: %s", self._pipeline.name, type(error).__name__)
        self._failed = True
        self.drop()
