"""The fields of a JSON Schema, for people. No message is read by it: the contract's rules validate JSON."""

import json
from collections.abc import Iterator

from platform_defs.contract.model.column_types import JSON
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.formats.blocks.writer_field import MAX_LEVELS, WriterField
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema
from platform_defs.formats.json.schema_types import Node, column_of, kinds_of, meant, node, required_by


def json_fields(writer: WriterSchema) -> Iterator[WriterField]:
    """See `writer_fields.fields_of`. Keys that the schema has by condition are not included."""
    try:
        root = node(json.loads(writer.document))
    except (ValueError, RecursionError) as wrong:
        raise SchemaNotCompatible([f"the schema is not JSON: {wrong}"]) from None
    top, _ = meant(root, root)
    return _within((), top or {}, root, optional=False)


def _within(path: MessagePath, of: Node, root: Node, *, optional: bool) -> Iterator[WriterField]:
    always = required_by(of)
    for name, raw in node(of.get("properties")).items():
        place, (found, nullable) = (*path, name), meant(raw, root)
        lacking = optional or nullable or name not in always
        if found and node(found.get("properties")) and len(place) < MAX_LEVELS:
            yield from _within(place, found, root, optional=lacking)
        else:
            column = column_of(found, root) if found is not None else JSON
            kinds = " or ".join(sorted((kinds_of(raw, root) or frozenset()) - {"null"})) or "any"
            written = found.get("format") if found else None
            words = f"{kinds} ({written})" if isinstance(written, str) else kinds  # string (date-time)
            yield WriterField(place, words, lacking, column)
