"""Proof that a transform is row-local: the same rows for a sample of messages, all together and one by one.

Spark's plan (engine/job/transform_rules.py) shows which operators a transform uses, but not what a function over a
Series does: a `pandas_udf` gets as many messages at once as Spark happens to collect. Nor does it show every function
whose result differs each time. So a transform that was not compared yet is called twice on a sample of its messages:

- together: all of them in one Arrow batch, each twice, so that a function that looks for repetitions finds some;
- one by one: in the opposite order, in two tasks, an Arrow batch for each message.

A row-local transform makes the same rows both times. Spark counts and hashes them, so that a transform which makes
many or large rows of a message needs no more memory than to stage them. The sample is the last messages of the batch,
read once more: they have just been staged, so the transform neither fails nor hangs on them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from platform_defs.contract.model.digest import digest_of, transform_digest
from platform_defs.contract.model.offered_columns import named_columns
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.transform_sources import changed_source
from platform_defs.contract.odcs_writer import contract_digest
from platform_defs.engine.job.job import InTask, bound, job_errors, run
from platform_defs.engine.job.job_limit import JobLimit
from platform_defs.engine.job.keep_nothing import Nowhere
from platform_defs.engine.job.transform import transform_file, transformed
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.task.decoding import BlockDecoder
from platform_defs.engine.task.task import TaskWork, read_range
from platform_defs.errors import BadInput, TidegateError, TransformChanged, TransformFailed, quoting
from platform_defs.formats.blocks.arrow import columns_of, integers
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.offsets import OffsetRange, PendingBatch, TopicView, split, whole_spans
from platform_defs.spark.own_session import own_session

SAMPLE = 1000  # offsets that are read for it at most ...
PARTITIONS = 8  # ... from so many partitions: those that the batch reads most from
PIECE = 50  # offsets: read at once
BYTES = 8_000_000  # maximum of decoded messages, but always two messages
ENOUGH = 2  # messages with rows that prove something: one alone looks the same in any batch
SHOWN = 1000  # values of one message that are compared for the error, and characters of each
ARROW_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
ONE_SHUFFLE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
TASKS = 2  # of the call that is made one by one

INSTEAD = (
    "As a result, the tables would depend on batch boundaries. Compute each value from its own message: a "
    "pandas_udf must not rank, sort, sum, shift or fill across its Series, and no function may keep state between "
    "messages. To look across messages, use an accumulate table in the contract, or a downstream asset"
)
REPEATABLE = (
    "A batch that is read again must give the same rows. Derive each value from the message: no random numbers, "
    "clock times, counters or lookups that change, and pass your own IV to aes_encrypt"
)
ROUNDING = (
    "The last digits of floating-point numbers can depend on how many are computed at once (a mean over columns, a "
    "matrix product). Round the result in the transform, or give the column a decimal type"
)

Place = tuple[int, int]  # partition, offset
Rows = Mapping[Place, Sequence[int]]  # by message: row count, sum of row hashes, sum of each column's hashes


def comparison_key(pipeline: Pipeline) -> str:
    """Return a digest of the contract, the transform and the version of Spark, for which a comparison holds."""
    return digest_of((contract_digest(pipeline.contract), transform_digest(pipeline), version("pyspark")))


def refuse_unproven(
    spark: Callable[[], SparkSession],
    ledger: PostgresLease,
    limit: JobLimit,
    pipeline: Pipeline,
    pending: PendingBatch,
    work: TaskWork,
) -> None:
    """Step 4 again: publish nothing if the transform's rows depend on which messages are read together.

    The comparison runs once for each contract, transform and version of Spark, which the ledger records; it is repeated
    with each batch until two messages of a sample have rows. A batch of one offset is not compared: its rows cannot
    depend on another.

    Raises BadInput and TransformFailed as `compare` does, and TransformChanged if Python workers may have run other
    code.
    """
    if (file := changed_source(pipeline)) is not None:
        raise TransformChanged(
            f"{pipeline.name}: {file}, which its transform imports, has changed since this run imported it, and Python "
            f"workers may run either version. Nothing from batch {pending.batch_id} was published; the next run "
            "imports the file again and reads the batch again"
        )
    key = comparison_key(pipeline)
    alone = sum(map(len, work.ranges)) < 2
    if work.set_aside is not None or alone or ledger.row_local() == key:
        return
    with limit.within(spark(), pipeline, pending):
        compared = compare(spark(), pipeline, work)
    if compared >= ENOUGH:
        ledger.note_row_local(key)


def sample(ranges: Sequence[OffsetRange], view: TopicView | None = None) -> tuple[OffsetRange, ...]:
    """Return at most the last SAMPLE offsets of a batch's ranges, by partition; with `view`, also earlier ones of the
    topic.
    """
    spans = sorted(whole_spans(ranges), key=lambda span: span.from_offset - span.until_offset)[:PARTITIONS]
    each, found = SAMPLE // len(spans), list[OffsetRange]()
    for span in spans:
        held = view and view.partitions.get(span.partition)
        first = held.low if held else span.from_offset
        start = max(first, span.until_offset - each)
        if start < span.until_offset:
            found.append(OffsetRange(ranges[0].topic, span.partition, start, span.until_offset))
    return tuple(found)


def compare(spark: SparkSession, pipeline: Pipeline, batch: TaskWork) -> int:
    """Compare the rows that the transform makes from a sample of a batch. Return the number of messages with rows:
    fewer than ENOUGH prove nothing.

    Raises BadInput, with column and offset, if they differ, and TransformFailed if it fails on the sample.
    """
    work = replace(batch, area=Nowhere(), ranges=sample(batch.ranges), offered=named_columns(pipeline))
    try:
        (read,) = run(spark.range(0, 1, 1, 1).mapInArrow(bound(_sampled, work), "messages binary"), work)
        call, messages = partial(_Call, spark, pipeline, work), bytes(read["messages"])
        together = call(partial(_together, messages))
        one_by_one = call(partial(_one_by_one, messages), tasks=TASKS, times=2, settings={ARROW_BATCH: "1"})
        rows = together.rows()
        found = _difference(rows, together, one_by_one)
        again = _difference(rows, together, together) if found else None
    except TransformFailed as failure:
        text = f"{transform_file(pipeline)}: the transform fails on a sample of the messages: {failure}"
        raise TransformFailed(text, of_data=failure.of_data) from failure
    if again is not None:
        raise _refusal(pipeline, work, again, "when it is called again", REPEATABLE)
    if found is not None:
        instead = ROUNDING if found.is_rounding else INSTEAD
        raise _refusal(pipeline, work, found, "when the message is alone in its Arrow batch", instead)
    return len(rows)


@dataclass(frozen=True)
class _Call:
    """One way to call the transform on the sample. Counts and sums are multiplied by `times`, so that calls that read
    the sample once and twice compare equal.
    """

    spark: SparkSession
    pipeline: Pipeline
    work: TaskWork
    messages: InTask
    tasks: int = 1
    times: int = 1
    settings: Mapping[str, str] = field(default_factory=dict[str, str])  # of Spark

    def rows(self) -> Rows:
        """Return the number of rows of each message and the sums of their hashes."""
        counted: Any = self._select(_counted).to_batches()
        found = [row for batch in counted for row in zip(*map(integers, batch.columns), strict=True)]
        return {(row[0], row[1]): [number * self.times for number in row[2:]] for row in found}

    def values(self, place: Place, column: str) -> Sequence[str]:
        """Return the values of one message's rows as text, sorted."""

        def of_place(rows: DataFrame) -> DataFrame:
            kind, at = dict(rows.dtypes)[column], (F.col("_partition") == place[0]) & (F.col("_offset") == place[1])
            text = F.to_json(F.col(column)) if kind.startswith("array") else F.col(column).cast("string")
            if kind == "binary":
                text = F.hex(F.col(column))
            # A condition of the aggregate: a filter Spark would push below the transform.
            value = F.coalesce(F.substring(text, 1, SHOWN), F.lit("NULL"))
            return rows.agg(F.slice(F.sort_array(F.collect_list(F.when(at, value))), 1, SHOWN))

        found: Any = self._select(of_place).column(0)[0].as_py()
        return [text for text in found for _ in range(self.times)]

    def _select(self, wanted: Callable[[DataFrame], DataFrame]) -> pa.Table:
        with job_errors(self.work), own_session(self.spark) as session:
            numbers = session.range(0, self.tasks, 1, self.tasks)
            result = wanted(transformed(numbers, self.pipeline, self.work, self.messages))
            # after the transform, which may have set it
            for name, value in {**ONE_SHUFFLE_PARTITION, **self.settings}.items():
                session.conf.set(name, value)
            return result.toArrow()


