"""Ranges of a batch without keeping anything: to measure reading, to show the job."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import SparkSession

from platform_defs.contract.model.contract import Contract, Fault
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.job.job import bound, range_numbers, run
from platform_defs.engine.job.stage import stage_frame
from platform_defs.engine.ports.gaps import Gaps
from platform_defs.engine.ports.task_ports import Coverage, Recorder, Recording, Source
from platform_defs.engine.task import task
from platform_defs.engine.task.task import TaskWork
from platform_defs.formats.blocks.block import Block
from platform_defs.offsets import OffsetRange


def read_alone(spark: SparkSession, contract: Contract, source: Source, ranges: Sequence[OffsetRange]) -> int:
    """Read, decode and check `ranges` and keep nothing. Return how many messages became rows. For `make bench`."""
    work = TaskWork(contract, tuple(ranges), source, Nowhere())
    counted = range_numbers(spark, work, work.ranges).mapInArrow(bound(_count_rows, work), "rows bigint")
    return sum(row["rows"] for row in run(counted, work))


def describe_job(spark: SparkSession, pipeline: Pipeline, source: Source, ranges: Sequence[OffsetRange]) -> str:
    """Return Spark's physical plan of the job over `ranges`, without starting it. Raises BadInput for a transform as a
    batch does.
    """
    frame: Any = stage_frame(spark, pipeline, TaskWork(pipeline.contract, tuple(ranges), source, Nowhere()))
    return str(frame._jdf.queryExecution().executedPlan().toString()).strip()


def _count_rows(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in task.read_ranges(work, numbers))
    yield pa.record_batch([pa.array([rows], pa.int64())], names=["rows"])


class Nowhere:
    """A staging area, its recording and its recorder, that keep nothing."""

    staging_id = 0

    @contextmanager
    def recording(self) -> Generator[Recording]:
        yield self

    @contextmanager
    def recorder(
        self,
        partition: int,  # noqa: ARG002  # the port's
        attempt: UUID,  # noqa: ARG002  # the port's
    ) -> Generator[Recorder]:
        yield self

    def dead_letters(self, block: Block, faults: Sequence[Fault]) -> None: ...

    def cover(self, coverage: Coverage, gaps: Gaps) -> None: ...

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        raise NotImplementedError("nothing is staged where nothing is kept")
