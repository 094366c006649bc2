"""Ranges of a batch without keeping anything: to show the job, to compare a transform's rows."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import SparkSession

from platform_defs.contract.model.contract import Fault
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.interfaces.gaps import Gaps
from platform_defs.engine.interfaces.source_and_staging import Coverage, Recording, Source
from platform_defs.engine.job.stage import stage_frame
from platform_defs.engine.task.task import TaskWork
from platform_defs.formats.blocks.block import Block
from platform_defs.offsets import OffsetRange


def describe_job(spark: SparkSession, pipeline: Pipeline, source: Source, ranges: Sequence[OffsetRange]) -> str:
    """Return Spark's physical plan of the job over `ranges`, without starting it. Raises BadInput for a transform as a
    batch does.
    """
    frame: Any = stage_frame(spark, pipeline, TaskWork(pipeline.contract, tuple(ranges), source, Nowhere()))
    return str(frame._jdf.queryExecution().executedPlan().toString()).strip()


class Nowhere:
    """A staging area and its recording, which keep nothing."""

    staging_id = 0

    @contextmanager
    def recording(self) -> Generator[Recording]:
        yield self

    @contextmanager
    def transaction(self) -> Generator[None]:
        yield

    def dead_letters(self, partition: int, attempt: UUID, block: Block, faults: Sequence[Fault]) -> None: ...

    def cover(self, coverage: Coverage, gaps: Gaps) -> None: ...

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        raise NotImplementedError("nothing is staged where nothing is kept")
