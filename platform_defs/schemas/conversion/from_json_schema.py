"""A JSON Schema as fields of a contract: the inverse of schemas/conversion/exporting.py, as far as a schema gives
types.

An object with properties is flattened. An array of values of one type that are never null is a column of arrays.
Anything without one type (anyOf of several, other arrays, objects without properties) goes whole into a json column.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from platform_defs.contract.model.message_path import MessagePath
from platform_defs.errors import BadInput
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.json.schema_types import Node, column_of, meant, node, required_by
from platform_defs.schemas.conversion.found import FoundField, FoundMessage, debezium_time, within_limit

_NOT_CARRIED = ("enum", "const", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LENGTHS = ("minLength", "maxLength")
_DEEPEST = 20  # levels of objects: a schema may contain itself by $ref


def from_json_schema(writer: WriterSchema) -> FoundMessage:
    """Return the fields of the object. Raises BadInput."""
    try:
        root: Any = json.loads(writer.document)
    except (ValueError, RecursionError) as wrong:
        raise BadInput(f"the JSON Schema cannot be read: {wrong}") from None
    top, _ = meant(root, node(root))
    if top is None or not isinstance(top.get("properties"), dict):
        raise BadInput(
            "the schema does not describe an object with properties, and only such objects can become rows of a table"
        )
    return FoundMessage("", within_limit(_fields(top, (), node(root), required=True)))


def _fields(of: Node, path: MessagePath, root: Node, *, required: bool) -> Iterator[FoundField]:
    needed = required_by(of)
    for key, raw in cast("Mapping[str, Any]", of["properties"]).items():
        here, (found, nullable) = (*path, key), meant(raw, root)
        always = required and key in needed and not nullable
        inside = found.get("properties") if found else None
        if found and isinstance(inside, dict) and inside and len(here) < _DEEPEST:
            yield from _fields(found, here, root, required=always)
        else:
            several = ("json", "a value with several types, kept whole")
            kind, note = _column(found, root) if found is not None else several
            yield FoundField(here, kind, always, note=note)


def _column(of: Node, root: Node) -> tuple[str, str]:
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
