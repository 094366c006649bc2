"""The fields of a JSON Schema, for people. No message is read by it: the contract's rules judge JSON."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from platform_defs.contract.column_types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    JSON,
    STRING,
    TIME,
    TIMESTAMP,
    UUID,
    ColumnType,
)
from platform_defs.contract.message_path import MessagePath
from platform_defs.formats.writer_fields import MOST_LEVELS, WriterField
from platform_defs.formats.writer_schema import SchemaNotCompatible, WriterSchema

_PLAIN = {"string": STRING, "integer": INTEGER, "number": DOUBLE, "boolean": BOOLEAN}
_FORMATS = {"date": DATE, "date-time": TIMESTAMP, "time": TIME, "uuid": UUID}
Node = Mapping[str, Any]


def json_fields(writer: WriterSchema) -> Iterator[WriterField]:
    """See `writer_fields.fields_of`. What the schema says of its keys by reference or condition is not among them."""
    try:
        document = json.loads(writer.document)
    except (ValueError, RecursionError) as wrong:
        raise SchemaNotCompatible([f"the schema is not JSON: {wrong}"]) from None
    return _within((), _node(document), optional=False)


def _within(path: MessagePath, of: Node, *, optional: bool) -> Iterator[WriterField]:
    required = of.get("required")
    always = cast("list[Any]", required) if isinstance(required, list) else []
    for name, raw in _node(of.get("properties")).items():
        item, place = _node(raw), (*path, name)
        types = _types(item)
        lacking = optional or name not in always or "null" in types
        kinds = [kind for kind in types if kind != "null"]
        if kinds == ["object"] and item.get("properties") and len(place) < MOST_LEVELS:
            yield from _within(place, item, optional=lacking)
        else:
            yield WriterField(place, _words(kinds, item), lacking, _column(kinds, item))


def _types(item: Node) -> list[str]:
    given: Any = item.get("type")
    listed = cast("list[Any]", given if isinstance(given, list) else [given])
    return [kind for kind in listed if isinstance(kind, str)]


def _words(kinds: list[str], item: Node) -> str:
    written = item.get("format")
    behind = f" ({written})" if isinstance(written, str) else ""
    return (" or ".join(kinds) or "any") + behind


def _column(kinds: list[str], item: Node) -> ColumnType:
    if len(kinds) != 1:
        return JSON
    written = item.get("format")
    of = _FORMATS.get(written) if kinds == ["string"] and isinstance(written, str) else None
    return of or _PLAIN.get(kinds[0], JSON)


def _node(raw: Any) -> Node:
    return cast("Node", raw) if isinstance(raw, dict) else {}
