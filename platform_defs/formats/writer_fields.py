"""The fields of a writer's schema, for people, and how they differ from a contract's."""

import json
from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import islice

from platform_defs.contract.document.yaml_text import yaml_scalar
from platform_defs.contract.model.column_types import JSON
from platform_defs.contract.model.contract import Contract, Field
from platform_defs.contract.model.message_path import MessagePath, spell_path
from platform_defs.contract.model.reserved import column_mistake
from platform_defs.contract.reader.names import snake_case
from platform_defs.formats.blocks.writer_schema import MAX_LEVELS, SchemaNotCompatible, WriterField, WriterSchema
from platform_defs.formats.json.schema_types import Node, column_of, kinds_of, meant, node, required_by

MAX_FIELDS = 500  # of a schema that are shown


@dataclass(frozen=True)
class Difference:
    """The fields that only the schema has, and those that only the contract has."""

    unknown: tuple[WriterField, ...]  # that the contract does not read
    missing: tuple[Field, ...]  # that the schema does not have


def fields_of(writer: WriterSchema, record: str = "") -> tuple[WriterField, ...]:
    """Return the first MAX_FIELDS fields of the record of this full name; if it is empty, of the only record or the
    first.

    Raises SchemaNotCompatible for a schema that cannot be read, or has no such record.
    """
    match writer.format:  # Avro and Protobuf are imported only when needed
        case "avro":
            from platform_defs.formats.avro.fields import avro_fields

            found = avro_fields(writer, record)
        case "protobuf":
            from platform_defs.formats.protobuf.fields import protobuf_fields

            found = protobuf_fields(writer, record)
        case "json":
            # For people: no message is read by it. Conditional keys are left out.
            try:
                root = node(json.loads(writer.document))
            except (ValueError, RecursionError) as wrong:
                raise SchemaNotCompatible([f"the schema is not JSON: {wrong}"]) from None
            top, _ = meant(root, root)
            found = _fields_below((), top or {}, root, optional=False)
    return tuple(islice(found, MAX_FIELDS))


def difference(contract: Contract, fields: tuple[WriterField, ...]) -> Difference:
    """Return the difference between a contract and a schema with these fields."""
    unknown = tuple(field for field in fields if not any(_reads(item, field) for item in contract.fields))
    missing = tuple(item for item in contract.fields if not any(_reads(item, field) for field in fields))
    return Difference(unknown, missing)


def doubts(contract: Contract, fields: tuple[WriterField, ...]) -> tuple[str, ...]:
    """Return why some values of a schema that fits may not fit: a sentence for each field."""
    pairs = ((item, field) for item in contract.fields for field in fields if _reads(item, field))
    return tuple(text for item, field in pairs if (text := _doubt(item, field)))


def _doubt(item: Field, field: WriterField) -> str | None:
    if item.type.kind == "json":
        return None
    if item.required and field.optional:
        return f"{item.place} is required by the contract, but {field.type} may be missing in a message"
    if item.type.item and field.reads_as.kind == "json":
        return f"{item.place} is {field.type}, but the contract's {item.type.name} does not allow null"
    wanted, written = item.type.item or item.type, field.reads_as.item or field.reads_as
    is_decimal = wanted.kind == written.kind == "decimal"
    digits = zip(wanted.digits or (), written.digits or (), strict=False)
    if is_decimal and any(ours < theirs for ours, theirs in digits):
        return f"{item.place} is {field.type}, and the contract's {item.type.name} cannot hold all of its values"
    if wanted.kind == "timestamp" and "nanos" in field.type:
        return f"{item.place} is {field.type}, but a timestamp keeps only microseconds"
    return None


def line_to_add(field: WriterField, taken: Container[str] = ()) -> str | None:
    """Return the contract's line that reads the field; None if its name suggests no column, or one that is taken."""
    name, path = snake_case("_".join(field.path)), spell_path(field.path)
    if name is None or name in taken or column_mistake(name) or not path.isprintable():
        return None
    kind = field.reads_as
    parts = {
        "name": name,
        "physicalName": path if field.path != (name,) else None,
        "logicalType": kind.logical_types[0],
        "physicalType": kind.name if kind.name != kind.logical_types[0] else None,
    }
    return f"- {{{', '.join(f'{key}: {yaml_scalar(value)}' for key, value in parts.items() if value)}}}"


def _reads(item: Field, field: WriterField) -> bool:
    """Return True if the contract's field is the writer's, a part of it, or contains it."""
    if item.number is not None and field.number is not None:
        return item.number == field.number and item.path[:-1] == field.path[:-1]
    theirs = (field.path, *field.spelled_as)
    return any(one[: len(other)] == other[: len(one)] for one in (item.path, *item.aliases) for other in theirs)


def _fields_below(path: MessagePath, of: Node, root: Node, *, optional: bool) -> Iterator[WriterField]:
    always = required_by(of)
    for name, raw in node(of.get("properties")).items():
        place, (found, nullable) = (*path, name), meant(raw, root)
        lacking = optional or nullable or name not in always
        if found and node(found.get("properties")) and len(place) < MAX_LEVELS:
            yield from _fields_below(place, found, root, optional=lacking)
        else:
            column = column_of(found, root) if found is not None else JSON
            kinds = " or ".join(sorted((kinds_of(raw, root) or frozenset()) - {"null"})) or "any"
            written = found.get("format") if found else None
            words = f"{kinds} ({written})" if isinstance(written, str) else kinds  # string (date-time)
            yield WriterField(place, words, lacking, column)
