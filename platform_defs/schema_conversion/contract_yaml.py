"""The contract file for a message found in a schema: ODCS in YAML, with notes on inferred parts as comments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from platform_defs.contract.document.yaml_scalar import yaml_scalar
from platform_defs.contract.keys.wire_keys import RECORD
from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Format
from platform_defs.contract.model.message_path import MessagePath, spell_path
from platform_defs.formats.blocks.excerpt import printable
from platform_defs.schema_conversion.column_names import column_names
from platform_defs.schema_conversion.found import FoundField, FoundMessage

_WIDEST = 116  # characters of a comment


@dataclass(frozen=True)
class Draft:
    """The content of a contract, besides its fields."""

    pipeline: str
    domain: str
    topic: str
    table: str
    format: Format
    wire: Mapping[str, str]  # the server's custom properties
    notes: Sequence[str]  # the inferred parts, and what is not carried


def contract_yaml(draft: Draft, message: FoundMessage) -> str:
    """Return the text of the file, which `odcs.load` reads."""
    names = column_names(item.path for item in message.fields)
    return "\n".join(
        [*_head(draft), *_server(draft, message), *_message(draft, message, names), *_table(draft, message, names), ""]
    )


def _head(draft: Draft) -> Iterator[str]:
    yield "# Imported from a schema. The following was inferred:"
    for note in draft.notes:
        yield from _comment(note)
    yield "apiVersion: v3.1.0"
    yield "kind: DataContract"
    yield f"id: {yaml_scalar(draft.pipeline)}"
    yield "version: 1.0.0"
    yield f"domain: {yaml_scalar(draft.domain)}"


def _server(draft: Draft, message: FoundMessage) -> Iterator[str]:
    record = {RECORD[draft.format]: message.record} if message.record and draft.format in RECORD else {}
    yield "servers:"
    yield "  - server: kafka"
    yield "    type: kafka"
    yield f"    format: {draft.format}"
    properties = {**draft.wire, **record}
    if properties:
        yield "    customProperties:"
    for name, value in properties.items():
        yield f"      - {_property(name, value)}"


def _message(draft: Draft, message: FoundMessage, names: Mapping[MessagePath, str]) -> Iterator[str]:
    yield "schema:"
    yield "  - name: message"
    yield "    physicalType: topic"
    yield f"    physicalName: {yaml_scalar(draft.topic)}"
    yield "    properties:"
    for item in message.fields:
        name = names[item.path]
        yield f"      - name: {yaml_scalar(name)}{f' # {_one_line(item.note)}' if item.note else ''}"
        if item.path != (name,):
            yield f"        physicalName: {yaml_scalar(spell_path(item.path))}"
        yield from (f"        {key}: {yaml_scalar(value)}" for key, value in _type(item).items())
        if item.required:
            yield "        required: true"
        yield from _numbers(item)


def _numbers(item: FoundField) -> Iterator[str]:
    if not item.numbers:
        return
    yield "        customProperties:"
    yield f"          - {_property('fieldNumber', item.numbers[-1])}"
    if item.numbers[:-1]:
        yield f"          - {_property('pathNumbers', list(item.numbers[:-1]))}"


def _table(draft: Draft, message: FoundMessage, names: Mapping[MessagePath, str]) -> Iterator[str]:
    yield f"  - name: {yaml_scalar(draft.table.rpartition('.')[2])}"
    yield "    physicalType: table"
    yield f"    physicalName: {yaml_scalar(draft.table)}"
    yield "    customProperties:"
    yield f"      - {_property('disposition', 'append')}"
    yield "    properties:"
    for item in message.fields:
        keys = {"name": names[item.path], **_type(item), **({"required": True} if item.required else {})}
        yield f"      - {{{', '.join(f'{key}: {yaml_scalar(value)}' for key, value in keys.items())}}}"


def _type(item: FoundField) -> dict[str, str]:
    of = column_type(item.type)
    logical = of.logical_types[0]
    return {"logicalType": logical} if logical == of.name else {"logicalType": logical, "physicalType": of.name}


def _property(name: str, value: Any) -> str:
    return f"{{property: {name}, value: {yaml_scalar(value)}}}"


def _comment(text: str) -> Iterator[str]:
    """Yield the lines of a comment, wrapped between words."""
    line = "# -"
    for word in _one_line(text).split(" "):
        if len(line) + len(word) + 1 > _WIDEST:
            yield line
            line = "#  "
        line = f"{line} {word}"
    yield line


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))[:500]
