"""Step 4, from the driver: the pipeline's own transform over the decoded messages, checked before a message is read."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from platform_defs.contract.model.offered_columns import named_columns
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.system_columns import PROVENANCE
from platform_defs.engine.job.job import InTask, bound
from platform_defs.engine.job.transform_rules import check_columns, check_row_local
from platform_defs.engine.task.task import TaskWork, read_ranges
from platform_defs.engine.task.task_errors import from_envelope
from platform_defs.errors import BadInput

# A local property of Spark's jobs: set while the transform only describes what is to be done.
DESCRIBING = "tidegate.describing"


def transformed(numbers: DataFrame, pipeline: Pipeline, work: TaskWork, messages: InTask = read_ranges) -> DataFrame:
    """Return the pipeline's own transform over the decoded messages, which `messages` yields in a task. Raises BadInput
    unless Spark's plan of it is row-local and has the right columns.
    """
    where = transform_file(pipeline)
    if work.keyed:
        raise BadInput(
            "an upsert table has no transform: each row is one message under its key, and a transform could drop "
            "the one that deletes it. Remove the transform, and compute the result in a downstream asset",
            file=where,
        )
    work = replace(work, offered=named_columns(pipeline))
    decoded = numbers.mapInArrow(bound(partial(_described_only, messages), work), spark_ddl(work.decoded_schema))
    result = _described(pipeline, decoded, work, where)
    check_row_local(decoded, result, where=where)
    result = result.drop(*work.offered)  # of a transform that passes all columns through
    staged = [name for name in work.staged_schema.names if name != "_attempt"]
    wanted = {c.name: c.type.spark for c in pipeline.contract.row_table.columns}
    wanted |= {name: kind.spark for name, kind in PROVENANCE}
    check_columns(result, wanted, where=where)
    return result.select(*staged)


def transform_file(pipeline: Pipeline) -> str:
    """Return the file of the pipeline's transform, for messages."""
    path = pipeline.contract.path
    return str(path.with_name(path.name.removesuffix(".odcs.yaml") + ".py")) if path else f"{pipeline.name}.py"


def _described(pipeline: Pipeline, decoded: DataFrame, work: TaskWork, where: str) -> DataFrame:
    """Return the result of the transform over `decoded`. Raises BadInput for any exception of the transform, and for an
    action on the messages.
    """
    assert pipeline.transform is not None  # noqa: S101  # the callers ask
    context = decoded.sparkSession.sparkContext
    context.setLocalProperty(DESCRIBING, "true")
    try:
        result = pipeline.transform(decoded)
    except Exception as error:  # a user's code may raise anything
        ours = from_envelope(str(error), work.nonce) if isinstance(error, PySparkException) else None
        message = str(error).partition("\n")[0]
        raise BadInput(
            str(ours) if isinstance(ours, BadInput) else f"the transform raises {type(error).__name__}: {message}",
            file=where,
        ) from error
    finally:
        context.setLocalProperty(DESCRIBING, None)  # pyright: ignore[reportArgumentType]  # null clears it
    if not isinstance(result, DataFrame):  # pyright: ignore[reportUnnecessaryIsInstance]  # of a user's function
        raise BadInput(f"the transform returns {type(result).__name__}; it must return a DataFrame", file=where)
    return result


def _described_only(messages: InTask, work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield a transform's input, in a task. Raises BadInput if the transform itself runs a job on it."""
    if (running := TaskContext.get()) and running.getLocalProperty(DESCRIBING):
        raise BadInput(
            "it runs an action on the messages (count, collect, show, first or the like); a transform must only "
            "describe what to do with each message"
        )
    yield from messages(work, numbers)


def spark_ddl(schema: pa.Schema) -> str:
    """Return `schema` as Spark's DDL."""
    from pyspark.sql.pandas.types import from_arrow_type

    kinds = [from_arrow_type(kind).simpleString() for kind in schema.types]
    return ", ".join(f"`{name}` {kind}" for name, kind in zip(schema.names, kinds, strict=True))
