"""Columns that are read as text, compared as Postgres compares their types: both sides get one spelling first."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from platform_defs.contract.model import Table
from platform_defs.verification.documents import NotTheType, canonical
from platform_defs.verification.values import time_text, uuid_text

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
AsText = Mapping[str, str]  # by column, the name of its type: json, uuid or time
_SPELLED: Mapping[str, Callable[[str], str]] = {"uuid": uuid_text, "time": time_text}
TEXTUAL = ("json", *_SPELLED)


def text_columns(table: Table) -> AsText:
    """The table's columns that are read as text."""
    return {column.name: column.type.name for column in table.columns if column.type.name in TEXTUAL}


def same_text(text: str | None, kind: str) -> str | None:
    """The one spelling of a value; a text that is none, as it is."""
    if text is None or kind == "json":
        return canonical(text)
    try:
        return _SPELLED[kind](text)
    except NotTheType:
        return text


def canonical_columns(rows: Rows, columns: AsText) -> Rows:
    """`rows` with these columns in one spelling."""
    changed: Any = rows  # what tables and record batches share is not typed in full
    for name, kind in columns.items():
        texts = pa.array([same_text(text, kind) for text in changed[name].to_pylist()], pa.string())
        changed = changed.set_column(changed.schema.get_field_index(name), changed.schema.field(name), texts)
    return changed
