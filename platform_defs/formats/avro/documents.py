"""JSON documents for `json` columns, from Avro values of any type. No digit is lost.

null, boolean            null, true, false
int, long                a number
float, double            a number, with the digits that a double needs
string, enum, uuid       a string
bytes, fixed             a string: base64
decimal                  a number, with as many decimals as its scale
date, time               "2026-11-01", "10:00:00.123"; only the decimals that are needed, whatever the unit
timestamp                "2026-11-01T10:00:00.123Z", "2026-11-01T10:00:00Z"; local-timestamp the same without Z
array, map, record       an array, an object
union                    its branch
"""

import base64
import math
from datetime import date, timedelta
from typing import Any, TypeVar
from uuid import UUID

from platform_defs.formats.avro.schema import (
    NULL,
    Array,
    AvroType,
    Enum,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    Schema,
    Union,
)
from platform_defs.formats.avro.walk import Walk, Wrong
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.json.json_text import MAX_BYTES, json_text
from platform_defs.formats.json.values import JsonInteger, JsonNumber, JsonObject

MAX_EMPTY = 1_000  # values that take no byte, in a document: else a few bytes could stand for any number of them
_MAX_DECIMAL_BYTES, _MAX_SCALE = 400, 1_000  # of a decimal
Text = TypeVar("Text", bound=str)

_EPOCH = date(1970, 1, 1)
_DAY = 86_400
_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}


def json_of(schema: Schema, of: AvroType, data: bytes) -> str | None:
    """Return the text of the value of type `of` at the start of `data`, which has been walked; None (SQL's null) for a
    null value. Raises Wrong.
    """
    document = _Documents(schema, data).document(of)
    text = None if document is None else json_text(document)
    if isinstance(text, Reason):
        raise Wrong(text.error_class, text.message)
    return text


class _Documents:
    """Builds the parts of one document. Stops if it becomes larger than a json column takes, since a byte of the
    message can stand for a long name.
    """

    def __init__(self, schema: Schema, data: bytes) -> None:
        self.schema, self.walk = schema, Walk(schema, data)
        self.empty = self.spelt = 0

    def document(self, of: AvroType) -> Any:
        """Return the value as `json.single` parses it: numbers as their text, objects as pairs."""
        found = self.schema.definite(of)
        match found:
            case Primitive():
                return self._primitive(found)
            case Record():
                return self._record(found)
            case Fixed():
                start = self.walk.take(found.size)
                self._count_empty(found.size == 0)
                return self._spell(_bytes(self.walk.data[start : self.walk.at], found.logical))
            case Enum():
                return self._spell(self.walk.symbol(found))
            case Union():
                branch = self.walk.branch(found)
                return None if branch == NULL else self.document(branch)
            case Array():
                return self._array(found)
            case Map():
                return self._map(found)

    def _primitive(self, of: Primitive) -> Any:
        match of.name:
            case "null":
                self._count_empty(True)
                return None
            case "boolean":
                return self.walk.boolean()
            case "int" | "long":
                return self._spell(_integer(self.walk.long(), of.logical))
            case "float" | "double":
                return self._spell(_number(self.walk.real(of.name)))
            case "bytes" | "string":
                start, stop = self.walk.span()
                value = self.walk.data[start:stop]
                return self._spell(text_of(value) if of.name == "string" else _bytes(value, of.logical))

    def _record(self, of: Record) -> JsonObject:
        self._count_empty(not of.fields)
        self.walk.deeper()
        pairs = JsonObject((self._spell(item.name), self.document(item.type)) for item in of.fields)
        self.walk.depth -= 1
        return pairs

    def _array(self, of: Array) -> list[Any]:
        items, empty = list[Any](), self.schema.is_empty(of.items)
        for count in self.walk.blocks(empty=empty):
            if empty and count > MAX_EMPTY:
                raise _too_many()
            items += [self.document(of.items) for _ in range(count)]
        return items

    def _map(self, of: Map) -> JsonObject:
        pairs = JsonObject()
        for count in self.walk.blocks(empty=False):
            for _ in range(count):
                start, stop = self.walk.span()
                pairs.append((self._spell(text_of(self.walk.data[start:stop])), self.document(of.values)))
        return pairs

    def _spell(self, text: Text) -> Text:
        """Count the characters of a name, a string or a number."""
        self.spelt += len(text)
        if self.spelt > MAX_BYTES:
            raise Wrong("TooLarge", f"is more than {MAX_BYTES:,} bytes of JSON, the limit of a json column")
        return text

    def _count_empty(self, is_empty: bool) -> None:
        self.empty += is_empty
        if self.empty > MAX_EMPTY:
            raise _too_many()


def text_of(value: bytes) -> str:
    """Return the text. Raises Wrong if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError as wrong:
        shown = excerpt(value[max(0, wrong.start - 20) : wrong.start + 20])
        raise Wrong("InvalidUtf8", f"is not UTF-8 at its byte {wrong.start} ({wrong.reason}), near {shown}") from None


def _too_many() -> Wrong:
    return Wrong("TooManyItems", f"has more than {MAX_EMPTY:,} values that take no bytes in the message")


def _number(value: float) -> JsonNumber:
    if not math.isfinite(value):
        raise Wrong("NotFinite", f"holds {value}; a JSON number is finite")
    return JsonNumber(repr(value))


def _integer(value: int, logical: Logical | None) -> str:
    if logical is None:
        return JsonInteger(value)
    kind, _, unit = logical.name.rpartition("-")
    if not kind:
        return _date(value)
    per_second, digits = 10 ** _DIGITS[unit], _DIGITS[unit]
    if kind == "time":
        if not 0 <= value < _DAY * per_second:
            raise Wrong("OutOfRange", f"holds the time {value}; a day has {_DAY * per_second:,} {unit}")
        return _time(value, per_second, digits)
    day, rest = divmod(value, _DAY * per_second)
    return f"{_date(day)}T{_time(rest, per_second, digits)}{'Z' if kind == 'timestamp' else ''}"


def _date(days: int) -> str:
    try:
        return (_EPOCH + timedelta(days)).isoformat()
    except OverflowError:
        raise Wrong("OutOfRange", f"holds a date {days:,} days from 1970; years run from 0001 to 9999") from None


def _time(value: int, per_second: int, digits: int) -> str:
    seconds, fraction = divmod(value, per_second)
    at = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{at}.{fraction:0{digits}}".rstrip("0") if fraction else at


def _bytes(value: bytes, logical: Logical | None) -> str:
    if logical is None:
        return base64.b64encode(value).decode()
    return str(UUID(bytes=value)) if logical.name == "uuid" else _decimal(value, logical.scale)


def _decimal(value: bytes, scale: int) -> JsonNumber:
    if len(value) > _MAX_DECIMAL_BYTES or scale > _MAX_SCALE:
        raise Wrong("OutOfRange", f"holds a decimal of {len(value):,} bytes and scale {scale:,}")
    number = int.from_bytes(value, "big", signed=True)
    digits = str(abs(number)).rjust(scale + 1, "0")
    text = f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
    return (JsonNumber if scale else JsonInteger)(f"-{text}" if number < 0 else text)
