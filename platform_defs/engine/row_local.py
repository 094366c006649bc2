"""Proof that a transform is row-local: the same rows for a sample of messages, all together and one by one.

Spark's plan (engine/transform_rules.py) shows which operators a transform uses, but not what a function over a Series
does: a `pandas_udf` gets as many messages at once as Spark happens to collect. Nor does it show every function that
returns another result each time. So a transform that was not compared yet is called twice on a sample of its messages:

- together: all of them in one Arrow batch, each twice, so that a function that looks for repetitions finds some;
- one by one: in the opposite order, in two tasks, an Arrow batch for each message.

A row-local transform makes the same rows both times. The sample is the last messages of the batch, read once more:
they have just been staged, so the transform neither fails nor hangs on them.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from platform_defs.contract.digest import digest_of, transform_digest
from platform_defs.contract.pipeline import Pipeline
from platform_defs.contract.written import contract_digest
from platform_defs.engine.decoding import BlockDecoder
from platform_defs.engine.job import InTask, as_ours, bound, run
from platform_defs.engine.keep_nothing import Nowhere
from platform_defs.engine.task import TaskWork, read_range
from platform_defs.engine.transform import transform_file, transformed
from platform_defs.errors import BadInput, TransformFailed
from platform_defs.formats.arrow import columns_of, integers
from platform_defs.formats.excerpt import excerpt
from platform_defs.offsets import OffsetRange, TopicView, split, whole_spans
from platform_defs.own_session import own_session

SAMPLE = 1000  # offsets that are read for it at most ...
PARTITIONS = 8  # ... from so many partitions: those of which the batch reads most
PIECE = 50  # offsets: read at once
BYTES = 8_000_000  # of decoded messages that are taken at most, but always two: Spark's driver collects their rows
ENOUGH = 2  # messages with rows that prove something: one alone looks the same in any batch
ARROW_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
TASKS = 2  # of the call that is made one by one

INSTEAD = (
    "So the tables would depend on where batches are cut. Compute each value from its own message: a pandas_udf must "
    "not rank, sort, sum, shift or fill across its Series, and no function may keep anything between two messages. "
    "To look across messages, use an accumulate table in the contract, or a downstream asset"
)
REPEATABLE = (
    "A batch that is read again must give the same rows. Derive each value from the message: no random numbers, clock "
    "times, counters or lookups that change, and for aes_encrypt an IV of your own"
)
ROUNDING = (
    "The last digits of floating-point numbers can depend on how many are computed at once (a mean over columns, a "
    "matrix product). Round the result in the transform, or give the column a decimal type"
)

Place = tuple[int, int]  # partition, offset
Rows = Mapping[Place, Sequence[tuple[str, ...]]]  # of each message, sorted, their values as text


def comparison_key(pipeline: Pipeline) -> str:
    """Return a digest of the contract, the transform and the version of Spark, for which a comparison holds."""
    return digest_of((contract_digest(pipeline.contract), transform_digest(pipeline), version("pyspark")))


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
    """Compare the rows that the transform makes of a sample of a batch. Return the number of messages with rows: fewer
    than ENOUGH prove nothing.

    Raises BadInput, with column and offset, where they differ, and TransformFailed where it fails on the sample.
    """
    work = replace(batch, area=Nowhere(), ranges=sample(batch.ranges))
    try:
        (read,) = run(spark.range(0, 1, 1, 1).mapInArrow(bound(_sampled, work), "messages binary"), work)
        calls = _Calls(spark, pipeline, work, bytes(read["messages"]))
        together = calls.together()
        found = _difference(work, together, calls.one_by_one())
        again = _difference(work, together, calls.together()) if found else None
    except TransformFailed as failure:
        said = f"{transform_file(pipeline)}: the transform fails when it is compared on a sample: {failure}"
        raise TransformFailed(said, of_data=failure.of_data) from failure
    if again is not None:
        raise _refusal(pipeline, work, again, "when it is called again", REPEATABLE)
    if found is not None:
        instead = ROUNDING if found.is_rounding else INSTEAD
        raise _refusal(pipeline, work, found, "when the message is alone in its Arrow batch", instead)
    return len(together)


@dataclass(frozen=True)
class _Calls:
    """Calls of the transform on the same messages, decoded and in Arrow's stream format. Rows are given twice."""

    spark: SparkSession
    pipeline: Pipeline
    work: TaskWork
    messages: bytes

    def together(self) -> Rows:
        return self._rows(partial(_together, self.messages), tasks=1, times=1, options={})

    def one_by_one(self) -> Rows:
        return self._rows(partial(_one_by_one, self.messages), tasks=TASKS, times=2, options={ARROW_BATCH: "1"})

    def _rows(self, messages: InTask, *, tasks: int, times: int, options: Mapping[str, str]) -> Rows:
        try:
            with own_session(self.spark) as session:
                result = transformed(session.range(0, tasks, 1, tasks), self.pipeline, self.work, messages)
                for name, value in options.items():  # after the transform, which may have set it
                    session.conf.set(name, value)
                table = result.toArrow()
        except (PySparkException, Py4JError, OSError) as error:
            raise as_ours(error, self.work.nonce, hides=self.work.hides) from error
        found: defaultdict[Place, list[tuple[str, ...]]] = defaultdict(list)
        places = zip(table["_partition"].to_pylist(), table["_offset"].to_pylist(), strict=True)
        texts = [map(repr, column.to_pylist()) for column in table.columns]
        for place, *row in zip(places, *texts, strict=True):
            found[place] += [tuple(row)] * times
        return {place: sorted(rows) for place, rows in found.items()}


@dataclass(frozen=True)
class _Difference:
    place: Place
    column: str | None = None  # None: there are more rows of the message, or fewer
    values: tuple[str, str] = ("", "")

    @property
    def is_rounding(self) -> bool:
        """Return True for two floating-point numbers, or texts of them, that differ in their last digits alone."""
        if not all("." in value or "e" in value for value in self.values):
            return False
        try:
            one, other = (float(value.strip("'")) for value in self.values)
        except ValueError:
            return False
        return math.isclose(one, other)


def _difference(work: TaskWork, one: Rows, other: Rows) -> _Difference | None:
    """The first message of which there are other rows; None where all are the same."""
    for place in sorted(one.keys() | other.keys()):
        rows, others = one.get(place, ()), other.get(place, ())
        if len(rows) != len(others):
            return _Difference(place)
        for row, another in zip(rows, others, strict=True):
            for name, *values in zip(work.staged_schema.names, row, another, strict=False):  # it ends with _attempt
                if values[0] != values[1]:
                    return _Difference(place, name, (values[0], values[1]))
    return None


def _refusal(pipeline: Pipeline, work: TaskWork, found: _Difference, when: str, instead: str) -> BadInput:
    at = f"{work.contract.topic}[{found.place[0]}] at offset {found.place[1]}"
    if found.column is None:
        what = f"returns another number of rows for {at} {when}"
    else:
        what = f"returns another value of {found.column} for {at} {when}"
        if not work.hides:
            what += f" ({excerpt(found.values[0])}, then {excerpt(found.values[1])})"
    return BadInput(f"the transform {what}. {instead}", file=transform_file(pipeline), field=found.column)


def _sampled(work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The messages of the ranges as one value, in a task. Of large messages fewer are taken."""
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
