"""What the row table must hold for messages that are rows: their fields, or what the transform makes of them."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput

pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them
OWN = (("_partition", pa.int32()), ("_offset", pa.int64()))


class Expected:
    """Makes table rows of judged messages."""

    def __init__(self, pipeline: Pipeline, spark: Callable[[], SparkSession]) -> None:
        self._pipeline, self._spark = pipeline, spark
        contract = pipeline.contract
        self.schema = pa.schema([*((c.name, c.type.arrow) for c in contract.row_table.columns), *OWN])
        self._message = pa.schema([*((item.name, item.type.arrow) for item in contract.fields), *OWN])

    def rows(self, partition: int, offsets: Sequence[int], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        """The table's columns, _partition, _offset: none, one or (with a transform) several rows for each message."""
        columns = zip(*rows, strict=True) if rows else ([] for _ in self._pipeline.contract.fields)
        arrays = [pa.array(list(values), kind.type) for values, kind in zip(columns, self._message, strict=False)]
        own = [pa.repeat(pa.scalar(partition, pa.int32()), len(rows)), pa.array(offsets, pa.int64())]
        messages = pa.Table.from_arrays([*arrays, *own], schema=self._message)
        if self._pipeline.transform is None or not rows:
            return messages.select(self.schema.names) if self._pipeline.transform is None else self.schema.empty_table()
        return self._transformed(messages)

    def _transformed(self, messages: pa.Table) -> pa.Table:
        frame: Any = self._spark().createDataFrame(messages)
        try:
            result = self._pipeline.transform(frame).select(*self.schema.names).toArrow()  # pyright: ignore[reportOptionalCall]
        except PySparkException as error:
            where = (
                f"partition {messages['_partition'][0]}, offsets {messages['_offset'][0]} to {messages['_offset'][-1]}"
            )
            raise BadInput(f"the transform fails on messages of {where}: {error}", field=self._pipeline.name) from error
        return result.cast(self.schema)


def differences(want: pa.Table, have: pa.Table) -> dict[int, tuple[list[Any], list[Any]]]:
    """By offset, for two tables of one partition: the rows that are missing, and those that are too many.

    Rows of one offset are compared as a multiset: their order means nothing.
    """
    order = [(name, "ascending") for name in ["_offset", *(n for n in want.schema.names if n != "_offset")]]
    by_offset = order[:1]
    if want.num_rows == have.num_rows and want.sort_by(by_offset).equals(have.sort_by(by_offset)):
        return {}
    if want.num_rows == have.num_rows and want.sort_by(order).equals(have.sort_by(order)):
        return {}
    left, right = _by_offset(want), _by_offset(have)
    found = {}
    for offset in sorted(left.keys() | right.keys()):
        missing, extra = list(left.get(offset, ())), list(right.get(offset, ()))
        for row in left.get(offset, ()):
            if row in extra:
                extra.remove(row)
                missing.remove(row)
        if missing or extra:
            found[offset] = (missing, extra)
    return found


def _by_offset(table: pa.Table) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    columns = [_plain(table[name]) for name in table.schema.names if name not in ("_partition", "_offset")]
    for offset, *row in zip(table["_offset"].to_pylist(), *columns, strict=True):
        found.setdefault(offset, []).append(tuple(row))
    return found


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Python values; NaN as a text, since NaN equals nothing."""
    values = column.to_pylist()
    return ["NaN" if value != value else value for value in values] if pa.types.is_floating(column.type) else values
