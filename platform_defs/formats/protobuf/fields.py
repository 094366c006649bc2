"""The fields of a Protobuf schema, for people."""

from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from platform_defs.contract.model.column_types import JSON, ColumnType, array_or_json, column_type
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.formats.blocks.writer_schema import MAX_LEVELS, SchemaNotCompatible, WriterField, WriterSchema
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.formats.protobuf.message_index import types_of
from platform_defs.formats.protobuf.resolve import WRAPPERS, is_genuine, type_name
from platform_defs.formats.protobuf.shapes import KINDS

SCALARS = {  # the column's type, by kind
    **{
        "string": "string",
        "enum": "string",
        "bytes": "bytes",
        "bool": "boolean",
        "double": "double",
        "float": "double",
    },
    **dict.fromkeys((kind for kind in KINDS.values() if "int" in kind or "fixed" in kind), "integer"),
}
MESSAGES = {  # by a message of one value: the column's type
    "google.type.Date": "date",
    "google.protobuf.Timestamp": "timestamp",
    **{name: SCALARS[name.split(".")[-1].removesuffix("Value").lower()] for name in WRAPPERS},
}


def protobuf_fields(writer: WriterSchema, record: str) -> Iterator[WriterField]:
    """See `writer_fields.fields_of`."""
    found = [of for types in types_of(file_of(writer)).values() for of in types if record in ("", of.full_name)]
    if not found:
        raise SchemaNotCompatible([f"the schema does not define the message {record}" if record else "it is empty"])
    return _within((), (), found[0], optional=False)


def _within(path: MessagePath, in_json: MessagePath, of: Descriptor, *, optional: bool) -> Iterator[WriterField]:
    for item in of.fields:
        place, other = (*path, item.name), (*in_json, item.json_name)
        lacking = optional or item.has_presence
        inner = item.message_type  # taken apart if it is a single message of the schema's own
        if inner is not None and (not inner.fields or inner.full_name.startswith(("google.", "confluent."))):
            inner = None
        if inner is not None and not item.is_repeated and len(place) < MAX_LEVELS:
            yield from _within(place, other, inner, optional=lacking)
        else:
            yield WriterField(
                path=place,
                type=type_name(item),
                optional=lacking,
                reads_as=_column(item),
                spelled_as=(other,),
                number=item.number,
            )


def _column(item: FieldDescriptor) -> ColumnType:
    if item.is_repeated:
        is_wrapper = item.message_type is not None and item.message_type.full_name.endswith("Value")
        return JSON if is_wrapper else array_or_json(_single(item))
    return _single(item)


def _single(item: FieldDescriptor) -> ColumnType:
    if item.message_type is not None:
        found = MESSAGES.get(item.message_type.full_name, "json")
        return column_type(found) if is_genuine(item.message_type) else JSON
    return column_type(SCALARS.get(KINDS[item.type], "json"))
