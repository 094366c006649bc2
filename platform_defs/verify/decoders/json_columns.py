"""Columns that are read as text and compared as Postgres compares their types: both sides are made canonical first.

An array, of a message or of a table, is one JSON text. Postgres prints its arrays by `to_json`: numbers as they are,
dates, times and uuids as strings, bytea in hexadecimal.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any, LiteralString, TypeVar, cast

import pyarrow as pa
import pyarrow.compute

from platform_defs.contract.model.column_types import ColumnType, column_type, kind_of
from platform_defs.contract.model.contract import Table
from platform_defs.verify.decoders.documents import NotTheType, canonical
from platform_defs.verify.decoders.values import time_text, uuid_text

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
AsText = Mapping[str, str]  # by column, the name of its type: json, uuid, time or an array
_CANONICAL: Mapping[str, Callable[[str], str]] = {  # by the kind of a type; times with zones only as items of arrays
    "uuid": uuid_text,
    "time": time_text,
    "timestamp": lambda text: datetime.fromisoformat(text).astimezone(UTC).isoformat(),
}
_AS_PRINTED = {  # patterns of canonical values
    "uuid": r"\A[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\z",
    "time": r"\A(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{0,5}[1-9])?\z",
}
_TEXTUAL = ("json", "array", *_AS_PRINTED)


def is_textual(of: ColumnType) -> bool:
    """Return True if columns of the type are read as text."""
    return of.kind in _TEXTUAL


def read_as(kind: str | None) -> LiteralString:
    """Return the expression that selects a column, {} being its name; `kind` is its type's name, None if not read as
    text.
    """
    if kind is None:
        return "{}"
    return "to_json({})::text" if kind_of(kind) == "array" else "{}::text"


def text_columns(table: Table) -> AsText:
    """Return the table's columns that are read as text, with their types."""
    return {column.name: column.type.name for column in table.columns if is_textual(column.type)}


def same_text(text: Any, kind: str) -> str | None:
    """Return the canonical form of a value, a text or a message's list; an invalid text is unchanged."""
    if kind_of(kind) == "array":
        return array_text(text, column_type(kind))
    if text is None or kind == "json":
        return canonical(text)
    try:
        return _CANONICAL[kind](text)
    except NotTheType:
        return text


def canonical_columns(rows: Rows, columns: AsText) -> Rows:
    """Return `rows` with these columns in canonical form."""
    changed: Any = rows  # the common methods of tables and record batches are not typed in full
    for name, kind in columns.items():
        column, printed = changed[name], _AS_PRINTED.get(kind) if pa.types.is_string(changed[name].type) else None
        if printed and pc.all(pc.match_substring_regex(column, printed)).as_py() is not False:
            continue
        texts = pa.array([same_text(text, kind) for text in column.to_pylist()], pa.string())
        changed = changed.set_column(changed.schema.get_field_index(name), name, texts)
    return changed


def array_text(value: str | Sequence[Any] | None, of: ColumnType) -> str | None:
    """Return the canonical text of an array. `value` is a message's list, or Postgres' text; a value that is not of the
    type `of` is kept.
    """
    if value is None or of.item is None:
        return None
    if not isinstance(value, str):
        return canonical(f"[{','.join(_item_json(item, of.item) for item in value)}]")
    if of.item.kind not in _CANONICAL:
        return canonical(value)
    try:
        items = [None if item is None else _CANONICAL[of.item.kind](item) for item in json.loads(value)]
    except (ValueError, TypeError):  # no such value, such as infinity; or an array of arrays
        return canonical(value)
    return canonical(json.dumps(items))


def _item_json(item: Any, of: ColumnType) -> str:
    if item is None:
        return "null"
    if isinstance(item, bytes):
        return json.dumps(rf"\x{item.hex()}")
    if isinstance(item, float) and not isfinite(item):
        return json.dumps({"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(item)])
    if of.kind in ("integer", "decimal", "double", "boolean"):
        return str(item).lower()
    text = item.isoformat() if isinstance(item, date) else str(item)
    return json.dumps(_CANONICAL.get(of.kind, str)(text))
