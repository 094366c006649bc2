"""Steps 2 to 5, from the driver: start the tasks, learn who won, and have proof that every range was read."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from platform_defs.engine import errors, task
from platform_defs.engine.contract import Contract, Fault
from platform_defs.engine.errors import BadInput, StagingLost, TidegateError, TransformFailed
from platform_defs.engine.offsets import OffsetRange, PendingBatch
from platform_defs.engine.ports import Block, Coverage, Ledger, Pipeline, Recorder, Source, Staged
from platform_defs.engine.row_local import check_columns, check_row_local
from platform_defs.engine.task import TaskWork

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


REFUSALS = 20  # messages that the transform or the table may refuse in one batch, each of which costs a bisection
SAMPLE = 5  # messages: if the transform fails on all of these, it is not single messages


def stage(spark: SparkSession, ledger: Ledger, pipeline: Pipeline, pending: PendingBatch, work: TaskWork) -> Staged:
    """Read, decode, check, transform and COPY every range of `pending`.

    Returns the attempts that won (those whose results arrived) and one complete attempt for each range. Raises
    TransformFailed where only a message can be at fault, Retryable where a system is.
    """
    results = run(stage_frame(spark, pipeline, work))
    missing = _uncovered(pending.ranges, ledger.coverage(work.area.staging_id))
    if missing:  # a filter that Spark folded away never pulled its input
        run(_numbers(spark, work, missing).mapInArrow(_bound(task.read_only, work), task.RESULT))
    winners = {UUID(row["attempt"]): row["rows"] for row in results if row["rows"]}
    coverage = one_attempt_each(pending.ranges, ledger.coverage(work.area.staging_id))
    if pipeline.transform is None and sum(winners.values()) != sum(item.rows for item in coverage):
        raise StagingLost(
            f"{sum(winners.values())} rows were staged of {sum(item.rows for item in coverage)} decoded ones"
        )
    return Staged(pending, work.area.staging_id, winners, coverage)


def stage_frame(spark: SparkSession, pipeline: Pipeline, work: TaskWork) -> DataFrame:
    """The job of a batch, not started: one task a range, (attempt, rows) out of each."""
    numbers = _numbers(spark, work, work.ranges)
    if pipeline.transform is None:
        return numbers.mapInArrow(_bound(task.read_and_stage, work), task.RESULT)
    return transformed(numbers, pipeline, work).mapInArrow(_bound(task.stage_rows, work), task.RESULT)


def transformed(numbers: DataFrame, pipeline: Pipeline, work: TaskWork) -> DataFrame:
    """The pipeline's own transform over the decoded messages. Raises BadInput unless row-local and of the right columns."""
    where = _where(pipeline)
    if work.keyed:
        raise BadInput("an upsert table has no transform: each row is one message under its key, and a transform could drop "
                       "the one that deletes it. Write the messages as they are, and make a downstream asset of them",
                       file=where)  # fmt: skip
    decoded = numbers.mapInArrow(_bound(_read_ranges, work), spark_ddl(work.decoded_schema))
    result = _described(pipeline, decoded, where)
    check_row_local(decoded, result, where=where)
    staged = [name for name in work.staged_schema.names if name != "_attempt"]
    wanted = {c.name: c.type.spark for c in pipeline.contract.row_table.columns}
    wanted |= {name: kind.spark for name, kind in task.PROVENANCE}
    check_columns(result, wanted, where=where)
    return result.select(*staged)


def _where(pipeline: Pipeline) -> str:
    """The file of the pipeline's transform, for messages."""
    return str(pipeline.contract.path.parent if pipeline.contract.path else pipeline.name) + "/transform.py"


DESCRIBING = (
    "tidegate.describing"  # a local property of Spark's jobs: set while the transform only says what is to be done
)


def _described(pipeline: Pipeline, decoded: DataFrame, where: str) -> DataFrame:
    """What the transform makes of `decoded`. Raises BadInput for whatever it raises, and for an action on the messages."""
    assert pipeline.transform is not None  # noqa: S101  # the callers ask
    context = decoded.sparkSession.sparkContext
    context.setLocalProperty(DESCRIBING, "true")
    try:
        result = pipeline.transform(decoded)
    except Exception as error:  # a user's code may raise anything
        ours = _as_raised(error) if isinstance(error, PySparkException) else None
        said = str(error).partition("\n")[0]
        raise BadInput(str(ours) if isinstance(ours, BadInput) else f"the transform raises {type(error).__name__}: {said}",
                       file=where) from error  # fmt: skip
    finally:
        context.setLocalProperty(DESCRIBING, None)  # pyright: ignore[reportArgumentType]  # null takes it away
    if not isinstance(result, DataFrame):
        raise BadInput(f"the transform returns {type(result).__name__}; it must return a DataFrame", file=where)
    return result


