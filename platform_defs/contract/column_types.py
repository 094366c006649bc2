"""The closed mapping between a contract's types, Arrow, Spark and Postgres.

Binary COPY stores the bits of a wrong type without an error (int64 into float8, int64 into timestamptz), so nothing
outside this table ever reaches a COPY: an unknown type is refused when the contract is loaded, and the live table's
`pg_attribute` is compared with `ColumnType.postgres` at plan and at publish.
"""

import re
from dataclasses import dataclass

import pyarrow as pa

from platform_defs.errors import BadInput


@dataclass(frozen=True)
class ColumnType:
    """One type in the four systems that it passes through."""

    name: str  # as a contract writes it in physicalType
    arrow: pa.DataType
    spark: str  # as DataType.simpleString() prints it
    postgres: str  # as format_type(atttypid, atttypmod) prints it
    in_staging: str = ""  # the type of a staging table's column, where COPY cannot write `postgres`; publish casts it

    @property
    def staged(self) -> str:
        """The type of a staging table's column."""
        return self.in_staging or self.postgres


_FIXED = {
    "string": ColumnType("string", pa.string(), "string", "text"),
    "integer": ColumnType("integer", pa.int64(), "bigint", "bigint"),
    "double": ColumnType("double", pa.float64(), "double", "double precision"),
    "boolean": ColumnType("boolean", pa.bool_(), "boolean", "boolean"),
    "date": ColumnType("date", pa.date32(), "date", "date"),
    "timestamp": ColumnType("timestamp", pa.timestamp("us", "UTC"), "timestamp", "timestamp with time zone"),
}
JSON = ColumnType("json", pa.string(), "string", "jsonb", in_staging="text")  # any JSON value, as its text
_FIXED["json"] = JSON
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")

STRING = _FIXED["string"]
INTEGER = _FIXED["integer"]
PARTITION = ColumnType("int", pa.int32(), "int", "integer")
ATTEMPT = ColumnType("uuid", pa.binary(16), "binary", "uuid")


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
            return ColumnType(f"decimal{spelt}", pa.decimal128(precision, scale), f"decimal{spelt}", f"numeric{spelt}")
    raise BadInput(f"type {name!r} is not supported; use one of {', '.join(_FIXED)} or decimal(precision,scale)")
