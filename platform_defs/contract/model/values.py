"""A contract's values (examples, enums, limits) as the Python values that a row would have."""

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any, cast

from platform_defs.contract.document.node import as_list
from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.spellings import plain_bytes, plain_time, plain_uuid

_LARGEST_INTEGER = 2**63  # int64, and Postgres' bigint
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
Scalar = str | bytes | int | float | bool | date | datetime | Decimal
Value = Scalar | tuple[Scalar, ...]


def contract_value(written: Any, of: ColumnType) -> Value:
    """Return `written` as a value of the type: YAML's own, or a string for decimals, dates and timestamps.

    Raises ValueError, whose text says what would be right.
    """
    if not of.item:
        return _scalar(written, of)
    if (items := as_list(written)) is None:
        raise ValueError(f"{written!r} is not a list")
    return tuple(_scalar(item, of.item) for item in items)


def fits(value: Scalar, of: ColumnType) -> bool:
    """Return True if a column of the type can store the value, which has the type's Python class.

    In plain Python, as for row rules: tests/unit/contract/test_one_value.py compares it with Arrow.
    """
    if isinstance(value, str):
        return not _LONE_SURROGATE.search(value)
    if isinstance(value, int):
        return isinstance(value, bool) or -_LARGEST_INTEGER <= value < _LARGEST_INTEGER
    if not isinstance(value, Decimal):
        return True
    if value.adjusted() >= of.precision:
        return False
    with localcontext(prec=len(value.as_tuple().digits) + of.precision):
        scaled = value.scaleb(of.scale)
        return scaled == scaled.to_integral_value() and abs(scaled) < 10**of.precision


def _scalar(written: Any, of: ColumnType) -> Scalar:
    try:
        value = _READERS[of.kind](written)
    except OverflowError:
        raise ValueError(f"{written} does not fit {of.name}") from None
    if not fits(value, of):
        raise ValueError(f"{written} does not fit {of.name}")
    return value


def _instance(of: type, wanted: str) -> Callable[[Any], Any]:
    """Return a reader of YAML's own values; true and false are no integers."""

    def read(written: Any) -> Any:
        if not isinstance(written, of) or isinstance(written, bool) != (of is bool):
            raise ValueError(f"{written!r} is not {wanted}")
        return written

    return read


def _text(plain: Callable[[str], Any], wanted: str) -> Callable[[Any], Any]:
    """Return a reader of texts with one form for each value; `plain` returns None for an invalid text."""

    def read(written: Any) -> Any:
        if not isinstance(written, str) or (found := plain(written)) is None:
            raise ValueError(f"{written!r} is not {wanted}")
        return found

    return read


def _double(written: Any) -> float:
    if isinstance(written, bool) or not isinstance(written, int | float):
        raise ValueError(f"{written!r} is not a number")
    if not math.isfinite(written):
        raise ValueError(f"{written!r} is not a finite number")
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


def _date(written: Any) -> date:
    try:
        return date.fromisoformat(cast("str", written))
    except (TypeError, ValueError):
        raise ValueError(f"{written} is not a date, such as 2026-11-01") from None


def _timestamp(written: Any) -> datetime:
    try:
        value = datetime.fromisoformat(cast("str", written))
    except (TypeError, ValueError):
        raise ValueError(f"{written} is not a timestamp, such as 2026-11-01T10:00:00Z") from None
    if value.tzinfo is None:
        raise ValueError(f"the timestamp {written} has no time zone; write it as 2026-11-01T10:00:00Z")
    return value.astimezone(UTC)


def _json(written: Any) -> str:
    """Return the text of any JSON value: mappings, lists, strings, numbers, booleans, null."""
    try:
        return json.dumps(written, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        raise ValueError(f"{written} is not a JSON value") from None


_READERS = {
    "string": _instance(str, "a string; put it in quotes"),
    "integer": _instance(int, "a whole number"),
    "double": _double,
    "decimal": _decimal,
    "boolean": _instance(bool, "true or false"),
    "date": _date,
    "timestamp": _timestamp,
    "json": _json,
    "time": _text(plain_time, "a time such as '10:00:00.5', in quotes"),
    "uuid": _text(plain_uuid, "a uuid, such as 6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60"),
    "bytes": _text(plain_bytes, "base64, such as 'AAH/'"),
}
