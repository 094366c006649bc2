"""From a schema to a contract: infers the pipeline, topic and table, and notes what was inferred."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from platform_defs.contract.keys.wire_keys import standard_wire
from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column, Contract, Field, Format, Table
from platform_defs.contract.model.message_path import spell_path
from platform_defs.contract.model.topic import TOPIC
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.schemas.conversion.column_names import column_names, pipeline_name, plain_name, table_name
from platform_defs.schemas.conversion.contract_yaml import contract_yaml
from platform_defs.schemas.conversion.found import FoundField, FoundMessage

VALUE = "-value"  # behind the topic, in the subject of its values
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
    text: str = field(repr=False)


def import_schema(writer: WriterSchema, wanted: Wanted) -> Imported:
    """Return the contract. Raises BadInput for a schema that cannot become one."""
    message = read_message(writer, wanted.record)
    topic = wanted.topic or _topic(wanted.subject) or wanted.stem
    if not TOPIC.fullmatch(topic):
        raise BadInput(f"{topic!r} is not a valid topic name: set one with --topic")
    first, _, rest = topic.partition(".")
    domain = plain_name(wanted.domain or first, "imported")
    name = plain_name(rest.replace(".", "_") or first, "messages")
    names = column_names(item.path for item in message.fields)
    fields = tuple(_field(item, names[item.path]) for item in message.fields)
    columns = tuple(Column(item.name, item.type, item.required) for item in fields)
    contract = Contract(
        pipeline=pipeline_name(domain, name),
        version="1.0.0",
        domain=domain,
        description="",
        topic=topic,
        format=writer.format,
        fields=fields,
        tables=(Table(table_name(domain, name), "append", columns),),
        wire=replace(
            standard_wire(writer.format, topic),
            framing="prefix",
            subject=wanted.subject or f"{topic}{VALUE}",
            record=message.record,
            compatibility="NONE",
        ),
    )
    notes = tuple(_notes(contract, message, wanted))
    return Imported(
        pipeline=contract.pipeline,
        domain=domain,
        name=name,
        topic=topic,
        table=contract.row_table.name,
        fields=len(fields),
        notes=notes,
        text=contract_yaml(contract, notes, {names[item.path]: item.note for item in message.fields}),
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
            from platform_defs.schemas.conversion.from_json_schema import from_json_schema

            if record:
                raise BadInput("a JSON Schema has no records: leave out --record")
            return from_json_schema(writer)


def _topic(subject: str) -> str:
    """Return the topic whose values have this subject, by the strategy that names subjects after topics."""
    own = subject[subject.index(":", 1) + 1 :] if subject.startswith(":.") and ":" in subject[1:] else subject
    return own.removesuffix(VALUE)


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
