"""Columns of a message's metadata that every transform's DataFrame offers, and which of them a transform uses.

They have the types of Spark's own Kafka source
(https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html). To read keys and headers
takes a tenth of a batch's time, so only columns that the transform uses are filled; the others are NULL.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OFFERED: Mapping[str, pa.DataType] = {
    "_key": pa.binary(),
    "_timestamp": pa.timestamp("us", "UTC"),
    "_headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
YEARS = -62_135_596_800_000, 253_402_300_799_999  # the first and the last ms of 0001 and 9999: other times are NULL
_MENTIONED = re.compile(rf"\b({'|'.join(OFFERED)})#\d")


def used_columns(frame: "DataFrame") -> frozenset[str]:
    """Return which of OFFERED decide what is in `frame`, by the plan that Spark's optimizer makes of it."""
    found, nodes = set[str](), [_optimized(frame)]
    while nodes:
        node = nodes.pop()
        found.update(_MENTIONED.findall(node.references().toString()))
        children = node.children()
        nodes += [children.apply(number) for number in range(children.size())]
    return frozenset(found)


def _optimized(frame: Any) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()
