"""Direct publication, from the driver: each range of a plan becomes a batch of its own, in one transaction of its task.

A batch is what commits together. Here that is a range, so nothing else in the ledger is different: the range has a
batch's row, checks, dead letters, lineage. The plan is pending, and each range leaves it as it commits. The ledger
decides whether it did, not the result of its task. docs/decisions/0033-direct-publication.md has the reasons.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.commit.direct_task import LEFT, Direct, publish_ranges
from platform_defs.engine.job.job import bound, job_errors, range_numbers, run
from platform_defs.engine.plan.topic_view import describe
from platform_defs.engine.run_context import RunContext
from platform_defs.engine.task.task import TaskWork
from platform_defs.errors import TidegateError
from platform_defs.ledger.published import Published
from platform_defs.offsets import PendingBatch, TopicView

_log = logging.getLogger(__name__)


def goes_direct(pipeline: Pipeline, pending: PendingBatch) -> bool:
    """Return True if the ranges of `pending` may be published by their tasks. A person's decision about a batch, or a
    suspected message, concerns the whole batch; and ranges of one partition would have to wait for each other.
    """
    plain = PendingBatch(pending.batch_id, pending.cluster_id, pending.topic_id, pending.ranges)
    partitions = {item.partition for item in pending.ranges}
    return (
        pipeline.contract.publication == "direct"
        and pipeline.transform is None
        and pending == plain
        and len(partitions) == len(pending.ranges)
    )


def publish_directly(pipeline: Pipeline, context: RunContext, pending: PendingBatch) -> Iterator[Published]:
    """Yield a batch for each range of `pending` that was published; the others stay pending.

    Raises the job's failure after these.
    """
    spark = context.spark()
    direct, work = prepare(pipeline, context, pending)
    failure: TidegateError | None = None
    try:
        with context.limit.within(spark, pipeline, pending):
            with job_errors(work):
                publishing = bound(partial(publish_ranges, direct), work)
                job = range_numbers(spark, work, work.ranges).mapInArrow(publishing, LEFT)
            left = run(job, work)
        for number, why in ((int(row["number"]), str(row["why"])) for row in left):
            _log.warning("%s: %s is staged: %s", pipeline.name, pending.ranges[number], why)
    except TidegateError as error:
        failure = error
    published = list[Published]()
    try:
        published = context.ledger.published_directly(direct.area)
    except TidegateError:
        if failure is None:
            raise  # after a failure, the ledger may be unavailable: they are reported later
    # With the topic as it is now. Unless they are the whole plan, the last one is followed by another batch or an
    # error, and the caller must know that.
    view: TopicView | None = None
    with suppress(TidegateError):  # they are published, even if the broker does not answer
        view = describe(context.broker, pending.ranges[0].topic, []) if published else None
    last = published[-1] if len(published) == len(pending.ranges) else None
    for batch in published:
        yield replace(batch, view=view, plan=pending.ranges, followed=batch is not last)
    if failure is not None:
        raise failure


def prepare(pipeline: Pipeline, context: RunContext, pending: PendingBatch) -> tuple[Direct, TaskWork]:
    """Return the inputs of a try's tasks: a staging area for their proofs, and batch ids for the ranges."""
    contract, ledger = pipeline.contract, context.ledger
    staging = ledger.open_staging(pending)
    direct = Direct(ledger.open_direct(pending, staging.staging_id), context.broker, context.lineage)
    cluster, schemas = pending.cluster_id, context.schemas
    return direct, TaskWork(contract, pending.ranges, context.source, staging, cluster_id=cluster, schemas=schemas)
