"""A Spark job over a batch's ranges: its rows, how it is run, and the error that its failure becomes on the driver."""

import builtins
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from platform_defs.contract.model.classified import NOT_SHOWN, classified
from platform_defs.contract.redaction import redacting
from platform_defs.engine.task import same_install
from platform_defs.engine.task.same_install import Batches
from platform_defs.engine.task.task import TaskWork
from platform_defs.engine.task.task_errors import UpstreamFailed, from_envelope, to_envelope, upstream
from platform_defs.errors import BadInput, SparkAway, TidegateError, TransformFailed, error_policy, quoting
from platform_defs.errors.error_policy import ErrorPolicy, JavaCause
from platform_defs.offsets import OffsetRange, tasks_for

InTask = Callable[[TaskWork, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
SPARK_THROWABLE = "org.apache.spark.SparkThrowable"  # what has an error condition and a SQLSTATE
CAUSES = 20  # of a failure: a chain of them may be a ring


def range_numbers(spark: SparkSession, work: TaskWork, ranges: Sequence[OffsetRange]) -> DataFrame:
    """Return one row for each range: its number in `work.ranges`."""
    places = {item: number for number, item in enumerate(work.ranges)}
    numbers = [places[item] for item in ranges]
    tasks = tasks_for(ranges)
    if numbers == list(range(len(work.ranges))):
        return spark.range(0, len(numbers), 1, tasks)
    return spark.createDataFrame([(n,) for n in numbers], "id bigint").repartition(tasks, "id")


def bound(function: InTask, work: TaskWork) -> Batches:
    """Return `function` over `work`, for Spark. `run` raises its errors unchanged, and OtherInstall if a task would
    decode with other code.
    """
    hides = classified(work.contract).any
    return partial(_in_task, same_install.sealed(partial(function, work)), work.nonce, hides)


def _in_task(function: Batches, nonce: str, hides: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what `function` yields. Spark logs a task's error, so with `hides` it says names alone. The driver decides
    that: the task knows no contract until it has compared installations.
    """
    try:
        yield from function(upstream(batches))
    except UpstreamFailed:
        raise
    except Exception as error:  # noqa: BLE001  # raised again, in an envelope
        raise to_envelope(error, nonce, hides=hides) from (None if hides else error)


def run(frame: DataFrame, work: TaskWork) -> list[dict[str, Any]]:
    """Run a job over `work` and collect its few rows. Raises the Tidegate error that it failed with (`as_ours`)."""
    with job_errors(work):
        return [row.asDict() for row in frame.collect()]


@contextmanager
def job_errors(work: TaskWork) -> Generator[None]:
    """Raise the error that a failed job over `work` means (`as_ours`), as its contract allows it to be shown."""
    with redacting(work.contract):
        try:
            yield
        except (PySparkException, Py4JError, OSError) as error:
            raise as_ours(error, work.nonce) from error


def as_ours(error: Exception, nonce: str) -> TidegateError:
    """Return the error that a failed job means: the one that our function raised in a task, or else Spark's or the
    transform's, with its message; in `redacted`, with the names in it.

    The latter are classified by platform_defs/errors/error_policy.py: TransformFailed if a message may be at fault,
    BadInput if Spark cannot run the transform, SparkAway otherwise.
    """
    try:
        text, thrown = str(error), _thrown(error)
        causes = [_java_cause(each) for each in thrown]
        message = _reason(thrown, text)
    except (Py4JError, OSError):  # the JVM can no longer report what happened
        return SparkAway.in_job(f"its JVM is gone ({type(error).__name__})")
    if (ours := from_envelope(text, nonce)) is not None:
        return ours
    return quoting(partial(_failure, error_policy.of_spark(causes)), message, _named(causes, message))


def _failure(policy: ErrorPolicy, message: str) -> TidegateError:
    match policy:
        case ErrorPolicy.REFUSED_ROW:
            return TransformFailed(message, of_data=True)
        case ErrorPolicy.SUSPECT:
            return TransformFailed(message)
        case ErrorPolicy.BAD_INPUT:
            return BadInput(f"Spark cannot run the transform: {message}")
        case _:
            return SparkAway.in_job(message)


def _thrown(error: Exception) -> list[Any]:
    """Return the Java exceptions that led to `error`, the outermost first; none if Spark itself is gone."""
    found: list[Any] = []
    # pyspark keeps the exception of Java under one name, py4j under another.
    thrown: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while thrown is not None and len(found) < CAUSES:
        found.append(thrown)
        thrown = thrown.getCause()
    return found


def _java_cause(thrown: Any) -> JavaCause:
    """Return the cause for a Java object (hence Any)."""
    kind = thrown.getClass()
    name = str(kind.getName())
    while kind is not None:  # an interface of its class, or of one above it
        if SPARK_THROWABLE in [str(one.getName()) for one in kind.getInterfaces()]:
            return JavaCause(name, thrown.getCondition(), thrown.getSqlState())
        kind = kind.getSuperclass()
    return JavaCause(name)


def _reason(thrown: Sequence[Any], otherwise: str) -> str:
    """Return the useful part of a failure: the message of its deepest cause, or the last line of a traceback."""
    messages = [str(message) for each in thrown if (message := each.getMessage())]
    gone = [message for message in messages if _WORKER_GONE.match(message)]  # below it: "Connection reset"
    text = (gone or messages or [otherwise or "Spark gives no reason"])[-1]
    if "Traceback (most recent call last)" in text:
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith(" SQLSTATE:")]
        return lines[-1][:1000]
    text = text.partition("\n== DataFrame ==")[0].partition("\nDriver stacktrace:")[0]
    sentence = " ".join(text.split())[:1000]
    if without_stack := _NO_STACK.fullmatch(sentence):
        return f"{without_stack[1]} and left no stack: the system may have killed it because memory was low"
    return sentence


_NO_STACK = re.compile(r"(Python worker exited unexpectedly \(crashed\)):?")
# Spark's message for a Python worker that is gone, which quotes no value.
_WORKER_GONE = re.compile(r"Python worker (?:exited unexpectedly|failed to connect back)")


def _named(causes: Sequence[JavaCause], message: str) -> str:
    """Return the same failure by its names alone, since its message may quote a classified value."""
    if gone := _WORKER_GONE.match(message):
        return gone[0]
    conditions = [f"{cause.condition} (SQLSTATE {cause.sqlstate})" for cause in causes if cause.condition]
    deepest = [cause.java_class.rpartition(".")[2] for cause in causes]
    # The last line of a traceback begins with a Python exception. Any but a built-in one may be a line of its text.
    name = message.partition(":")[0]
    kind = getattr(builtins, name, None) if name.isidentifier() else None
    raised = [f"it raises {name}"] if isinstance(kind, type) and issubclass(kind, BaseException) else []
    named = (raised or conditions or deepest or ["Spark"])[-1]
    return f"{named} (its message {NOT_SHOWN})"
