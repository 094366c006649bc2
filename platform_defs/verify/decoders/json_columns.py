"""Columns that are read as text and compared as Postgres compares their types: both sides are made canonical first."""

from collections.abc import Callable, Mapping
from typing import Any, LiteralString, TypeVar, cast

import pyarrow as pa
import pyarrow.compute

from platform_defs.contract.model.column_types import ColumnType, column_type, kind_of
from platform_defs.contract.model.contract import Table
from platform_defs.verify.decoders.array_text import array_text
from platform_defs.verify.decoders.documents import NotTheType, canonical
from platform_defs.verify.decoders.values import time_text, uuid_text

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
AsText = Mapping[str, str]  # by column, the name of its type: json, uuid, time or an array
_CANONICAL: Mapping[str, Callable[[str], str]] = {"uuid": uuid_text, "time": time_text}
_AS_PRINTED = {  # patterns of canonical values
    "uuid": r"\A[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\z",
    "time": r"\A(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{0,5}[1-9])?\z",
}
_TEXTUAL = ("json", "array", *_CANONICAL)


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
        if _is_as_printed(changed[name], kind):
            continue
        texts = pa.array([same_text(text, kind) for text in changed[name].to_pylist()], pa.string())
        changed = changed.set_column(changed.schema.get_field_index(name), name, texts)
    return changed


def _is_as_printed(column: Any, kind: str) -> bool:
    if kind not in _AS_PRINTED or not pa.types.is_string(column.type):
        return False
    return pc.all(pc.match_substring_regex(column, _AS_PRINTED[kind])).as_py() is not False
