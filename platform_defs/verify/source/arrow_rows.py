"""Rows of a table as Arrow, over ADBC: their columns as SQL, and with the contract's types."""

from collections.abc import Sequence
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from psycopg import sql

from platform_defs.contract.model.contract import Table
from platform_defs.errors import BadInput
from platform_defs.verify.decoders.json_columns import AsText, read_as


def arrow_connection(url: str) -> Any:
    return adbc.connect(url, autocommit=True)  # pyright: ignore[reportUnknownMemberType]  # its kwargs have no type


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
