"""An error that a task raises on purpose reaches the driver unchanged; any other error is Spark's own."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from platform_defs.engine.job.job import bound, run
from platform_defs.engine.staging.staging import PostgresStaging
from platform_defs.engine.task.task import TaskWork
from platform_defs.errors import (
    InternalError,
    LedgerAway,
    RowRefused,
    SparkAway,
    TidegateError,
    TransformFailed,
)
from platform_defs.kafka.source import KafkaSource
from platform_defs.settings.contracts import find_all
from tests.support.waiting import BOUND
from tests.support.world import declassified

WORK = TaskWork(declassified(find_all().pipelines[0].contract), (), KafkaSource({}), PostgresStaging("", "", 0, ""))
QUOTED = f"\nplatform_defs.errors.{LedgerAway.__name__}: a message says so"


def _raises(error: Exception, _work: TaskWork, _: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    raise error
    yield  # pyright: ignore[reportUnreachable]  # makes it a generator, as Spark requires


def _quotes(_work: TaskWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.record_batch([pa.array([QUOTED])], names=["value"])


def _passes_on(_work: TaskWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def failed(frame: DataFrame) -> TidegateError:
    """Return the error that the driver gets when a job fails."""
    with pytest.raises(TidegateError) as found:
        run(frame, WORK)
    return found.value


def read(spark: SparkSession, function: Any, schema: str = "value string") -> DataFrame:
    return spark.range(0, 1, 1, 1).mapInArrow(bound(function, WORK), schema)


RAISED = [
    LedgerAway("Postgres went", sqlstate="57P01"),
    RowRefused("0x00", error_class="CharacterNotInRepertoire"),
]


@pytest.mark.longest
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_what_a_task_raises_on_purpose_arrives_with_its_data(
    spark: Callable[[], SparkSession], error: TidegateError
) -> None:
    """Also through another task's function behind it, which only consumes its output."""
    found = failed(read(spark(), partial(_raises, error)).mapInArrow(bound(_passes_on, WORK), "value string"))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


@pytest.mark.longest
def test_what_a_task_of_ours_did_not_expect_is_a_bug_of_ours(spark: Callable[[], SparkSession]) -> None:
    found = failed(read(spark(), partial(_raises, KeyError("x"))))
    assert type(found) is InternalError
    assert "bug in Tidegate" in str(found)


JOBS: dict[str, tuple[Callable[[DataFrame], DataFrame], type[TidegateError], str]] = {
    "a cast": (lambda m: m.select(F.col("value").cast("int").alias("value")), TransformFailed, "CAST_INVALID_INPUT"),
    "a dying worker": (
        lambda m: m.select(F.udf(lambda _: __import__("os")._exit(3), "int")("value").alias("value")),
        TransformFailed,
        "Python worker exited",
    ),
}


@pytest.mark.parametrize("what", JOBS)
@pytest.mark.longest
def test_what_comes_otherwise_is_the_transforms_whatever_it_quotes(
    spark: Callable[[], SparkSession], what: str
) -> None:
    transform, kind, text = JOBS[what]
    messages = read(spark(), _quotes)
    found = failed(transform(messages).mapInArrow(bound(_passes_on, WORK), "value int"))
    assert type(found) is kind
    assert text in str(found)
    assert found.of_data == (what == "a cast")  # pyright: ignore[reportAttributeAccessIssue]


def _ends_by(number: int, _work: TaskWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    os.kill(os.getpid(), number)
    yield from batches


@pytest.mark.longest
@pytest.mark.parametrize(
    ("number", "message"),
    [
        pytest.param(signal.SIGSEGV, "Fatal Python error: Segmentation fault", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, "because memory was low", marks=pytest.mark.longest),
    ],
)
def test_a_worker_that_a_signal_ends_says_so(
    spark: Callable[[], SparkSession], number: signal.Signals, message: str
) -> None:
    assert message in str(failed(read(spark(), partial(_ends_by, number))))


def test_a_job_that_is_canceled_is_no_messages_fault(spark: Callable[[], SparkSession]) -> None:
    session = spark()
    canceled = session.range(0, 1, 1, 1).mapInArrow(_waits, "id bigint")
    group = "tidegate test"
    session.sparkContext.setJobGroup(group, "to be canceled", interruptOnCancel=True)
    started = threading.Thread(target=_cancel_once_running, args=(session, group))
    started.start()
    try:
        assert type(failed(canceled)) is SparkAway
    finally:
        started.join(BOUND)
        session.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # pyright: ignore[reportArgumentType]


def _waits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(60)  # until it is killed
    yield from batches


def _cancel_once_running(session: SparkSession, group: str) -> None:
    tracker = session.sparkContext.statusTracker()
    while not tracker.getJobIdsForGroup(group):
        time.sleep(0.05)
    session.sparkContext.cancelJobGroup(group)