def _counted(rows: DataFrame) -> DataFrame:
    """Return per message the row count and the sums of the upper 32 bits of the row and column hashes. A sum does not
    depend on the order of rows, and 32 bits do not overflow it.
    """
    hashed = [F.xxhash64(*names) for names in (rows.columns, *([name] for name in rows.columns))]
    sums = [F.sum(F.shiftrightunsigned(one, 32)) for one in hashed]
    return rows.groupBy("_partition", "_offset").agg(F.count("*"), *sums)


@dataclass(frozen=True)
class _Difference:
    place: Place
    what: str
    column: str | None = None
    values: tuple[str, str] | None = None  # of the column, if they differ again

    @property
    def is_rounding(self) -> bool:
        """True for two floating-point numbers, or texts of them, that differ in their last digits alone."""
        if self.values is None or not all("." in value or "e" in value.lower() for value in self.values):
            return False
        try:
            one, other = map(float, self.values)
        except ValueError:
            return False
        return math.isclose(one, other)


def _difference(rows: Rows, one: _Call, other: _Call) -> _Difference | None:
    """Return the first message whose rows by `other` differ from `rows`, which `one` made; None if all are equal."""
    found = other.rows()
    for place in sorted(rows.keys() | found.keys()):
        (count, whole, *sums), (count_, whole_, *sums_) = (made.get(place, (0, 0)) for made in (rows, found))
        if count != count_:
            return _Difference(place, "a different number of rows")
        columns = zip(one.work.staged_schema.names, sums, sums_, strict=False)  # it ends with _attempt
        if differ := [name for name, here, there in columns if here != there]:
            values = zip(one.values(place, differ[0]), other.values(place, differ[0]), strict=False)
            unlike = next((pair for pair in values if pair[0] != pair[1]), None)
            return _Difference(place, f"a different value of {differ[0]}", differ[0], unlike)
        if whole != whole_:
            return _Difference(place, "different rows")
    return None


