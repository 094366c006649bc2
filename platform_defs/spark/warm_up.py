"""The smallest job that makes Spark ready for a batch. Workers import this file, so it imports next to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


def warm_up(spark: SparkSession) -> None:
    """Start a Python worker for each core, and have the JVM load the code that exchanges Arrow with Python."""
    tasks = spark.sparkContext.defaultParallelism
    spark.range(0, tasks, 1, tasks).mapInArrow(as_they_are, "id bigint").collect()


def as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield every row unchanged, for mapInArrow."""
    yield from batches
