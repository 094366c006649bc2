"""Steps 2 to 5, from the driver: start the tasks, learn who won, and have proof that every range was read."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from platform_defs import errors
from platform_defs.contract.own_columns import PROVENANCE
from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine import task
from platform_defs.engine.ports import Coverage, PipelineHold, Staged
from platform_defs.engine.row_local import check_columns, check_row_local
from platform_defs.engine.task import TaskWork
from platform_defs.errors import BadInput, StagingLost, TidegateError, TransformFailed
from platform_defs.offsets import OffsetRange, PendingBatch

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def stage(
    spark: SparkSession, ledger: PipelineHold, pipeline: Pipeline, pending: PendingBatch, work: TaskWork
) -> Staged:
    """Read, decode, check, transform and COPY every range of `pending`.

    Returns the attempts that won (those whose results arrived) and one complete attempt for each range. Raises
    TransformFailed where only a message can be at fault, Retryable where a system is.
    """
    results = run(stage_frame(spark, pipeline, work))
    missing = _uncovered(pending.ranges, ledger.coverage(work.area.staging_id))
    if missing:  # a filter that Spark folded away never pulled its input
        run(range_numbers(spark, work, missing).mapInArrow(bound(task.read_only, work), task.RESULT))
    winners = {UUID(row["attempt"]): row["rows"] for row in results if row["rows"]}
    coverage = one_attempt_each(pending.ranges, ledger.coverage(work.area.staging_id))
    if pipeline.transform is None and sum(winners.values()) != sum(item.rows for item in coverage):
        raise StagingLost(
            f"{sum(winners.values())} rows were staged of {sum(item.rows for item in coverage)} decoded ones"
        )
    return Staged(pending, work.area.staging_id, winners, coverage)


def stage_frame(spark: SparkSession, pipeline: Pipeline, work: TaskWork) -> DataFrame:
    """The job of a batch, not started: one task a range, (attempt, rows) out of each."""
    numbers = range_numbers(spark, work, work.ranges)
    if pipeline.transform is None:
        return numbers.mapInArrow(bound(task.read_and_stage, work), task.RESULT)
    return transformed(numbers, pipeline, work).mapInArrow(bound(task.stage_rows, work), task.RESULT)


def transformed(numbers: DataFrame, pipeline: Pipeline, work: TaskWork) -> DataFrame:
    """The pipeline's own transform over the decoded messages. Raises BadInput unless row-local and of the right
    columns.
    """
    where = transform_file(pipeline)
    if work.keyed:
        raise BadInput(
            "an upsert table has no transform: each row is one message under its key, and a transform could drop "
            "the one that deletes it. Write the messages as they are, and make a downstream asset of them",
            file=where,
        )
    decoded = numbers.mapInArrow(bound(_read_ranges, work), spark_ddl(work.decoded_schema))
    result = _described(pipeline, decoded, where)
    check_row_local(decoded, result, where=where)
    staged = [name for name in work.staged_schema.names if name != "_attempt"]
    wanted = {c.name: c.type.spark for c in pipeline.contract.row_table.columns}
    wanted |= {name: kind.spark for name, kind in PROVENANCE}
    check_columns(result, wanted, where=where)
    return result.select(*staged)


def transform_file(pipeline: Pipeline) -> str:
    """The file of the pipeline's transform, for messages."""
    path = pipeline.contract.path
    return str(path.with_name(path.name.removesuffix(".odcs.yaml") + ".py")) if path else f"{pipeline.name}.py"


DESCRIBING = (  # a local property of Spark's jobs: set while the transform only says what is to be done
    "tidegate.describing"
)


def _described(pipeline: Pipeline, decoded: DataFrame, where: str) -> DataFrame:
    """What the transform makes of `decoded`. Raises BadInput for whatever it raises, and for an action on the
    messages.
    """
    assert pipeline.transform is not None  # noqa: S101  # the callers ask
    context = decoded.sparkSession.sparkContext
    context.setLocalProperty(DESCRIBING, "true")
    try:
        result = pipeline.transform(decoded)
    except Exception as error:  # a user's code may raise anything
        ours = _as_raised(error) if isinstance(error, PySparkException) else None
        said = str(error).partition("\n")[0]
        raise BadInput(
            str(ours) if isinstance(ours, BadInput) else f"the transform raises {type(error).__name__}: {said}",
            file=where,
        ) from error
    finally:
        context.setLocalProperty(DESCRIBING, None)  # pyright: ignore[reportArgumentType]  # null takes it away
    if not isinstance(result, DataFrame):  # pyright: ignore[reportUnnecessaryIsInstance]  # of a user's function
        raise BadInput(f"the transform returns {type(result).__name__}; it must return a DataFrame", file=where)
    return result


def _read_ranges(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The source of a transform, in a task."""
    if (running := TaskContext.get()) and running.getLocalProperty(DESCRIBING):
        raise BadInput(
            "it runs an action on the messages (count, collect, show, first or the like); a transform only says what "
            "is done with each message"
        )
    yield from task.read_ranges(work, numbers)


def run(frame: DataFrame) -> list[dict[str, Any]]:
    """Run a job and collect its few rows. What a task raised comes back as the type that it was raised as."""
    try:
        return [row.asDict() for row in frame.collect()]
    except PySparkException as error:
        raise _as_raised(error) from error


def one_attempt_each(ranges: Sequence[OffsetRange], found: Sequence[Coverage]) -> tuple[Coverage, ...]:
    """One complete attempt for each range. Raises StagingLost when one is missing or two disagree in what they saw."""
    chosen: dict[tuple[int, int, int], Coverage] = {}
    for item in found:
        first = chosen.setdefault(_place(item.range), item)
        if first.outcome != item.outcome:
            raise StagingLost(f"two complete attempts at {item.range} disagree: {first.outcome} and {item.outcome}")
    if missing := _uncovered(ranges, found):
        raise StagingLost(f"no task read {missing[0]} to its end; the batch is read again")
    return tuple(chosen[_place(item)] for item in ranges)


def range_numbers(spark: SparkSession, work: TaskWork, ranges: Sequence[OffsetRange]) -> DataFrame:
    """One row and one Spark partition for each range: its number in `work.ranges`."""
    numbers = [work.ranges.index(item) for item in ranges]
    if numbers == list(range(len(work.ranges))):
        return spark.range(0, len(numbers), 1, len(numbers))
    return spark.createDataFrame([(n,) for n in numbers], "id bigint").repartition(len(numbers), "id")


def bound(
    function: Callable[[TaskWork, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], work: TaskWork
) -> Batches:
    return partial(function, work)


def spark_ddl(schema: pa.Schema) -> str:
    """`schema` as Spark's DDL."""
    return ", ".join(f"`{name}` {_spark_type(kind)}" for name, kind in zip(schema.names, schema.types, strict=True))


def _spark_type(kind: pa.DataType) -> str:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind).simpleString()


def _place(item: OffsetRange) -> tuple[int, int, int]:
    return item.partition, item.from_offset, item.until_offset


def _uncovered(ranges: Sequence[OffsetRange], found: Sequence[Coverage]) -> list[OffsetRange]:
    covered = {_place(item.range) for item in found}
    return [item for item in ranges if _place(item) not in covered]


# At the beginning of a line, where a traceback has it: a message's text may be quoted anywhere else.
_RAISED = re.compile(rf"^{re.escape(errors.__name__)}\.(\w+): (.*)", re.MULTILINE)


def _as_raised(error: PySparkException) -> TidegateError:
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
