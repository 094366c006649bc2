"""Values that a contract writes down (examples, enums, limits) as the Python values that a row would hold."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from platform_defs.contract.column_types import ColumnType
from platform_defs.contract.one_value import fits

Value = str | int | float | bool | date | datetime | Decimal


def contract_value(written: Any, of: ColumnType) -> Value:
    """`written` as a value of the type: YAML's own, or a string for decimals, dates and timestamps.

    Raises ValueError, its text saying what would be right.
    """
    value = _READERS[of.name.partition("(")[0]](written)
    if not fits(value, of):
        raise ValueError(f"{written} does not fit {of.name}")
    return value


def _string(written: Any) -> str:
    if not isinstance(written, str):
        raise ValueError(f"{written!r} is not a string; put it in quotes")
    return str(written)


def _integer(written: Any) -> int:
    if isinstance(written, bool) or not isinstance(written, int):
        raise ValueError(f"{written!r} is not a whole number")
    return int(written)


def _double(written: Any) -> float:
    if isinstance(written, bool) or not isinstance(written, int | float):
        raise ValueError(f"{written!r} is not a number")
    return float(written)


def _decimal(written: Any) -> Decimal:
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise ValueError(f"{written!r} is not a decimal number")
    if isinstance(written, float) and len(repr(float(written)).strip("-0").replace(".", "")) > 15:
        raise ValueError(f"{written!r} has more digits than YAML keeps; put it in quotes")
    try:
        value = Decimal(repr(float(written)) if isinstance(written, float) else str(written))
    except InvalidOperation:
        raise ValueError(f"{written!r} is not a decimal number, such as 12.34") from None
    if not value.is_finite():
        raise ValueError(f"{written!r} is not a finite number")
    return value


def _boolean(written: Any) -> bool:
    if not isinstance(written, bool):
        raise ValueError(f"{written!r} is not true or false")
    return written


def _date(written: Any) -> date:
    if isinstance(written, date) and not isinstance(written, datetime):
        return written
    try:
        return date.fromisoformat(cast("str", written))
    except (TypeError, ValueError):
        raise ValueError(f"{written} is not a date, such as 2026-11-01") from None


def _timestamp(written: Any) -> datetime:
    try:
        # ruamel reads an unquoted timestamp as its own subclass of datetime and drops the zone it was written in
        value: datetime = written if isinstance(written, datetime) else datetime.fromisoformat(cast("str", written))
    except (TypeError, ValueError):
        raise ValueError(f"{written} is not a timestamp, such as '2026-11-01T10:00:00Z'") from None
    if isinstance(written, datetime) or value.tzinfo is None:
        raise ValueError(f"put the timestamp {written} in quotes, and give it a zone: '2026-11-01T10:00:00Z'")
    return value.astimezone(UTC)


def _json(written: Any) -> str:
    """The text of any JSON value: mappings, lists, strings, numbers, booleans, null."""
    try:
        return json.dumps(_plain_json(written), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        raise ValueError(f"{written} is not a JSON value; put dates and timestamps in quotes") from None


def _plain_json(node: Any) -> Any:
    """Without the YAML reader's own classes of numbers, which json would write as YAML does."""
    if isinstance(node, dict):
        return {str(key): _plain_json(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain_json(value) for value in node]
    if isinstance(node, float):
        return float(node)
    return int(node) if isinstance(node, int) and not isinstance(node, bool) else node


_READERS = {
    "string": _string,
    "integer": _integer,
    "double": _double,
    "decimal": _decimal,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "json": _json,
}
