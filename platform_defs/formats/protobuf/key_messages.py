"""Keys that Protobuf's serializers write: a whole message, of any type of its schema, as parsed JSON."""

from typing import Any

from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema
from platform_defs.formats.protobuf.descriptors import file_of
from platform_defs.formats.protobuf.json_tree import json_of_message
from platform_defs.formats.protobuf.message_index import message_at, types_of
from platform_defs.formats.protobuf.shapes import MessageShape
from platform_defs.formats.protobuf.tree import RefusedMessage, TreeReader


class KeyMessages:
    """Reads single keys of one schema."""

    def __init__(self, writer: WriterSchema, *, framed: bool) -> None:
        """framed: keys begin with the indexes of their message. Raises SchemaNotCompatible."""
        self._types, self._framed = types_of(file_of(writer)), framed
        if not self._types:
            raise SchemaNotCompatible(["the schema defines no message"])
        self._deepest = max(map(len, self._types))
        self._shapes = dict[str, MessageShape]()  # they cache their fields

    def read(self, key: bytes) -> Any:
        """Return the document of one key, in Protobuf's own mapping to JSON (json_tree.py), or a Reason."""
        found = message_at(key, self._types, self._deepest) if self._framed else (self._types[0,][0], 0)
        if isinstance(found, Reason):
            return found
        of, at = found
        shape = self._shapes.setdefault(of.full_name, MessageShape(of))
        try:
            return json_of_message(shape, TreeReader(key).read(shape, at))
        except RefusedMessage as refused:
            return refused.reason
