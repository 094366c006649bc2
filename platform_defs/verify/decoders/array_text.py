"""Arrays of a message and of a table, as one canonical JSON text.

Postgres prints its arrays by `to_json`: numbers as they are, dates, times and uuids as strings, bytea in hexadecimal.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.verify.decoders.documents import NotTheType, canonical
from platform_defs.verify.decoders.values import time_text, uuid_text


def array_text(value: str | Sequence[Any] | None, of: ColumnType) -> str | None:
    """Return the canonical text. `value` is a message's list, or Postgres' text; a value that is not of the type `of`
    is kept.
    """
    if value is None or of.item is None:
        return None
    if isinstance(value, str):
        return _of_postgres(value, of.item)
    return canonical(f"[{','.join(_item_json(item, of.item) for item in value)}]")


def _of_postgres(text: str, of: ColumnType) -> str | None:
    canonical_text = _CANONICAL.get(of.kind)
    if canonical_text is None:
        return canonical(text)
    try:
        items = [None if item is None else canonical_text(item) for item in json.loads(text)]
    except (ValueError, TypeError, NotTheType):  # no such value, such as infinity; or an array of arrays
        return canonical(text)
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
    canonical_text = _CANONICAL.get(of.kind, str)
    return json.dumps(canonical_text(_text(item)))


def _text(item: Any) -> str:
    return item if isinstance(item, str) else item.isoformat()


def _moment(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).isoformat()


_CANONICAL: dict[str, Callable[[str], str]] = {"timestamp": _moment, "uuid": uuid_text, "time": time_text}
