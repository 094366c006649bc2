"""The Avro types that each contract type is read from, and the conversions: exact promotions only.

    string     string (uuid too), enum
    integer    int, long
    double     double, float, int
    decimal    decimal in bytes or fixed, of any scale: a value that does not fit exactly is refused; int, long
    boolean    boolean
    date       int (date)
    timestamp  long (timestamp-micros, -millis; -nanos if no digit is lost); of a field with a unit, also int and long
    uuid       string, uuid in a string or a fixed of 16 bytes
    time       int (time-millis), long (time-micros)
    bytes      bytes, fixed
    array      array of a type that its items are read from; a null item is refused
    json       anything

Each may also be a union with null. A long or int with another meaning (a time, a date) is no number.
"""

from dataclasses import dataclass
from typing import Literal

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Unit
from platform_defs.formats.avro import schema as avro
from platform_defs.formats.json.values import TICKS

Kind = Literal[
    "text",
    "symbol",
    "integer",
    "double",
    "decimal",
    "scaled",
    "boolean",
    "date",
    "timestamp",
    "uuid",
    "uuid_bytes",
    "time",
    "bytes",
    "array",
    "json",
]
PER_SECOND = {"timestamp-millis": 1_000, "timestamp-micros": 1_000_000, "timestamp-nanos": 1_000_000_000}
TIMES = {"time-millis": 1_000, "time-micros": 1_000_000}


@dataclass(frozen=True)
class Conversion:
    """The conversion of a value to a column's type. scaled: a decimal from bytes; decimal: one from an integer;
    uuid_bytes: a uuid from 16 bytes.
    """

    kind: Kind
    scale: int = 0  # of a decimal, as it is written
    per_second: int = 0  # of a timestamp or time
    items: "Conversion | None" = None  # of an array's items


def conversion_to(
    column: ColumnType, of: avro.AvroType, schema: avro.Schema, unit: Unit | None = None
) -> Conversion | str:
    """Return the conversion of values of type `of`; if there is none, a text that says why. `unit`: of a timestamp in
    an int or a long without a logical type.
    """
    if column.kind == "json":
        return Conversion("json")
    found, _ = schema.without_null(of)
    if isinstance(found, avro.Union):
        return f"is {avro.spelled(found)}, which only a json column can store; the contract requires {column.name}"
    if column.item:
        return _array(column, column.item, found, schema)
    if unit and isinstance(found, avro.Primitive) and found.name in ("int", "long") and found.logical is None:
        return Conversion("timestamp", per_second=TICKS[unit])
    if plain := _plain(column, found):
        return plain
    if isinstance(found, avro.Primitive | avro.Fixed) and found.logical and found.logical.scale > MAX_SCALE:
        return f"is a decimal of scale {found.logical.scale:,}; at most {MAX_SCALE:,} is supported"
    return f"is {avro.spelled(found)}; the contract's {column.name} is read from {_ACCEPTED[column.kind]}"


def _array(column: ColumnType, item: ColumnType, of: avro.Definite, schema: avro.Schema) -> Conversion | str:
    if not isinstance(of, avro.Array):
        return f"is {avro.spelled(of)}; the contract's {column.name} is read from an array"
    if schema.is_empty(of.items):
        return f"is an array whose items have no bytes; the contract requires {column.name}"
    items = conversion_to(item, of.items, schema)
    return f"is an array in which each item {items}" if isinstance(items, str) else Conversion("array", items=items)


def _plain(column: ColumnType, of: avro.Definite) -> Conversion | None:
    logical = of.logical if isinstance(of, avro.Primitive | avro.Fixed) else None
    if isinstance(of, avro.Enum):
        return Conversion("symbol") if column.kind == "string" else None
    if logical is not None and logical.name != "uuid":
        return _logical(column, logical)
    if logical is not None and isinstance(of, avro.Fixed):
        return Conversion("uuid_bytes") if column.kind == "uuid" else None
    if isinstance(of, avro.Fixed):
        return Conversion("bytes") if column.kind == "bytes" else None
    if isinstance(of, avro.Primitive) and (kind := _PLAIN.get((column.kind, of.name))):
        return Conversion(kind)
    return None


def _logical(column: ColumnType, logical: avro.Logical) -> Conversion | None:
    if logical.name == column.kind == "decimal":
        return Conversion("scaled", scale=logical.scale) if logical.scale <= MAX_SCALE else None
    if logical.name == column.kind == "date":
        return Conversion("date")
    if column.kind == "timestamp" and logical.name in PER_SECOND:
        return Conversion("timestamp", per_second=PER_SECOND[logical.name])
    if column.kind == "time" and logical.name in TIMES:
        return Conversion("time", per_second=TIMES[logical.name])
    return None


MAX_SCALE = 1_000  # digits after the point, of a decimal as it is written
_PLAIN: dict[tuple[str, str], Kind] = {
    ("string", "string"): "text",
    ("integer", "int"): "integer",
    ("integer", "long"): "integer",
    ("double", "double"): "double",
    ("double", "float"): "double",
    ("double", "int"): "double",
    ("decimal", "int"): "decimal",
    ("decimal", "long"): "decimal",
    ("boolean", "boolean"): "boolean",
    ("uuid", "string"): "uuid",
    ("bytes", "bytes"): "bytes",
}
_ACCEPTED = {
    "string": "a string or an enum",
    "integer": "an int or a long without a logical type",
    "double": "a double, a float or an int",
    "decimal": "a decimal, an int or a long",
    "boolean": "a boolean",
    "date": "an int (date)",
    "uuid": "a string, or a fixed of 16 bytes (uuid)",
    "time": "an int (time-millis) or a long (time-micros)",
    "bytes": "bytes or a fixed without a logical type",
    "timestamp": "a long (timestamp-millis, timestamp-micros or timestamp-nanos), or with a unit from an int or a long",
}
