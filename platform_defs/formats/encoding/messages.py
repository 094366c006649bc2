"""A contract's messages, made from JSON documents and texts of keys, with the ids of their schemas."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from platform_defs.contract.model.contract import Contract
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.encoding.documents import parse_document
from platform_defs.formats.framing import HEADERS

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class MessageSchemas:
    """The schemas that messages are written with."""

    value: WriterSchema
    key: WriterSchema | None = None  # if keys are written with a schema


@dataclass(frozen=True)
class MessageEncoder:
    """Encodes values and keys. `schemas`: None for JSON that names no schema."""

    contract: Contract
    schemas: MessageSchemas | None

    def value(self, document: bytes) -> bytes:
        """Return the value of a message. JSON is sent as it is written. Raises CannotEncode."""
        encode, _ = self._encoder
        return self.framing[0] + (document if encode is None else encode(parse_document(document)))

    def key(self, text: str) -> bytes:
        """Return the key of a message. Raises CannotEncode if keys have a schema that is not of a text."""
        if self.schemas is None or self.schemas.key is None:
            return text.encode()
        return key_encoder(self.contract, self.schemas.key)(text)

    @cached_property
    def framing(self) -> tuple[bytes, Headers]:
        """The bytes in front of each payload, and the headers of each message."""
        return (b"", ()) if self.schemas is None else framing(self.contract, self.schemas, self._encoder[1])

    @cached_property
    def _encoder(self) -> tuple[Callable[[Any], bytes] | None, bytes]:
        """The function that encodes documents, None for JSON; and Protobuf's index of the message."""
        if self.schemas is None or self.contract.format == "json":
            return None, b""
        if self.contract.format == "avro":  # a format that is not used is not imported
            from platform_defs.formats.encoding.avro import avro_encoder

            return avro_encoder(self.schemas.value, self.contract.wire.record).encode, b""
        from platform_defs.formats.encoding.protobuf import protobuf_encoder

        found = protobuf_encoder(self.schemas.value, self.contract.wire.record)
        return found.encode, found.index


def framing(contract: Contract, schemas: MessageSchemas, index: bytes) -> tuple[bytes, Headers]:
    """Return the bytes before each payload, and the headers of each message. `index`: Protobuf's, of the message."""
    if not contract.wire.framed:
        return b"", ()
    named = _id(schemas.value) + index
    if contract.wire.framing != "header":
        return named, ()
    keys = ((HEADERS["key"], _id(schemas.key)),) if schemas.key else ()
    return b"", ((HEADERS["value"], named), *keys)


def key_encoder(contract: Contract, schema: WriterSchema, *, alone: bool = True) -> Callable[[str], bytes]:
    """Return the function that encodes the text of a key; it raises CannotEncode if the schema is not of a text. In a
    Protobuf key the text is `alone`, or one field of several.
    """
    before = b"" if contract.wire.framing == "header" else _id(schema)
    match contract.wire.key_format:
        case "text":
            return str.encode
        case "json":
            return lambda text: before + json.dumps(text, ensure_ascii=False).encode()
        case "avro":
            from platform_defs.formats.encoding.avro import avro_text  # a format that is not used is not imported

            return lambda text: before + avro_text(schema, text)
        case "protobuf":
            from platform_defs.formats.encoding.protobuf import protobuf_text

            return lambda text: before + protobuf_text(schema, text, alone=alone)


def _id(schema: WriterSchema) -> bytes:
    return b"\0" + int(schema.key).to_bytes(4, "big")