def _read_ranges(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The source of a transform, in a task."""
    if (running := TaskContext.get()) and running.getLocalProperty(DESCRIBING):
        raise BadInput("it runs an action on the messages (count, collect, show, first or the like); a transform only says what "
                       "is done with each message")  # fmt: skip
    yield from task.read_ranges(work, numbers)


def read_alone(spark: SparkSession, contract: Contract, source: Source, ranges: Sequence[OffsetRange]) -> int:
    """Read, decode and check `ranges` and keep nothing: how many messages became rows. For `make bench`."""
    work = TaskWork(contract, tuple(ranges), source, _Nowhere())
    counted = _numbers(spark, work, work.ranges).mapInArrow(_bound(_count_rows, work), "rows bigint")
    return sum(row["rows"] for row in run(counted))


def _count_rows(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in task.read_ranges(work, numbers))
    yield pa.record_batch([pa.array([rows], pa.int64())], names=["rows"])


def run(frame: DataFrame) -> list[dict]:
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


def find_poison(
    spark: SparkSession, pipeline: Pipeline, work: TaskWork, ranges: Sequence[OffsetRange]
) -> tuple[OffsetRange, str]:
    """The range of one offset on which the transform fails, and why. Bisects by running the transform and keeping nothing.

    Raises Retryable when, tried alone, no part fails: then it was not the message. Raises BadInput when it fails on every
    message of a sample: then it is not single messages, and to find them one by one would take for ever.
    """
    if why := _fails_everywhere(spark, pipeline, work, ranges):
        raise BadInput(f"the transform fails on each of {SAMPLE} messages taken from all over the batch: {why}. Nothing was "
                       "published; correct the transform, or what produces the messages", file=_where(pipeline))  # fmt: skip
    for item in ranges:
        why = _fails(spark, pipeline, work, item)
        if why and len(item) > 1:
            item = _bisect(spark, pipeline, work, item)
            why = _fails(spark, pipeline, work, item)
        if why:
            return item, why
    raise StagingLost("the job failed, but no message fails when its range is tried alone; the batch is read again")


def _bisect(spark: SparkSession, pipeline: Pipeline, work: TaskWork, item: OffsetRange) -> OffsetRange:
    """The range of one offset to which halving `item`, which fails, leads. Where the first half passes, it is the second."""
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
        why = _fails(spark, pipeline, work, _single(ranges, (total - 1) * number // (SAMPLE - 1)))
        if why is None:
            return None
    return why


def _single(ranges: Sequence[OffsetRange], number: int) -> OffsetRange:
    """The `number`th offset of `ranges`, as a range of its own."""
    for item in ranges:
        if number < len(item):
            offset = item.from_offset + number
            return OffsetRange(item.topic, item.partition, offset, offset + 1)
        number -= len(item)
    raise IndexError(number)


def _fails(spark: SparkSession, pipeline: Pipeline, work: TaskWork, item: OffsetRange) -> str | None:
    """Why the transform fails over `item`, or None."""
    alone = TaskWork(work.contract, (item,), work.source, _Nowhere(), work.excluded)
    try:
        run(transformed(_numbers(spark, alone, alone.ranges), pipeline, alone).mapInArrow(_discard, task.RESULT))
    except TransformFailed as error:
        return str(error)
    return None


def _discard(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield from ()


def _numbers(spark: SparkSession, work: TaskWork, ranges: Sequence[OffsetRange]) -> DataFrame:
    """One row and one Spark partition for each range: its number in `work.ranges`."""
    numbers = [work.ranges.index(item) for item in ranges]
    if numbers == list(range(len(work.ranges))):
        return spark.range(0, len(numbers), 1, len(numbers))
    return spark.createDataFrame([(n,) for n in numbers], "id bigint").repartition(len(numbers), "id")


def _bound(
    function: Callable[[TaskWork, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], work: TaskWork
) -> Batches:
    return partial(function, work)


def spark_ddl(schema: pa.Schema) -> str:
    """`schema` as Spark's DDL."""
    return ", ".join(f"`{item.name}` {_spark_type(item.type)}" for item in schema)


def _spark_type(kind: pa.DataType) -> str:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind).simpleString()


def _place(item: OffsetRange) -> tuple[int, int, int]:
    return item.partition, item.from_offset, item.until_offset


def _uncovered(ranges: Sequence[OffsetRange], found: Sequence[Coverage]) -> list[OffsetRange]:
    covered = {_place(item.range) for item in found}
    return [item for item in ranges if _place(item) not in covered]


# At the beginning of a line, where a traceback has it: a message's text may be quoted anywhere else.
_RAISED = re.compile(r"^platform_defs\.engine\.errors\.(\w+): (.*)", re.MULTILINE)


def _as_raised(error: PySparkException) -> TidegateError:
    """An error of ours that a task raised, found again in Spark's text; anything else is laid to the transform."""
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


class _Nowhere:
    """A staging area, and its recorder, that keep nothing: for trying a transform alone."""

    staging_id = 0

    @contextmanager
    def recorder(self, partition: int, attempt: UUID) -> Iterator[Recorder]:  # noqa: ARG002
        yield self

    def dead_letters(self, block: Block, faults: Sequence[Fault]) -> None: ...

    def cover(self, coverage: Coverage) -> None: ...

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:  # noqa: ARG002
        raise BadInput("nothing is staged while a transform is tried alone")
