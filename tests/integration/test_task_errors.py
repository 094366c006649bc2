"""An error that a task raises on purpose reaches the driver as what it was: by its type, whatever its text quotes."""

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from platform_defs import errors
from platform_defs.engine.job import run
from platform_defs.errors import BadInput, BrokerAway, Retryable, TidegateError, TransformFailed


def kinds(of: type[TidegateError]) -> list[type[TidegateError]]:
    """`of`, and all that is below it in the tree of errors.py: what a task may raise."""
    below = [kind for kind in of.__subclasses__() if kind.__module__ == errors.__name__]
    return [of, *(kind for each in below for kind in kinds(each))]


def _raises(error: Exception, _: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    raise error
    yield  # pyright: ignore[reportUnreachable]  # makes a generator of it, as Spark wants


def as_collected(spark: SparkSession, error: Exception) -> BaseException:
    """What the driver gets where a task raises `error`."""
    with pytest.raises(TidegateError) as found:
        run(spark.range(0, 1, 1, 1).mapInArrow(partial(_raises, error), "id bigint"))
    return found.value


@pytest.mark.parametrize("kind", kinds(Retryable), ids=lambda kind: kind.__name__)
def test_a_system_at_fault_stays_that_system(spark: Callable[[], SparkSession], kind: type[Retryable]) -> None:
    """Laid to the transform instead, each message of the batch would be suspected, and one of them set aside."""
    found = as_collected(spark(), kind("the broker, say"))
    assert (type(found), str(found)) == (kind, "the broker, say")


def test_bad_input_stays_bad_input(spark: Callable[[], SparkSession]) -> None:
    found = as_collected(spark(), BadInput("use another", file="a.py", line=3))
    assert (type(found), str(found)) == (BadInput, "a.py:3: use another")


def test_a_text_that_quotes_our_errors_is_laid_to_the_transform(spark: Callable[[], SparkSession]) -> None:
    found = as_collected(spark(), ValueError(f"what about {errors.__name__}.{BrokerAway.__name__}: a message says so"))
    assert type(found) is TransformFailed
