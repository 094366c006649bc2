"""The key of one message of an upsert, as the text that identifies the row: by verify's own readers."""

import json
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any, cast

from google.protobuf.descriptor import Descriptor

from platform_defs.contract.model.column_types import JSON
from platform_defs.contract.model.contract import Contract, Field
from platform_defs.verify.decoders.avro import AvroValidator
from platform_defs.verify.decoders.documents import (
    Document,
    Long,
    NotTheType,
    Number,
    Pairs,
    canonical_number,
    check_jsonb,
    compact,
    parse,
)
from platform_defs.verify.decoders.protobuf import indexed_message
from platform_defs.verify.decoders.protobuf_json import message_document
from platform_defs.verify.decoders.protobuf_schema import message_types
from platform_defs.verify.decoders.protobuf_wire import read, whole
from platform_defs.verify.validators.known_schemas import KnownSchemas, Named, NamedSchema, taken_apart
from platform_defs.verify.validators.validator import NoRow, key_text

Types = dict[tuple[int, ...], set[Descriptor]]  # as `message_types` returns them
_WRAPPED = "wrapped"


class KeyValidator:
    """Keys that are plain text."""

    def at(self, partition: int, offset: int, key: bytes | None, header: bytes | None) -> str | NoRow:  # noqa: ARG002
        """Return a message key as an upsert table stores it, or the reason why it cannot. `header` names its schema, if
        any.
        """
        return key_text(key)


class FramedKeyValidator(KeyValidator):
    """Keys that name their schemas."""

    def __init__(self, contract: Contract, schemas: KnownSchemas) -> None:
        self._contract, self._schemas = contract, schemas
        self._readers: dict[NamedSchema, AvroValidator | NoRow] = {}
        self._types: dict[NamedSchema, Types | NoRow] = {}

    def at(self, partition: int, offset: int, key: bytes | None, header: bytes | None) -> str | NoRow:
        """See `KeyValidator.at`."""
        if key is None:
            return NoRow("MissingKey")
        wire = self._contract.wire
        named = taken_apart(wire.framing, key, header, protobuf=wire.key_format == "protobuf")
        if isinstance(named, NoRow):
            return named
        schema = self._schemas.at(partition, offset).get(named.key)
        if schema is None:
            return NoRow("UnknownSchemaId")
        if schema.format != wire.key_format:
            return NoRow("WrongSchemaType")
        if schema.encrypted:
            return NoRow("SchemaNotCompatible")
        try:
            return _key_text(self._document(schema, named))
        except NotTheType as wrong:
            return NoRow(str(wrong))

    def _document(self, schema: NamedSchema, named: Named) -> Document:
        match schema.format:
            case "json":
                return parse(named.payload)
            case "avro":
                return self._avro(schema, named.payload)
            case _:
                return _protobuf(self._types_of(schema), named)

    def _types_of(self, schema: NamedSchema) -> Types:
        """Return the message types of a Protobuf schema. Failures are cached too."""
        if schema not in self._types:
            try:
                self._types[schema] = message_types(schema.document, schema.references)
            except NotTheType as wrong:
                self._types[schema] = NoRow(str(wrong))
        found = self._types[schema]
        if isinstance(found, NoRow):
            raise NotTheType(found.reason)
        return found

    def _avro(self, schema: NamedSchema, payload: bytes) -> Document:
        if schema not in self._readers:
            self._readers[schema] = _avro_reader(self._contract, schema)
        reader = self._readers[schema]
        if isinstance(reader, NoRow):
            raise NotTheType(reader.reason)
        (text,) = reader.values(payload)
        return None if text is None else parse(text.encode())


def key_validator_of(contract: Contract, schemas: Callable[[], KnownSchemas]) -> KeyValidator:
    """Return the validator of an upsert's keys; `schemas` is only called if they name any."""
    return KeyValidator() if contract.wire.key_format == "text" else FramedKeyValidator(contract, schemas())


def _avro_reader(contract: Contract, schema: NamedSchema) -> AvroValidator | NoRow:
    """Return the reader of a record with only the key, which has the key's own encoding."""
    one = replace(
        contract,
        format="avro",
        fields=(Field(_WRAPPED, JSON, required=False, rules=()),),
        wire=replace(contract.wire, record=""),
    )
    try:
        record = {"name": "Key", "type": "record", "fields": [{"name": _WRAPPED, "type": json.loads(schema.document)}]}
        return AvroValidator(one, json.dumps(record), schema.references)
    except NotTheType as wrong:
        return NoRow(str(wrong))
    except (ValueError, RecursionError):
        return NoRow("SchemaNotCompatible")


def _protobuf(types: Types, named: Named) -> Document:
    """Return the message type that the key names, decoded; the schema's first if a header names no other."""
    if not types:
        raise NotTheType("SchemaNotCompatible")
    if named.message == b"":
        (of,), payload, at = types[0,], named.payload, 0
    else:
        payload = (named.message or b"") + named.payload
        of, at = indexed_message(payload, types)
    return message_document(of, read(payload, whole(of), at))


def _key_text(document: Document) -> str:
    if document is None:
        raise NotTheType("MissingKey")
    check_jsonb(document)
    if isinstance(document, str) and not isinstance(document, Number):
        return document
    return compact(_in_one_spelling(document))


def _in_one_spelling(document: Any) -> Any:
    """Return the document sorted by name, with canonical numbers, also those that JSON writes as strings."""
    match document:
        case Pairs():
            return Pairs((name, _in_one_spelling(inner)) for name, inner in sorted(document, key=itemgetter(0)))
        case list():
            return list(map(_in_one_spelling, cast("list[Any]", document)))
        case Number():
            return Number(canonical_number(document))
        case Long():
            return Number(canonical_number(Number(document)))
        case _:
            return document
