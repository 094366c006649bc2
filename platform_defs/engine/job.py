"""A Spark job over a batch's ranges: its rows, how it is run, and what a failure in a task becomes on the driver."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from platform_defs import errors
from platform_defs.engine.task import TaskWork
from platform_defs.errors import BadInput, TidegateError, TransformFailed
from platform_defs.offsets import OffsetRange, tasks_for

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def range_numbers(spark: SparkSession, work: TaskWork, ranges: Sequence[OffsetRange]) -> DataFrame:
    """One row for each range: its number in `work.ranges`."""
    numbers = [work.ranges.index(item) for item in ranges]
    tasks = tasks_for(ranges)
    if numbers == list(range(len(work.ranges))):
        return spark.range(0, len(numbers), 1, tasks)
    return spark.createDataFrame([(n,) for n in numbers], "id bigint").repartition(tasks, "id")


def bound(
    function: Callable[[TaskWork, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], work: TaskWork
) -> Batches:
    return partial(function, work)


def run(frame: DataFrame) -> list[dict[str, Any]]:
    """Run a job and collect its few rows. What a task raised comes back as the type that it was raised as."""
    try:
        return [row.asDict() for row in frame.collect()]
    except PySparkException as error:
        raise as_raised(error) from error


# At the beginning of a line, where a traceback has it: a message's text may be quoted anywhere else.
_RAISED = re.compile(rf"^{re.escape(errors.__name__)}\.(\w+): (.*)", re.MULTILINE)


def as_raised(error: PySparkException) -> TidegateError:
    """The error of ours that a task raised, found in Spark's text; anything else is blamed on the transform."""
    text = str(error)
    for name, message in reversed(_RAISED.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, errors.Retryable | BadInput):
            return kind(message)
    return TransformFailed(_cause(text))


def _cause(text: str) -> str:
    """The line of a Spark failure that a person wants to read."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"(\S+(Error|Exception)\b.*|\[[A-Z_.]+\].*)", line)]
    return (telling or lines or ["unknown"])[-1 if telling and "Traceback" in text else 0][:1000]
