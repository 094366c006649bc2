"""The closed mapping between a contract's types, Arrow, Spark and Postgres.

Binary COPY stores the bits of a wrong type without an error (int64 into float8, int64 into timestamptz), so nothing
outside this table ever reaches a COPY: an unknown type is refused when the contract is loaded, and the live table's
`pg_attribute` is compared with `ColumnType.postgres` at plan and at publish.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from platform_defs.errors import BadInput

if TYPE_CHECKING:  # a command that only reads contracts does not wait for Arrow's import
    import pyarrow as pa


@dataclass(frozen=True)
class ColumnType:
    """One type in the four systems that it passes through."""

    name: str  # as a contract writes it in physicalType
    spark: str  # as DataType.simpleString() prints it
    postgres: str  # as format_type(atttypid, atttypmod) prints it
    in_staging: str = ""  # the type of a staging table's column, where COPY cannot write `postgres`; publish casts it

    @property
    def staged(self) -> str:
        """The type of a staging table's column."""
        return self.in_staging or self.postgres

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale of a decimal; None for any other type."""
        match = _DECIMAL.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None

    @cached_property
    def arrow(self) -> pa.DataType:
        """The type of its values in an Arrow column."""
        import pyarrow as pa

        if self.decimal is not None:
            return pa.decimal128(*self.decimal)
        return {
            "string": pa.string(),
            "integer": pa.int64(),
            "double": pa.float64(),
            "boolean": pa.bool_(),
            "date": pa.date32(),
            "timestamp": pa.timestamp("us", "UTC"),
            "json": pa.string(),
            "int": pa.int32(),
            "uuid": pa.binary(16),
        }[self.name]


_FIXED = {
    "string": ColumnType("string", "string", "text"),
    "integer": ColumnType("integer", "bigint", "bigint"),
    "double": ColumnType("double", "double", "double precision"),
    "boolean": ColumnType("boolean", "boolean", "boolean"),
    "date": ColumnType("date", "date", "date"),
    "timestamp": ColumnType("timestamp", "timestamp", "timestamp with time zone"),
}
JSON = ColumnType("json", "string", "jsonb", in_staging="text")  # any JSON value, as its text
_FIXED["json"] = JSON
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")

STRING = _FIXED["string"]
INTEGER = _FIXED["integer"]
PARTITION = ColumnType("int", "int", "integer")
ATTEMPT = ColumnType("uuid", "binary", "uuid")


def column_type(name: str) -> ColumnType:
    """The type named `name`: string, integer, double, boolean, date, timestamp, json or decimal(precision,scale).

    Raises BadInput for any other name, or a decimal outside 1 <= precision <= 38, 0 <= scale <= precision.
    """
    if found := _FIXED.get(name):
        return found
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 38 and scale <= precision:
            spelt = f"({precision},{scale})"
            return ColumnType(f"decimal{spelt}", f"decimal{spelt}", f"numeric{spelt}")
    raise BadInput(f"type {name!r} is not supported; use one of {', '.join(_FIXED)} or decimal(precision,scale)")
