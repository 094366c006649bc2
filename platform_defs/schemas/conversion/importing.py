"""From a schema to a contract: infers the pipeline, topic and table, and notes what was inferred."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from textwrap import TextWrapper
from typing import Any, cast

from platform_defs.contract.document.node import as_list
from platform_defs.contract.document.yaml_text import yaml_scalar
from platform_defs.contract.keys.wire_keys import standard_wire
from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column, Contract, Field, Format, Table
from platform_defs.contract.model.message_path import MessagePath, spell_path
from platform_defs.contract.model.reserved import column_mistake, pipeline_mistake, table_mistake
from platform_defs.contract.model.topic import TOPIC
from platform_defs.contract.odcs_writer import context_of, document
from platform_defs.contract.reader.names import snake_case
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.excerpt import printable
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.json.schema_types import Node, column_of, meant, node, required_by
from platform_defs.schemas.conversion.found import FoundField, FoundMessage, debezium_time, within_limit
from platform_defs.schemas.conversion.tree import unique

VALUE = "-value"  # after the topic, in the subject of its values
SUFFIXES: Mapping[str, Format] = {".avsc": "avro", ".proto": "protobuf", ".json": "json"}


@dataclass(frozen=True)
class Wanted:
    """The user's choices; the rest is inferred."""

    subject: str = ""  # under which the schema was found
    stem: str = ""  # of the file that the schema was in
    topic: str = ""
    domain: str = ""
    record: str = ""
    source: str = ""  # where the schema comes from, for people


@dataclass(frozen=True)
class Imported:
    """A contract made from a schema."""

    pipeline: str
    domain: str
    name: str  # of the file: assets/<domain>/<name>.odcs.yaml
    topic: str
    table: str
    fields: int
    notes: tuple[str, ...]
    text: str = field(repr=False)  # of the file, which `odcs.load` reads


def import_schema(writer: WriterSchema, wanted: Wanted) -> Imported:
    """Return the contract. Raises BadInput for a schema that cannot become one."""
    message = read_message(writer, wanted.record)
    subject = wanted.subject.removeprefix(context_of(wanted.subject))  # named after the topic by the usual strategy
    topic = wanted.topic or subject.removesuffix(VALUE) or wanted.stem
    if not TOPIC.fullmatch(topic):
        raise BadInput(f"{topic!r} is not a valid topic name: set one with --topic")
    first, _, rest = topic.partition(".")
    domain = plain_name(wanted.domain or first, "imported")
    name = plain_name(rest.replace(".", "_") or first, "messages")
    pipeline = (name if name == domain else f"{domain}_{name}")[: _LONGEST - 2 * _ROOM].rstrip("_")
    table = f"{domain}.{name}"  # in the schema named after the domain
    names = column_names(item.path for item in message.fields)
    fields = tuple(_field(item, names[item.path]) for item in message.fields)
    columns = tuple(Column(item.name, item.type, item.required) for item in fields)
    contract = Contract(
        pipeline=pipeline if pipeline_mistake(pipeline) is None else f"topic_{pipeline}",
        version="1.0.0",
        domain=domain,
        description="",
        topic=topic,
        format=writer.format,
        fields=fields,
        tables=(Table(table if table_mistake(table) is None else f"of_{table}", "append", columns),),
        wire=replace(
            standard_wire(writer.format, topic),
            framing="prefix",
            subject=wanted.subject or f"{topic}{VALUE}",
            record=message.record,
            compatibility="NONE",
        ),
    )
    notes = tuple(_notes(contract, message, wanted))
    comments = (line for note in notes for line in _COMMENT.wrap(_one_line(note)))
    of_fields = {names[item.path]: item.note for item in message.fields}
    head = "# Imported from a schema. The following was inferred:"
    return Imported(
        pipeline=contract.pipeline,
        domain=domain,
        name=name,
        topic=topic,
        table=contract.row_table.name,
        fields=len(fields),
        notes=notes,
        text="\n".join([head, *comments, *_mapping(document(contract), "", of_fields), ""]),
    )


def _field(item: FoundField, name: str) -> Field:
    return Field(
        name,
        column_type(item.type),
        item.required,
        rules=(),
        physical_path=item.path,
        number=item.numbers[-1] if item.numbers else None,
        path_numbers=item.numbers[:-1],
    )


def read_message(writer: WriterSchema, record: str) -> FoundMessage:
    """Return the fields of a schema's record, or of its only one. Raises BadInput."""
    match writer.format:  # a language's reader is imported when it is needed
        case "avro":
            from platform_defs.schemas.conversion.from_avro import from_avro

            return from_avro(writer, record)
        case "protobuf":
            from platform_defs.schemas.conversion.from_protobuf import from_protobuf

            return from_protobuf(writer, record)
        case "json":
            if record:
                raise BadInput("a JSON Schema has no records: leave out --record")
            return from_json_schema(writer)


