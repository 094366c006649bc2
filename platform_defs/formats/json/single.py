"""A reader of one message at a time: slower than a block, and exact about errors. Its result is authoritative.

JSON is RFC 8259, with any whitespace around and within. Also refused are a byte-order mark and more than 100 levels of
nesting; NaN and Infinity are no numbers. A key that the contract knows may appear once in its object; unknown keys are
no fault, whatever their values. A field inside objects is null if one of them is missing or null; if one of them is
something else, that is a fault.
"""

import re
from functools import partial
from json import JSONDecodeError, JSONDecoder
from typing import Any, NoReturn

from platform_defs.contract.model.column_types import JSON
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.message_path import spell_path
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.decoded import Row
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.json.json_text import json_text
from platform_defs.formats.json.message_shape import ObjectShape, message_shape
from platform_defs.formats.json.values import (
    JsonInteger,
    JsonNumber,
    JsonObject,
    Reader,
    read_epoch,
    reader_of,
    wrong_type,
)

MAX_DEPTH = 100  # far below Python's recursion limit of 1,000, which json would run into

_strings = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)  # an unclosed string reaches to the end
_brackets = re.compile(rb"[^\[\]{}]+")
_BOM = b"\xef\xbb\xbf"


class MessageReader:
    """Reads single messages of one contract."""

    def __init__(self, contract: Contract) -> None:
        self._shape = message_shape(contract)
        self._fields = contract.fields
        self._readers: list[Reader] = [
            json_text if item.type == JSON else partial(read_epoch, item.unit) if item.unit else reader_of(item.type)
            for item in contract.fields
        ]

    def read(self, value: bytes | None) -> Row | Reason:
        """Return the row of the message, or the first reason why there is none."""
        document = parsed(value)
        if isinstance(document, Reason):
            return document
        if not isinstance(document, JsonObject):
            shown = excerpt((value or b"").decode().strip())
            return Reason("NotAnObject", f"the value is valid JSON but not an object: {shown}")
        found: list[Any] = [None] * len(self._fields)
        unknown = self._take_apart(document, self._shape, found)
        if isinstance(unknown, Reason):
            return unknown
        for position, (item, raw) in enumerate(zip(self._fields, found, strict=True)):
            if raw is None:
                continue
            read = raw if isinstance(raw, Reason) else self._readers[position](raw)
            if isinstance(read, Reason):
                return Reason(read.error_class, f"{item.place} {read.message}", item.name)
            found[position] = read
        return Row(found, unknown)

    def _take_apart(self, document: JsonObject, shape: ObjectShape, found: list[Any]) -> bool | Reason:
        """Put the object's values at their columns' positions in `found`: raw values, or a Reason for fields below a
        value that is not an object. Return True if a key is unknown; a Reason if a known key appears twice.
        """
        pairs = dict(document)
        if len(pairs) < len(document) and (twice := self._twice(document, shape)):
            return twice
        for key, positions in shape.columns.items():
            for position in positions:
                found[position] = pairs.get(key)
        unknown = not pairs.keys() <= shape.keys
        for key, below in shape.objects.items():
            inner = pairs.get(key)
            if isinstance(inner, JsonObject):
                deeper = self._take_apart(inner, below, found)
                if isinstance(deeper, Reason):
                    return deeper
                unknown = unknown or (deeper and key not in shape.whole)
            elif inner is not None:
                where = f"cannot be reached: {excerpt(spell_path(below.path))}"
                for position in below.positions:
                    found[position] = wrong_type(inner, "an object", where)
        return unknown

    def _twice(self, document: JsonObject, shape: ObjectShape) -> Reason | None:
        """Return a Reason for the first known key that appears again; None if there is none."""
        seen = set[str]()
        for key, _ in document:
            if key in seen:
                at = shape.columns.get(key) or shape.objects[key].positions
                path = excerpt(spell_path((*shape.path, key)))
                message = f"{path} appears twice in the message: it is ambiguous which value is meant"
                return Reason("DuplicateKey", message, self._fields[at[0]].name)
            if key in shape.keys:
                seen.add(key)
        return None


def too_deep(value: bytes) -> bool:
    """Return True if brackets nest deeper than MAX_DEPTH, outside of strings. Needs no valid JSON and no recursion."""
    if value.count(b"[") + value.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _brackets.sub(b"", _strings.sub(b"", value)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def parsed(value: bytes | None) -> Any:
    """Return any parsed JSON: None, a bool, str, JsonNumber, list or JsonObject; or the Reason why it is not JSON."""
    if value is None:
        return Reason("NullValue", "the message has no value (a tombstone); only upsert tables accept those")
    if not value.strip():
        what = f"blank: {plural(len(value), 'byte')} of whitespace" if value else "empty"
        return Reason("EmptyValue", f"the value is {what}")
    if value.startswith(_BOM):
        return Reason("InvalidJson", "the value begins with a byte-order mark, which JSON does not allow")
    try:
        text = value.decode()
    except UnicodeDecodeError as wrong:
        shown = excerpt(value[max(0, wrong.start - 20) : wrong.start + 20])
        return Reason("InvalidUtf8", f"byte {wrong.start} is not UTF-8 ({wrong.reason}), near {shown}")
    if too_deep(value):
        return Reason("TooDeep", f"the value nests deeper than {MAX_DEPTH} levels")
    try:
        return _JSON.decode(text)
    except JSONDecodeError as wrong:
        return Reason("InvalidJson", _what_is_wrong(text, wrong))
    except _NotANumber as wrong:
        return Reason("InvalidJson", f"{wrong} is not valid JSON; numbers must be finite")


def _what_is_wrong(text: str, wrong: JSONDecodeError) -> str:
    if wrong.msg == "Extra data":
        return f"unexpected text after the end of the value, at character {wrong.pos}: {excerpt(text[wrong.pos :])}"
    if wrong.pos >= len(text.rstrip()) or wrong.msg.startswith("Unterminated"):
        return f"the value ends in the middle: {excerpt(text)}"
    return f"not JSON: {wrong.msg.lower()} at character {wrong.pos}: {excerpt(text[max(0, wrong.pos - 20) :])}"


class _NotANumber(ValueError):
    """NaN, Infinity or -Infinity, which Python's json would take."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NotANumber(name)


_JSON = JSONDecoder(
    object_pairs_hook=JsonObject, parse_float=JsonNumber, parse_int=JsonInteger, parse_constant=_refuse_constant
)
