"""The key of one message of an upsert, as the text that identifies the row: by verify's own readers."""

import json
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any, cast

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
    stored_text,
)
from platform_defs.verify.decoders.protobuf import indexed_message
from platform_defs.verify.decoders.protobuf_json import message_document
from platform_defs.verify.decoders.protobuf_schema import message_types
from platform_defs.verify.decoders.protobuf_wire import read, whole
from platform_defs.verify.validators.known_schemas import KnownSchemas, Named, NamedSchema, cached, unframed
from platform_defs.verify.validators.validator import NoRow

_WRAPPED = "wrapped"


class KeyValidator:
    """Keys that are plain text."""

    def at(self, partition: int, offset: int, key: bytes | None, header: bytes | None) -> str | NoRow:  # noqa: ARG002
        """Return a message key as an upsert table stores it, or the reason why it cannot. `header` names its schema, if
        any.
        """
        try:
            return NoRow("MissingKey") if key is None else stored_text(key)
        except NotTheType as wrong:
            return NoRow(str(wrong))


class FramedKeyValidator(KeyValidator):
    """Keys that name their schemas."""

    def __init__(self, contract: Contract, schemas: KnownSchemas) -> None:
        self._contract, self._schemas = contract, schemas
        self._reader = cached(self._new_reader)

    def at(self, partition: int, offset: int, key: bytes | None, header: bytes | None) -> str | NoRow:
        """See `KeyValidator.at`."""
        if key is None:
            return NoRow("MissingKey")
        wire = self._contract.wire
        try:
            named = unframed(wire.framing, key, header, protobuf=wire.key_format == "protobuf")
            schema = self._schemas.named(named.key, wire.key_format, partition, offset)
            return _key_text(self._reader(schema)(named))
        except NotTheType as wrong:
            return NoRow(str(wrong))

    def _new_reader(self, schema: NamedSchema) -> Callable[[Named], Document]:
        match schema.format:
            case "json":
                return lambda named: parse(named.payload)
            case "avro":
                return _avro_reader(self._contract, schema)
            case _:
                return _protobuf_reader(schema)


def key_validator_of(contract: Contract, schemas: Callable[[], KnownSchemas]) -> KeyValidator:
    """Return the validator of an upsert's keys; `schemas` is only called if they name any."""
    return KeyValidator() if contract.wire.key_format == "text" else FramedKeyValidator(contract, schemas())


def _avro_reader(contract: Contract, schema: NamedSchema) -> Callable[[Named], Document]:
    """Return the reader of a record with only the key, which has the key's own encoding."""
    one = replace(
        contract,
        format="avro",
        fields=(Field(_WRAPPED, JSON, required=False, rules=()),),
        wire=replace(contract.wire, record=""),
    )
    try:
        record = {"name": "Key", "type": "record", "fields": [{"name": _WRAPPED, "type": json.loads(schema.document)}]}
        document = json.dumps(record)
    except (ValueError, RecursionError):
        raise NotTheType("SchemaNotCompatible") from None
    values = AvroValidator(one, document, schema.references).values

    def read_key(named: Named) -> Document:
        (text,) = values(named.payload)
        return None if text is None else parse(text.encode())

    return read_key


def _protobuf_reader(schema: NamedSchema) -> Callable[[Named], Document]:
    types = message_types(schema.document, schema.references)
    if not types:
        raise NotTheType("SchemaNotCompatible")

    def read_key(named: Named) -> Document:
        """Return the message type that the key names, decoded; the schema's first if a header names no other."""
        if named.message == b"":
            (of,), payload, at = types[0,], named.payload, 0
        else:
            payload = (named.message or b"") + named.payload
            of, at = indexed_message(payload, types)
        return message_document(of, read(payload, whole(of), at))

    return read_key


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
