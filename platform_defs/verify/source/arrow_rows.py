"""Rows of a table as Arrow: their columns as SQL, with the contract's types, and in the order of their messages."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from psycopg import sql

from platform_defs.contract.model.contract import Table
from platform_defs.errors import BadInput
from platform_defs.verify.decoders.json_columns import AsText, read_as


class Ordered:
    """Rows ordered by (_partition, _offset), consumed once, as far as the topic has been read."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches, self._schema = batches, schema
        self._held: list[pa.RecordBatch] = []

    def before(self, partition: int, offset: int) -> pa.Table:
        """Return the unconsumed rows whose (_partition, _offset) is below the place."""
        taken: list[pa.RecordBatch] = []
        while (batch := self.next()) is not None:
            rows: Any = batch  # the types do not know its columns
            own = rows["_partition"], rows["_offset"]
            places = range(batch.num_rows)
            count = bisect_left(
                places, (partition, offset), key=lambda row, own=own: tuple(c[row].as_py() for c in own)
            )
            taken.append(batch.slice(0, count))
            if count < batch.num_rows:
                self._held.append(batch.slice(count))
                break
        return pa.Table.from_batches(taken, self._schema)

    def next(self) -> pa.RecordBatch | None:
        """Return the next unconsumed rows, in batches of any size; None at the end."""
        return self._held.pop() if self._held else next(self._batches, None)


def as_typed(batch: pa.RecordBatch, schema: pa.Schema, table: str) -> pa.RecordBatch:
    """Return `batch` with the contract's types (ADBC returns numerics as text). Raises BadInput if a value does not
    fit.
    """
    columns: list[pa.Array[Any]] = []
    for number, (name, kind) in enumerate(zip(schema.names, schema.types, strict=True)):
        try:
            columns.append(batch.column(number).cast(kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            message = f"has a value that does not fit the contract's type ({kind})"  # Arrow's text quotes the value
            raise BadInput(message, field=f"{table}.{name}") from error
    return pa.record_batch(columns, schema=schema)


def columns_of(table: Table) -> list[tuple[str, pa.DataType]]:
    return [(column.name, column.type.staged_arrow) for column in table.columns]


def names_of(names: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def selected(names: Sequence[str], as_text: AsText) -> sql.Composable:
    """Return the columns `names` as they are selected: some as text."""
    read = [sql.SQL(read_as(as_text.get(name))).format(sql.Identifier(name)) for name in names]
    return sql.SQL(", ").join(read)


def table_of(table: Table) -> sql.Identifier:
    return sql.Identifier(*table.name.split("."))
