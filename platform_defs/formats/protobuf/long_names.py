"""Names that would be repeated again and again, for a byte or two of a message each time."""

from collections.abc import Iterable, Iterator

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto

from platform_defs.formats.blocks.budget import too_long
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible


def refuse_long_names(file: FileDescriptorProto) -> None:
    """Raise SchemaNotCompatible if a field, or a value of an enum, has a longer name than MAX_NAME."""
    for name in (*_of_enums(file.enum_type), *_of_messages(file.message_type)):
        if why := too_long(name):
            raise SchemaNotCompatible([f"the schema cannot be read: {why}"])


def _of_messages(messages: Iterable[DescriptorProto]) -> Iterator[str]:
    for of in messages:
        yield from (field.name for field in of.field)
        yield from _of_enums(of.enum_type)
        yield from _of_messages(of.nested_type)


def _of_enums(enums: Iterable[EnumDescriptorProto]) -> Iterator[str]:
    for of in enums:
        yield from (value.name for value in of.value)
