"""The fields of an Avro schema, for people."""

from collections.abc import Iterable, Iterator

from platform_defs.contract.model.column_types import JSON, ColumnType, array_or_json, column_type
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.formats.avro import schema as avro
from platform_defs.formats.avro.conversions import PER_SECOND
from platform_defs.formats.avro.parse_schema import NotAvro, parse_schema
from platform_defs.formats.avro.resolve import message_of
from platform_defs.formats.blocks.writer_schema import (
    MAX_LEVELS,
    OtherRecord,
    SchemaNotCompatible,
    WriterField,
    WriterSchema,
)

_COLUMNS = {  # the contract's types, by the name of a type or a logical type; json for others
    **{name: name for name in ("string", "bytes", "double", "boolean", "date", "uuid")},
    **{"int": "integer", "long": "integer", "float": "double", "time-millis": "time", "time-micros": "time"},
    **dict.fromkeys(PER_SECOND, "timestamp"),
}
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


def _within(path: MessagePath, record: avro.Record, schema: avro.Schema, *, optional: bool) -> Iterator[WriterField]:
    for item in record.fields:
        place = (*path, item.name)
        of, nullable = schema.without_null(item.type)
        if isinstance(of, avro.Record) and of.fields and len(place) < MAX_LEVELS:  # each step leads to a field
            yield from _within(place, of, schema, optional=optional or nullable)
        else:
            yield WriterField(place, _words(of, schema), optional or nullable, _column(of, schema))


def _words(of: avro.Definite, schema: avro.Schema) -> str:
    """Format a type: `long (timestamp-micros)`, `bytes (decimal(18,2))`, `enum bank.Currency`."""
    match of:
        case avro.Primitive():
            return of.name + _logical(of)
        case avro.Fixed() | avro.Enum() | avro.Record():
            return f"{type(of).__name__.lower()} {of.name}" + (_logical(of) if isinstance(of, avro.Fixed) else "")
        case avro.Union():
            return _names(of.branches, schema)
        case avro.Array():
            items = schema.definite(of.items)
            return f"array of {_names(items.branches if isinstance(items, avro.Union) else (items,), schema)}"
        case _:
            return avro.name_of(of)


def _names(of: Iterable[avro.AvroType], schema: avro.Schema) -> str:
    return " or ".join(dict.fromkeys(avro.name_of(schema.definite(one)) for one in of))


def _logical(of: avro.Primitive | avro.Fixed) -> str:
    if of.logical is None:
        return ""
    digits = f"({of.logical.precision},{of.logical.scale})" if of.logical.name == "decimal" else ""
    return f" ({of.logical.name}{digits})"


def _column(of: avro.Definite, schema: avro.Schema) -> ColumnType:
    if isinstance(of, avro.Array):
        items, nullable = schema.without_null(of.items)
        return JSON if nullable or schema.is_empty(of.items) else array_or_json(scalar_column(items))
    return scalar_column(of)


def scalar_column(of: avro.Definite) -> ColumnType:
    """Return the contract's type that takes every value of a scalar; json for any other type."""
    logical = of.logical if isinstance(of, avro.Primitive | avro.Fixed) else None
    if logical is not None and logical.name == "decimal" and logical.precision <= _MAX_DIGITS:
        return column_type(f"decimal({logical.precision},{logical.scale})")
    if isinstance(of, avro.Enum | avro.Fixed) and logical is None:
        return column_type("string" if isinstance(of, avro.Enum) else "bytes")
    name = logical.name if logical else avro.name_of(of)
    return column_type(_COLUMNS.get(name, "json")) if isinstance(of, avro.Primitive | avro.Fixed) else JSON
