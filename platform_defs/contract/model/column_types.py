"""The closed mapping between a contract's types, Arrow, Spark and Postgres.

Binary COPY stores the bits of a wrong type without an error (int64 into float8, int64 into timestamptz), so nothing
outside this table ever reaches a COPY: an unknown type is refused when the contract is loaded, and the live table's
`pg_attribute` is compared with `ColumnType.postgres` at plan and at publish.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from platform_defs.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ColumnType:
    """One type in the four systems that it passes through."""

    name: str  # as a contract writes it in physicalType
    spark: str  # as DataType.simpleString() prints it
    postgres: str  # as format_type(atttypid, atttypmod) prints it
    in_staging: str = ""  # the type of a staging table's column, if COPY cannot write `postgres`; publish casts it
    precision: int = 0  # decimals: number of digits in all
    scale: int = 0  # decimals: number of digits after the point
    item: ColumnType | None = None  # arrays: the type of each element

    @property
    def staged(self) -> str:
        """The type of a staging table's column."""
        return self.in_staging or self.postgres

    @property
    def copied(self) -> bool:
        """True if COPY can write it straight to a table (engine/staging/binary_copy.py)."""
        return not self.in_staging or self.name == "json"

    @property
    def kind(self) -> str:
        """The name without what is in brackets: `decimal` for every decimal(precision,scale), `array` for an array."""
        return kind_of(self.name)

    @property
    def arrow(self) -> pa.DataType:
        """The type of an Arrow column. Its first use imports pyarrow, which commands that only read never need."""
        return _arrow(self)

    @property
    def staged_arrow(self) -> pa.DataType:
        """The Arrow type that COPY gets. Arrays are staged as text: engine/task/task.py formats them."""
        return STRING.arrow if self.item else self.arrow

    @property
    def logical_types(self) -> tuple[str, ...]:
        """The ODCS logicalTypes that a property of this type may have."""
        return logical_types(self.kind)

    @property
    def digits(self) -> tuple[int, int] | None:
        """The number of digits that always fit before and after the point; None if the type is no exact number."""
        if self.kind == "decimal":
            return self.precision - self.scale, self.scale
        return (18, 0) if self.kind == "integer" else None


_LOGICAL = {
    "json": ("object", "array"),
    "array": ("array",),
    "double": ("number",),
    "decimal": ("number",),
    "uuid": ("string",),
    "bytes": ("string",),
}
STRING = ColumnType("string", "string", "text")
INTEGER = ColumnType("integer", "bigint", "bigint")
DOUBLE = ColumnType("double", "double", "double precision")
BOOLEAN = ColumnType("boolean", "boolean", "boolean")
DATE = ColumnType("date", "date", "date")
TIMESTAMP = ColumnType("timestamp", "timestamp", "timestamp with time zone")
JSON = ColumnType("json", "string", "jsonb", in_staging="text")  # any JSON value, as its text
# As Postgres prints them, so that each value has one text: 6f1c…, lower case; 10:00:00.5, without zeros behind.
UUID = ColumnType("uuid", "string", "uuid", in_staging="text")
TIME = ColumnType("time", "string", "time without time zone", in_staging="text")
BYTES = ColumnType("bytes", "binary", "bytea")
FIXED = {of.name: of for of in (STRING, INTEGER, DOUBLE, BOOLEAN, DATE, TIMESTAMP, TIME, UUID, BYTES, JSON)}
_ARRAY = re.compile(r"array<(.*)>", re.ASCII)
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)", re.ASCII)

PARTITION = ColumnType("int", "int", "integer")  # this and the next are for Tidegate's own columns
ATTEMPT = ColumnType("attempt", "binary", "uuid")


def kind_of(name: str) -> str:
    """Return the name of a type without what is in brackets: decimal, array."""
    return re.split("[(<]", name, maxsplit=1)[0]


def logical_types(kind: str) -> tuple[str, ...]:
    """Return the ODCS logicalTypes that go with a kind of type."""
    return _LOGICAL.get(kind, (kind,))


def column_type(name: str) -> ColumnType:
    """Return the type named `name`: one of FIXED, decimal(precision,scale), or array<type> of one of those.

    Raises BadInput for any other name, a decimal outside 1 <= precision <= 38, 0 <= scale <= precision, or an array
    of arrays or of json.
    """
    if match := _ARRAY.fullmatch(name):
        return _array(match[1])
    return _scalar(name)


def array_or_json(items: ColumnType) -> ColumnType:
    """Return the type for arrays of such items: json if no column can have that array."""
    return JSON if items.item or items == JSON else _array(items.name)


def _scalar(name: str) -> ColumnType:
    if found := FIXED.get(name):
        return found
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 38 and scale <= precision:
            digits = f"({precision},{scale})"
            return ColumnType(f"decimal{digits}", f"decimal{digits}", f"numeric{digits}", "", precision, scale)
        raise BadInput(f"type {name!r} is not supported: precision is 1 to 38, and scale at most the precision")
    raise BadInput(
        f"type {name!r} is not supported; use one of {', '.join(FIXED)}, decimal(precision,scale) or array<type>"
    )


def _array(items: str) -> ColumnType:
    if kind_of(items) in ("array", "json"):
        raise BadInput(
            f"an array of {kind_of(items)} is not supported: its items are single values; keep the whole value in a "
            "column of physicalType: json"
        )
    of = _scalar(items)
    return ColumnType(f"array<{of.name}>", f"array<{of.spark}>", f"{of.postgres}[]", in_staging="text", item=of)


@cache
def _arrow(of: ColumnType) -> pa.DataType:
    import pyarrow as pa

    if of.item:
        return pa.list_(of.item.arrow)
    if of.kind == "decimal":
        return pa.decimal128(of.precision, of.scale)
    fixed: dict[str, pa.DataType] = {
        "string": pa.string(),
        "integer": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "json": pa.string(),
        "int": pa.int32(),
        "uuid": pa.string(),
        "time": pa.string(),
        "bytes": pa.binary(),
        "attempt": pa.binary(16),
    }
    return fixed[of.name]