def _notes(contract: Contract, message: FoundMessage, wanted: Wanted) -> list[str]:
    named = "the name of the file" if wanted.stem else f"the subject without {VALUE}"
    found = [f"the schema: {wanted.source}"] if wanted.source else []
    found += [
        f"topic {contract.topic}: {'as given' if wanted.topic else named}",
        f"table {contract.row_table.name}: named after the topic; every message becomes a row (disposition append). If "
        "each key has one row, which newer messages replace, use disposition upsert, and keyFormat if keys are "
        "written with a schema",
        "framing: each message begins with a byte 0 and the id of its schema, as the registry's serializers write it",
    ]
    if contract.format != "json":
        found.append("compatibility NONE: producers own the schema, and the registry's level is not changed")
    found += [f"{spell_path(item.path)}: {item.note}" for item in message.fields if item.note]
    return [*found, *message.notes]


_LONGEST = 63  # bytes: Postgres cuts longer names
_ROOM = 4  # for a number after it, or as much before it


def column_names(paths: Iterable[MessagePath]) -> dict[MessagePath, str]:
    """Return a name for each path: its keys in lower case, joined by _; with a number after it if that is taken."""
    found, taken = dict[MessagePath, str](), set[str]()
    for path in paths:
        name = unique(_column(path), taken.__contains__, "_")
        taken.add(name)
        found[path] = name
    return found


def plain_name(text: str, otherwise: str) -> str:
    """Return `text` as a name of lower-case letters, digits and _; `otherwise` if that leaves nothing."""
    return (snake_case(text) or snake_case(f"x {text}") or otherwise)[: _LONGEST - _ROOM].strip("_") or otherwise


def _column(path: MessagePath) -> str:
    name = snake_case(" ".join(path)) or snake_case(path[-1]) or snake_case(f"field {path[-1]}") or "field"
    cut = name[: _LONGEST - 2 * _ROOM].rstrip("_")
    return cut if column_mistake(cut) is None else f"{cut}_value"


_COMMENT = TextWrapper(116, "# - ", "#   ", break_long_words=False, break_on_hyphens=False)


def _mapping(written: Mapping[str, Any], indent: str, notes: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a mapping. Custom properties and columns are one line each. notes: on fields, by name."""
    in_a_line = written.get("physicalType") == "table"
    for key, value in _keys(written):
        if (items := as_list(value)) is None:
            yield f"{indent}{key}: {yaml_scalar(value)}"
            continue
        yield f"{indent}{key}:"
        for item in items:
            if in_a_line or key == "customProperties":
                yield f"{indent}  - {{{', '.join(f'{name}: {yaml_scalar(one)}' for name, one in _keys(item))}}}"
            else:
                first, *rest = _mapping(item, f"{indent}    ", notes)
                note = notes.get(item["name"], "") if key == "properties" else ""
                yield f"{indent}  - {first.strip()}{f' # {_one_line(note)}' if note else ''}"
                yield from rest


def _keys(written: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys, without a physicalType that repeats the logicalType."""
    for key, value in written.items():
        if key != "physicalType" or value != written.get("logicalType"):
            yield key, value


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))[:500]


_NOT_CARRIED = ("enum", "const", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LENGTHS = ("minLength", "maxLength")
_MAX_OBJECTS = 20  # levels of objects: a schema may contain itself by $ref


def from_json_schema(writer: WriterSchema) -> FoundMessage:
    """Return the fields of the object: the inverse of schemas/conversion/exporting.py, as far as a schema gives types.

    An object with properties is flattened. An array of values of one type that are never null is a column of arrays.
    Anything without one type (anyOf of several, other arrays, objects without properties) goes whole into a json
    column. Raises BadInput.
    """
    try:
        root: Any = json.loads(writer.document)
    except (ValueError, RecursionError) as wrong:
        raise BadInput(f"the JSON Schema cannot be read: {wrong}") from None
    top, _ = meant(root, node(root))
    if top is None or not isinstance(top.get("properties"), dict):
        raise BadInput(
            "the schema does not describe an object with properties, and only such objects can become rows of a table"
        )
    return FoundMessage("", within_limit(_json_fields(top, (), node(root), required=True)))


def _json_fields(of: Node, path: MessagePath, root: Node, *, required: bool) -> Iterator[FoundField]:
    needed = required_by(of)
    for key, raw in cast("Mapping[str, Any]", of["properties"]).items():
        here, (found, nullable) = (*path, key), meant(raw, root)
        always = required and key in needed and not nullable
        inside = found.get("properties") if found else None
        if found and isinstance(inside, dict) and inside and len(here) < _MAX_OBJECTS:
            yield from _json_fields(found, here, root, required=always)
        else:
            several = ("json", "a value with several types, kept whole")
            kind, note = _json_column(found, root) if found is not None else several
            yield FoundField(here, kind, always, note=note)


def _json_column(of: Node, root: Node) -> tuple[str, str]:
    """Return the contract's type, and a note on what it does not carry."""
    kind = column_of(of, root).name
    if kind == "json":
        given = of.get("type")
        return kind, f"{f'an {given}' if given in ('array', 'object') else 'any value'}, whole"
    if kind not in ("string", "integer", "double", "boolean"):
        return kind, ""
    if note := debezium_time(of.get("title")):  # where Kafka Connect's converter puts the name of a type
        return kind, note
    rules = [f"{key} {json.dumps(of[key])}" for key in (*_NOT_CARRIED, *_LENGTHS) if key in of]
    return kind, f"rules that were not imported: {', '.join(rules)}" if rules else ""
