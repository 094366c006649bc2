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
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from platform_defs.errors.words import plural
from platform_defs.formats.avro import schema as avro
from platform_defs.formats.avro.walk import Walk
from platform_defs.formats.blocks.reason import Wrong, unless_wrong
from platform_defs.formats.blocks.texts import utf8_text
from platform_defs.formats.json.json_text import MAX_BYTES, json_text
from platform_defs.formats.json.values import JsonInteger, JsonNumber, JsonObject
from platform_defs.times import EPOCH

MAX_EMPTY = 1_000  # values that take no byte, in a document: else a few bytes could stand for any number of them
_MAX_DECIMAL_BYTES, _MAX_SCALE = 400, 1_000  # of a decimal
Text = TypeVar("Text", bound=str)

_DAY = 86_400
_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}


def json_of(schema: avro.Schema, of: avro.AvroType, data: bytes) -> str | None:
    """Return the text of the value of type `of` at the start of `data`, which has been walked; None (SQL's null) for a
    null value. Raises Wrong.
    """
    document = _Documents(schema, data).document(of)
    return None if document is None else unless_wrong(json_text(document))


class _Documents:
    """Builds the parts of one document. Stops if it becomes larger than a json column takes, since a byte of the
    message can stand for a long name.
    """

    def __init__(self, schema: avro.Schema, data: bytes) -> None:
        self.schema, self.walk = schema, Walk(schema, data)
        self.empty = self.characters = 0

    def document(self, of: avro.AvroType) -> Any:
        """Return the value as `json.single` parses it: numbers as their text, objects as pairs."""
        found = self.schema.definite(of)
        match found:
            case avro.Primitive():
                return self._primitive(found)
            case avro.Record():
                self._count_empty(not found.fields)
                self.walk.deeper()
                pairs = JsonObject((self._count(item.name), self.document(item.type)) for item in found.fields)
                self.walk.depth -= 1
                return pairs
            case avro.Fixed():
                self._count_empty(found.size == 0)
                return self._count(_bytes(self.walk.scalar(found), found.logical))
            case avro.Enum():
                return self._count(self.walk.symbol(found))
            case avro.Union():
                branch = self.walk.branch(found)
                return None if branch == avro.NULL else self.document(branch)
            case avro.Array():
                return self._array(found)
            case avro.Map():
                return self._map(found)

    def _primitive(self, of: avro.Primitive) -> Any:
        value = self.walk.scalar(of)
        match of.name:
            case "null" | "boolean":
                self._count_empty(value is None)
                return value
            case "int" | "long":
                return self._count(_integer(value, of.logical))
            case "float" | "double":
                if not math.isfinite(value):
                    raise Wrong("NotFinite", f"holds {value}; a JSON number is finite")
                return self._count(JsonNumber(repr(value)))
            case "bytes" | "string":
                return self._count(unless_wrong(utf8_text(value)) if of.name == "string" else _bytes(value, of.logical))

    def _array(self, of: avro.Array) -> list[Any]:
        items, empty = list[Any](), self.schema.is_empty(of.items)
        for count in self.walk.blocks(empty=empty):
            if empty and count > MAX_EMPTY:
                raise _too_many()
            items += [self.document(of.items) for _ in range(count)]
        return items

    def _map(self, of: avro.Map) -> JsonObject:
        pairs = JsonObject()
        for count in self.walk.blocks(empty=False):
            for _ in range(count):
                pairs.append((self._count(unless_wrong(utf8_text(self.walk.span()))), self.document(of.values)))
        return pairs

    def _count(self, text: Text) -> Text:
        """Count the characters of a name, a string or a number."""
        self.characters += len(text)
        if self.characters > MAX_BYTES:
            raise Wrong("TooLarge", f"is more than {MAX_BYTES:,} bytes of JSON, the limit of a json column")
        return text

    def _count_empty(self, is_empty: bool) -> None:
        self.empty += is_empty
        if self.empty > MAX_EMPTY:
            raise _too_many()


def _too_many() -> Wrong:
    return Wrong("TooManyItems", f"has more than {MAX_EMPTY:,} values that take no bytes in the message")


def _integer(value: int, logical: avro.Logical | None) -> str:
    if logical is None:
        return JsonInteger(value)
    kind, _, unit = logical.name.rpartition("-")
    if not kind:
        return _date(value)
    per_second = 10 ** _DIGITS[unit]
    if kind == "time":
        if not 0 <= value < _DAY * per_second:
            raise Wrong("OutOfRange", f"holds the time {value}; a day has {_DAY * per_second:,} {unit}")
        return clock(value, per_second)
    day, rest = divmod(value, _DAY * per_second)
    return f"{_date(day)}T{clock(rest, per_second)}{'Z' if kind == 'timestamp' else ''}"


def _date(days: int) -> str:
    try:
        return (EPOCH.date() + timedelta(days)).isoformat()
    except OverflowError:
        raise Wrong("OutOfRange", f"holds a date {days:,} days from 1970; years run from 0001 to 9999") from None


def clock(ticks: int, per_second: int) -> str:
    """Format a time of a day: 10:00:00.123; only the decimals that are needed."""
    seconds, fraction = divmod(ticks, per_second)
    at = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{at}.{fraction:0{len(str(per_second)) - 1}}".rstrip("0") if fraction else at


def _bytes(value: bytes, logical: avro.Logical | None) -> str:
    if logical is None:
        return base64.b64encode(value).decode()
    return str(UUID(bytes=value)) if logical.name == "uuid" else _decimal(value, logical.scale)


def _decimal(value: bytes, scale: int) -> JsonNumber:
    if len(value) > _MAX_DECIMAL_BYTES or scale > _MAX_SCALE:
        most = f"at most {_MAX_DECIMAL_BYTES:,} bytes and scale {_MAX_SCALE:,} are supported"
        raise Wrong("OutOfRange", f"holds a decimal of {plural(len(value), 'byte')} and scale {scale:,}; {most}")
    text = with_point(int.from_bytes(value, "big", signed=True), scale)
    return JsonNumber(text) if scale else JsonInteger(text)


def with_point(unscaled: int, scale: int) -> str:
    """Format unscaled * 10**-scale, with `scale` decimals."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
    return f"-{text}" if unscaled < 0 else text
