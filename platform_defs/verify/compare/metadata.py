"""The metadata fields of one message (key, timestamp, headers, place) in plain Python, and their rules.

Written for verify alone, like validator.py.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from platform_defs.contract.model.contract import Contract, Field
from platform_defs.verify.decoders.documents import (
    Document,
    NotTheType,
    Number,
    Pairs,
    jsonb_text,
    parse,
    stored_text,
    utf8,
)
from platform_defs.verify.decoders.values import after_1970, reader
from platform_defs.verify.source.messages import Chunk
from platform_defs.verify.validators.key_validators import KeyValidator
from platform_defs.verify.validators.known_schemas import last_header
from platform_defs.verify.validators.validator import FieldValidator, NoRow, Row

_KINDS: Mapping[int, str] = {1: "CreateTime", 2: "LogAppendTime"}


class MetadataValidator:
    """Validates the metadata of a contract's messages."""

    def __init__(self, contract: Contract, keys: KeyValidator) -> None:
        self._topic, self._keys = contract.topic, keys
        self._fields = [(item, FieldValidator(item, 0), reader(item.type)) for item in contract.metadata_fields]

    def at(self, chunk: Chunk, place: int) -> Row | NoRow:
        """Return a value for each field of the message at this place of the chunk, or the reason why it is not a row:
        types are checked before rules.
        """
        try:
            row = tuple(self._value(item, read, chunk, place) for item, _, read in self._fields)
        except NotTheType as wrong:
            return NoRow(str(wrong))
        broken = (validator.broken_rule(value) for (_, validator, _), value in zip(self._fields, row, strict=True))
        rule = next(filter(None, broken), None)
        return NoRow(rule) if rule else row

    def _value(self, item: Field, read: Callable[[Any], Any], chunk: Chunk, place: int) -> Any:
        if item.source == "headers" or item.header is not None:
            headers = chunk.headers[place]
            if headers is None:
                raise NotTheType("InvalidUtf8")
            if item.header is None:
                return jsonb_text([Pairs(_member(name, value)) for name, value in headers])
            value = last_header(headers, item.header)
            return None if value is None else _typed(value, item.type.kind, read)
        match item.source:
            case "key":
                return self._key(item, chunk, place)
            case "timestamp":
                return _time(*chunk.timestamps[place])
            case "timestampType":
                return _KINDS.get(chunk.timestamps[place][0])
            case _:
                return {"topic": self._topic, "partition": chunk.partition, "offset": chunk.offsets[place]}[item.source]

    def _key(self, item: Field, chunk: Chunk, place: int) -> Any:
        key = chunk.keys[place]
        if key is None or item.type.kind == "bytes":
            return key
        found = self._keys.at(chunk.partition, chunk.offsets[place], key, chunk.key_names[place])
        if not isinstance(found, NoRow):
            return found
        if found.reason == "MissingKey":
            return None
        raise NotTheType(found.reason)


def _time(kind: int, milliseconds: int) -> datetime | None:
    known = kind in _KINDS and milliseconds != -1
    return after_1970(microseconds=milliseconds * 1_000) if known else None


def _member(name: str, value: bytes | None) -> list[tuple[str, Document]]:
    if value is None:
        return [("name", name), ("value", None)]
    try:
        return [("name", name), ("value", stored_text(value))]
    except NotTheType:
        return [("name", name), ("value", b64encode(value).decode("ascii")), ("encoding", "base64")]


def _typed(value: bytes, kind: str, read: Callable[[Any], Any]) -> Any:
    if kind == "bytes":
        return value
    text = utf8(value)
    if kind == "boolean":
        return read(text == "true" if text in ("true", "false") else text)
    return read(_number(text) if kind in ("integer", "double") else text)


def _number(text: str) -> Any:
    """Return the JSON number in the text; the text if it is none."""
    if not text or text[0] not in "-0123456789" or text != text.rstrip():
        return text
    try:
        found = parse(text.encode())
    except NotTheType:
        return text
    return found if isinstance(found, Number) else text


def offered_value(name: str, chunk: Chunk, place: int) -> Any:
    """Return the value of a column of OFFERED for the message at this place of the chunk."""
    if name == "_key":
        return chunk.keys[place]
    if name == "_headers":
        headers = chunk.headers[place]
        return None if headers is None else [{"key": key, "value": value} for key, value in headers]
    try:
        return _time(*chunk.timestamps[place])
    except NotTheType:
        return None