def _refusal(pipeline: Pipeline, work: TaskWork, found: _Difference, when: str, instead: str) -> TidegateError:
    """Return the BadInput."""
    what = f"returns {found.what} for {work.contract.topic}[{found.place[0]}] at offset {found.place[1]} {when}"
    values = f" ({excerpt(found.values[0])}, then {excerpt(found.values[1])})" if found.values else ""

    def refusal(values: str) -> BadInput:
        return BadInput(f"the transform {what}{values}. {instead}", file=transform_file(pipeline), field=found.column)

    return quoting(refusal, values, "")


def _sampled(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of the ranges as one value, in a task. Fewer of them if they are large."""
    sink, decoder, left = pa.BufferOutputStream(), BlockDecoder(work.contract, work.schemas), BYTES
    stream: Any  # pyarrow's stubs do not know it
    with pa.ipc.new_stream(sink, work.decoded_schema) as stream, work.area.recording() as recording:
        for _ in numbers:
            for piece in (piece for item in work.ranges for piece in split(item, PIECE)):
                if left <= 0:
                    break
                for batch in read_range(work, piece, recording, decoder):
                    if left > 0 and batch.num_rows:
                        of_one = max(1, batch.nbytes // batch.num_rows)
                        stream.write_batch(batch.slice(0, max(2, left // of_one)))
                        left -= batch.nbytes
    yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()])], names=["messages"])


def _together(messages: bytes, _: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _batch in numbers:
        table = pa.ipc.open_stream(messages).read_all()
        yield from pa.concat_tables([table, table]).combine_chunks().to_batches()


def _one_by_one(messages: bytes, _: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.ipc.open_stream(messages).read_all()
    for batch in numbers:
        for number in integers(columns_of(batch)[0]):
            for at in reversed(range(number, table.num_rows, TASKS)):
                yield from table.slice(at, 1).combine_chunks().to_batches()
