"""An Avro schema as fields of a contract: the inverse of schemas/conversion/avro.py, for all types of Avro.

A record within the message, nullable or not, is flattened. An array of values that are never null is a column of
arrays. Any other type (other arrays, maps, unions of several types, records that contain themselves) goes whole into a
json column.
"""

from collections.abc import Iterator

from platform_defs.contract.model.message_path import MessagePath
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural
from platform_defs.formats.avro.fields import scalar_column
from platform_defs.formats.avro.parse_schema import NotAvro, parse_schema
from platform_defs.formats.avro.schema import Array, Definite, Enum, Fixed, Primitive, Record, Schema, spelled
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.schemas.conversion.found import FoundField, FoundMessage, debezium_time, within_limit

_DEEPEST = 90  # levels of records: a path has at most 99 keys


def from_avro(writer: WriterSchema, record: str = "") -> FoundMessage:
    """Return the fields of the record, which must be named if the schema is a union of several. Raises BadInput."""
    try:
        schema = parse_schema(writer.document, writer.references)
    except NotAvro as wrong:
        raise BadInput(f"the Avro schema cannot be read: {wrong}") from None
    found = _record(schema, record)
    return FoundMessage(found.name, within_limit(_fields(found, (), schema, (), required=True)))


def _record(schema: Schema, wanted: str) -> Record:
    records = [one for _, one in schema.records(schema.root)]
    fitting = [one for one in records if wanted in ("", one.name)]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(one.name for one in records)
    if not records:
        raise BadInput(
            f"the schema is {spelled(schema.definite(schema.root))}, but only a record can become rows of a table"
        )
    raise BadInput(f"the schema has the records {names}: choose one with --record")


def _fields(
    record: Record, path: MessagePath, schema: Schema, above: tuple[str, ...], *, required: bool
) -> Iterator[FoundField]:
    for item in record.fields:
        here = (*path, item.name)
        of, nullable = schema.without_null(item.type)
        needed = required and not nullable
        if isinstance(of, Record) and of.name not in (*above, record.name) and len(here) < _DEEPEST and of.fields:
            yield from _fields(of, here, schema, (*above, record.name), required=needed)
        else:
            kind, note = _array(of, schema) if isinstance(of, Array) else _column(of)
            symbols = of.symbols if isinstance(of, Enum) else ()
            yield FoundField(here, kind, needed, note=note, symbols=symbols)


def _array(of: Array, schema: Schema) -> tuple[str, str]:
    items, nullable = schema.without_null(of.items)
    kind, note = _column(items)
    if nullable or kind == "json" or schema.is_empty(of.items):
        return _column(of)
    return f"array<{kind}>", f"each item: {note}" if note else ""


def _column(of: Definite) -> tuple[str, str]:
    """Return the contract's type, and a note on what it does not carry."""
    kind = scalar_column(of).name
    if isinstance(of, Enum):
        return kind, f"an enum of {', '.join(of.symbols)}"
    if kind == "json":
        return kind, f"{spelled(of)}, whole"
    if isinstance(of, Primitive) and (note := debezium_time(of.connect_name)):
        return kind, note
    if isinstance(of, Primitive | Fixed) and of.not_decimal:
        return kind, spelled(of)
    return kind, f"fixed of {plural(of.size, 'byte')}" if isinstance(of, Fixed) and of.logical is None else ""
