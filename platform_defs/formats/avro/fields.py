"""The fields of an Avro schema, for people."""

from collections.abc import Iterable, Iterator

from platform_defs.contract.model.column_types import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    JSON,
    STRING,
    TIME,
    TIMESTAMP,
    UUID,
    ColumnType,
    array_or_json,
    column_type,
)
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.formats.avro.conversions import PER_SECOND
from platform_defs.formats.avro.parse_schema import NotAvro, parse_schema
from platform_defs.formats.avro.resolve import message_of, nullable_record
from platform_defs.formats.avro.schema import (
    NULL,
    Array,
    AvroType,
    Definite,
    Enum,
    Fixed,
    Primitive,
    Record,
    Schema,
    Union,
)
from platform_defs.formats.blocks.writer_field import MAX_LEVELS, WriterField
from platform_defs.formats.blocks.writer_schema import OtherRecord, SchemaNotCompatible, WriterSchema

_PLAIN = {
    "string": STRING,
    "bytes": BYTES,
    "int": INTEGER,
    "long": INTEGER,
    "float": DOUBLE,
    "double": DOUBLE,
    "boolean": BOOLEAN,
}
_LOGICAL = {"date": DATE, "uuid": UUID, "time-millis": TIME, "time-micros": TIME}
_MAX_DIGITS = 38


def avro_fields(writer: WriterSchema, record: str) -> Iterator[WriterField]:
    """See `writer_fields.fields_of`."""
    try:
        schema = parse_schema(writer.document, writer.references)
        found, _ = message_of(schema, record)
    except NotAvro as wrong:
        raise SchemaNotCompatible([f"the schema cannot be read: {wrong}"]) from None
    except OtherRecord as other:
        raise SchemaNotCompatible([f"the schema is for {other.record}"]) from None
    return _within((), found, schema, optional=False)


def _within(path: MessagePath, record: Record, schema: Schema, *, optional: bool) -> Iterator[WriterField]:
    for item in record.fields:
        place = (*path, item.name)
        of, nullable = without_null(item.type, schema)
        inner = nullable_record(item.type, schema)
        if inner is not None and inner.fields and len(place) < MAX_LEVELS:  # each step leads to a field
            yield from _within(place, inner, schema, optional=optional or nullable)
        else:
            yield WriterField(place, _words(of, schema), optional or nullable, _column(of, schema))


def without_null(of: AvroType, schema: Schema) -> tuple[Definite, bool]:
    """Return the type without null, and True if null is allowed."""
    found = schema.definite(of)
    if not isinstance(found, Union):
        return found, found == NULL
    others = [branch for branch in found.branches if branch != NULL]
    return (schema.definite(others[0]) if len(others) == 1 else found), NULL in found.branches


def _words(of: Definite, schema: Schema) -> str:
    """Format a type: `long (timestamp-micros)`, `bytes (decimal(18,2))`, `enum bank.Currency`."""
    match of:
        case Primitive():
            return of.name + _logical(of)
        case Fixed() | Enum() | Record():
            return f"{type(of).__name__.lower()} {of.name}" + (_logical(of) if isinstance(of, Fixed) else "")
        case Union():
            return _names(of.branches, schema)
        case Array():
            items = schema.definite(of.items)
            return f"array of {_names(items.branches if isinstance(items, Union) else (items,), schema)}"
        case _:
            return type(of).__name__.lower()


def _names(of: Iterable[AvroType], schema: Schema) -> str:
    names = list[str]()
    for one in map(schema.definite, of):
        names.append(one.name if isinstance(one, Primitive | Fixed | Enum | Record) else type(one).__name__.lower())
    return " or ".join(dict.fromkeys(names))


def _logical(of: Primitive | Fixed) -> str:
    if of.logical is None:
        return ""
    digits = f"({of.logical.precision},{of.logical.scale})" if of.logical.name == "decimal" else ""
    return f" ({of.logical.name}{digits})"


def _column(of: Definite, schema: Schema) -> ColumnType:
    if isinstance(of, Array):
        items, nullable = without_null(of.items, schema)
        return JSON if nullable or schema.is_empty(of.items) else array_or_json(scalar_column(items))
    return scalar_column(of)


def scalar_column(of: Definite) -> ColumnType:
    """Return the contract's type that takes every value of a scalar; json for any other type."""
    logical = of.logical if isinstance(of, Primitive | Fixed) else None
    if logical is not None:
        if logical.name == "decimal" and logical.precision <= _MAX_DIGITS:
            return column_type(f"decimal({logical.precision},{logical.scale})")
        return TIMESTAMP if logical.name in PER_SECOND else _LOGICAL.get(logical.name, JSON)
    if isinstance(of, Enum | Fixed):
        return STRING if isinstance(of, Enum) else BYTES
    return _PLAIN.get(of.name, JSON) if isinstance(of, Primitive) else JSON
