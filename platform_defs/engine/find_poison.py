"""Ranges of a batch without keeping anything: to find the message on which a transform fails, to measure reading, to
show the job."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import SparkSession

from platform_defs.contract.model import Contract, Fault
from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine import task
from platform_defs.engine.job import bound, range_numbers, run
from platform_defs.engine.ports import Coverage, Recorder, Source
from platform_defs.engine.stage import stage_frame
from platform_defs.engine.task import TaskWork
from platform_defs.engine.transform import transform_file, transformed
from platform_defs.errors import NotReproduced, TransformBroken, TransformFailed
from platform_defs.formats.block import Block
from platform_defs.offsets import OffsetRange, nth_offset

REFUSALS = 20  # messages that the transform or the table may refuse in one batch, each of which costs a bisection
SAMPLE = 5  # messages: if the transform fails on all of these, it is not single messages


def find_poison(
    spark: SparkSession, pipeline: Pipeline, work: TaskWork, ranges: Sequence[OffsetRange]
) -> tuple[OffsetRange, str]:
    """The range of one offset on which the transform fails, and why. Bisects by running the transform and keeping
    nothing.

    Raises NotReproduced when, tried alone, no part fails: then it was not the message. Raises TransformBroken when it
    fails on every message of a sample: to find them one by one would take too long.
    """
    if why := _fails_everywhere(spark, pipeline, work, ranges):
        raise TransformBroken.on_sample(SAMPLE, why, transform_file(pipeline))
    for item in ranges:
        why = _fails(spark, pipeline, work, item)
        if why and len(item) > 1:
            item = _bisect(spark, pipeline, work, item)
            why = _fails(spark, pipeline, work, item)
        if why:
            return item, why
    raise NotReproduced.in_transform()


def _bisect(spark: SparkSession, pipeline: Pipeline, work: TaskWork, item: OffsetRange) -> OffsetRange:
    """The range of one offset to which halving `item`, which fails, leads. Where the first half passes, it is the
    second.
    """
    while len(item) > 1:
        middle = item.from_offset + len(item) // 2
        low = OffsetRange(item.topic, item.partition, item.from_offset, middle)
        high = OffsetRange(item.topic, item.partition, middle, item.until_offset)
        item = low if _fails(spark, pipeline, work, low) else high
    return item


def _fails_everywhere(
    spark: SparkSession, pipeline: Pipeline, work: TaskWork, ranges: Sequence[OffsetRange]
) -> str | None:
    """Why the transform fails on every message of a sample, or None where one passes. A small batch is not sampled."""
    total, why = sum(map(len, ranges)), None
    if total <= REFUSALS:
        return None
    for number in range(SAMPLE):
        why = _fails(spark, pipeline, work, nth_offset(ranges, (total - 1) * number // (SAMPLE - 1)))
        if why is None:
            return None
    return why


def _fails(spark: SparkSession, pipeline: Pipeline, work: TaskWork, item: OffsetRange) -> str | None:
    """Why the transform fails over `item`, or None."""
    alone = replace(work, ranges=(item,), area=_Nowhere())
    try:
        run(transformed(range_numbers(spark, alone, alone.ranges), pipeline, alone).mapInArrow(_discard, task.RESULT))
    except TransformFailed as error:
        return str(error)
    return None


def _discard(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield from ()


def read_alone(spark: SparkSession, contract: Contract, source: Source, ranges: Sequence[OffsetRange]) -> int:
    """Read, decode and check `ranges` and keep nothing: how many messages became rows. For `make bench`."""
    work = TaskWork(contract, tuple(ranges), source, _Nowhere())
    counted = range_numbers(spark, work, work.ranges).mapInArrow(bound(_count_rows, work), "rows bigint")
    return sum(row["rows"] for row in run(counted))


def describe_job(spark: SparkSession, pipeline: Pipeline, source: Source, ranges: Sequence[OffsetRange]) -> str:
    """Spark's physical plan of the job over `ranges`, which is not started. Raises BadInput for a transform as a batch
    does.
    """
    frame: Any = stage_frame(spark, pipeline, TaskWork(pipeline.contract, tuple(ranges), source, _Nowhere()))
    return str(frame._jdf.queryExecution().executedPlan().toString()).strip()


def _count_rows(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in task.read_ranges(work, numbers))
    yield pa.record_batch([pa.array([rows], pa.int64())], names=["rows"])


class _Nowhere:
    """A staging area, and its recorder, that keep nothing."""

    staging_id = 0

    @contextmanager
    def recorder(
        self,
        partition: int,  # noqa: ARG002  # the port's
        attempt: UUID,  # noqa: ARG002  # the port's
    ) -> Generator[Recorder]:
        yield self

    def dead_letters(self, block: Block, faults: Sequence[Fault]) -> None: ...

    def cover(self, coverage: Coverage) -> None: ...

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        raise NotImplementedError("nothing is staged while a transform is tried alone")
