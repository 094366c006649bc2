"""Metadata columns that a transform's DataFrame has if the transform names them.

They have the types of Spark's own Kafka source
(https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html). Other transforms do not
get them: they would cost time, and change the meaning of `*`.
"""

import inspect
import re
from collections.abc import Mapping

import pyarrow as pa

from platform_defs.contract.model.pipeline import Pipeline

OFFERED: Mapping[str, pa.DataType] = {
    "_key": pa.binary(),
    "_timestamp": pa.timestamp("us", "UTC"),
    "_headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def named_columns(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the columns of OFFERED that the transform's file, or a file that it imports from the project, names as a
    whole word, in any case: so Spark resolves names. None without a transform.
    """
    if pipeline.transform is None:
        return ()
    sources = [content.decode("utf-8", "replace") for _, content in pipeline.sources]
    if not sources and (module := inspect.getmodule(pipeline.transform)) is not None:  # a function without a file
        sources = [inspect.getsource(module)]
    return tuple(
        name for name in OFFERED if any(re.search(rf"(?<!\w){name}(?!\w)", text, re.IGNORECASE) for text in sources)
    )
