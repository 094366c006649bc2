"""The value of a Protobuf field in a json column: Protobuf's own mapping to JSON, with the schema's names.

https://protobuf.dev/programming-guides/json/: integers of 64 bits are strings, bytes are base64, an enum is its name,
wrappers are what they wrap, Struct and Value are the JSON that they represent; a field without presence is omitted if
it has its default. Unlike in the mapping, field names are the schema's; Any and FieldMask are their fields; NaN and
Infinity are refused, as in all of Tidegate.
"""

import base64
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np

from platform_defs.errors.words import plural
from platform_defs.formats.blocks.reason import Reason, Wrong, unless_wrong
from platform_defs.formats.json.json_text import MAX_BYTES, json_text
from platform_defs.formats.json.values import JsonNumber, JsonObject, LongInteger, stored_text
from platform_defs.formats.protobuf.resolve import WRAPPERS
from platform_defs.formats.protobuf.shapes import FieldShape, MessageShape
from platform_defs.formats.protobuf.tree import Tree, part_of
from platform_defs.formats.protobuf.values import FIRST_SECOND, LAST_SECOND
from platform_defs.times import EPOCH

Json = TypeVar("Json")
_MAX_DURATION = 315_576_000_000  # seconds: google/protobuf/duration.proto


def json_column_value(field: FieldShape, tree: Tree | None) -> str | Reason | None:
    """Return the text of a json column; None if the field is missing or null. `tree`: of the field's message."""
    value = part_of(field, tree)
    try:
        found = None if value is None else _measured(json_of(field, value))
    except Wrong as wrong:
        return wrong.reason
    return None if found is None else json_text(found)


def json_of_message(shape: MessageShape, tree: Tree) -> JsonObject:
    """Return a whole message as parsed JSON. Raises Wrong."""
    return _measured(_object(shape, tree))


def _measured(found: Json) -> Json:
    """Return the parsed JSON, unless it would be too large: names may be much longer than their numbers."""
    if (least := _least_size(found)) > MAX_BYTES:
        message = f"is more than {least:,} bytes of JSON; a json column stores at most {MAX_BYTES:,}"
        raise Wrong("TooLarge", message)
    return found


def _least_size(found: Any) -> int:
    """Return the number of characters that the JSON takes at least."""
    if isinstance(found, JsonObject):
        return sum(len(name) + _least_size(inner) for name, inner in found)
    if isinstance(found, list):
        return len(cast("list[Any]", found)) + sum(map(_least_size, cast("list[Any]", found)))
    return len(found) if isinstance(found, str) else 1


def json_of(field: FieldShape, value: Any) -> Any:
    """Return the value of a field, repeated or not, as parsed JSON (see json/single.py). Raises Wrong."""
    if field.message is not None and field.message.of.GetOptions().map_entry:
        return _map(field.message, value)
    return [_single(field, item) for item in value] if field.repeated else _single(field, value)


def _single(field: FieldShape, value: Any) -> Any:
    if field.message is not None:
        # Built-in types, which descriptors.py lets no schema replace.
        is_built_in = field.message.of.file.name.startswith("google/protobuf/")
        special = _SPECIAL.get(field.message.of.full_name) if is_built_in else None
        return special(field.message, value) if special else _object(field.message, value)
    if field.enum is not None:
        if value not in field.enum.names:
            raise Wrong("InvalidEnum", f"holds {value}, a number that {field.enum.name} does not name")
        return None if field.enum.name == "google.protobuf.NullValue" else field.enum.names[value]
    return _SCALARS[field.kind](value)


def _object(shape: MessageShape, tree: Tree) -> JsonObject:
    return JsonObject(
        (field.name, json_of(field, tree[number]))
        for number, field in shape.fields.items()
        if number in tree and (field.explicit or tree[number])
    )


def _map(entry: MessageShape, entries: list[Tree]) -> JsonObject:
    """Return the last entry of each key; a part that an entry lacks has its default."""
    key, value = entry.fields[1], entry.fields[2]
    found = dict[str, Any]()
    for tree in entries:
        written = part_of(key, tree, has_default=True)  # text, a number, or true and false
        name = unless_wrong(stored_text(written)) if isinstance(written, bytes) else str(written).lower()
        found[name] = _single(value, part_of(value, tree, has_default=True))
    return JsonObject(found.items())


def _real(value: float) -> JsonNumber:
    if not math.isfinite(value):
        raise Wrong("NotFinite", f"holds {value}; JSON numbers must be finite")
    return JsonNumber(repr(value).removesuffix(".0"))


def _timestamp(_shape: MessageShape, tree: Tree) -> str:
    seconds, nanos = tree.get(1, 0), tree.get(2, 0)
    if not 0 <= nanos < 1_000_000_000:
        raise Wrong(
            "InvalidTimestamp", f"holds a timestamp of {plural(nanos, 'nanosecond')}; 0 to 999,999,999 are valid"
        )
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        raise Wrong("OutOfRange", f"holds a timestamp {seconds:,} seconds from 1970; years are 0001 to 9999")
    return f"{(EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()}{_fraction(nanos)}Z"


def _duration(_shape: MessageShape, tree: Tree) -> str:
    seconds, nanos = tree.get(1, 0), tree.get(2, 0)
    if abs(seconds) > _MAX_DURATION or abs(nanos) >= 1_000_000_000 or seconds * nanos < 0:
        raise Wrong(
            "OutOfRange",
            f"holds {plural(seconds, 'second')} and {plural(nanos, 'nanosecond')}, which is not a valid duration",
        )
    return f"{'-' if seconds < 0 or nanos < 0 else ''}{abs(seconds)}{_fraction(abs(nanos))}s"


def _fraction(nanos: int) -> str:
    """Format a fraction of a second: nothing, or three, six or nine decimals."""
    digits = f"{nanos:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


_SPECIAL: dict[str, Callable[[MessageShape, Tree], Any]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    **dict.fromkeys(
        ("google.protobuf.Struct", "google.protobuf.ListValue"),
        lambda shape, tree: json_of(shape.fields[1], tree.get(1, [])),
    ),
    # The one member that is set; null if none is.
    "google.protobuf.Value": lambda shape, tree: next(
        (_single(field, tree[number]) for number, field in shape.fields.items() if number in tree), None
    ),
    **dict.fromkeys(
        WRAPPERS, lambda shape, tree: _single(shape.fields[1], part_of(shape.fields[1], tree, has_default=True))
    ),
}
_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": lambda value: unless_wrong(stored_text(value)),
    "bytes": lambda value: base64.b64encode(value).decode(),
    "bool": bool,
    "double": _real,
    "float": lambda value: _real(float(str(np.float32(value)))),  # as many digits as 32 bits need
    **dict.fromkeys(("int32", "uint32", "sint32", "fixed32", "sfixed32"), JsonNumber),
    **dict.fromkeys(("int64", "uint64", "sint64", "fixed64", "sfixed64"), LongInteger),
}
