"""The readers of all recipes: from the values in a message to a Python value of the column's type, or a Reason."""

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from operator import itemgetter
from typing import Any

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.json.values import reader_of, stored_text
from platform_defs.formats.protobuf.resolve import ColumnPlan
from platform_defs.times import EPOCH

Reader = Callable[[Sequence[Any]], Any]  # the parts of a value, none of them missing → a value, or a Reason

_MAX_BYTES_OF_DECIMAL = 512  # beyond that no scale brings a number back into a column's range
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years 1 to 9999


def reader(plan: ColumnPlan) -> Reader:
    """Return the function that makes a value from the column's parts."""
    of = plan.item.type
    if plan.recipe == "enum_name":
        return lambda parts: _enum_name(plan, parts[0])
    if plan.recipe in ("decimal_text", "date_text", "spelled_text", "decimal_message"):
        inner, empty = reader_of(of), b"0" if plan.recipe == "decimal_message" else b""  # google/type/decimal.proto

        def read_text(parts: Sequence[Any]) -> Any:
            found = stored_text(parts[0] or empty)
            return found if isinstance(found, Reason) else inner(found)

        return read_text
    if plan.recipe == "decimal_integer":
        return lambda parts: _scaled(parts[0], 0, of)
    if plan.recipe == "decimal_bytes":
        return lambda parts: _decimal_of_bytes(parts[0], parts[2], of)
    return _READERS[plan.recipe]


def _enum_name(plan: ColumnPlan, number: int) -> str | Reason:
    of = plan.shape.enum if plan.shape else None
    assert of is not None  # noqa: S101  # the recipe is for enums
    name = of.names.get(number)
    return Reason("InvalidEnum", f"is {number}, a number that {of.name} does not name") if name is None else name


def _scaled(unscaled: int, scale: int, of: ColumnType) -> Decimal | Reason:
    """Return unscaled * 10**-scale exactly, or a Reason."""
    if not unscaled:
        return Decimal(0)
    written = f"{unscaled}e{-scale}" if scale else str(unscaled)
    digits = str(abs(unscaled)).rstrip("0")
    zeros = len(str(abs(unscaled))) - len(digits)
    if len(digits) + zeros - scale > of.precision - of.scale:
        whole = of.precision - of.scale
        return Reason("OutOfRange", f"is {excerpt(written)}; {of.name} has {plural(whole, 'digit')} before the point")
    if scale - zeros > of.scale:
        return Reason("TooManyDecimals", f"is {excerpt(written)}; {of.name} keeps {of.scale} and nothing is rounded")
    return Decimal((int(unscaled < 0), tuple(map(int, digits)), zeros - scale))


def _decimal_of_bytes(raw: bytes, scale: int, of: ColumnType) -> Decimal | Reason:
    if len(raw) > _MAX_BYTES_OF_DECIMAL:
        return Reason("OutOfRange", f"is a number of {len(raw):,} bytes; {of.name} has {plural(of.precision, 'digit')}")
    return _scaled(int.from_bytes(raw, "big", signed=True), scale, of)


def _integer(parts: Sequence[Any]) -> int | Reason:
    value: int = parts[0]
    return value if value < 2**63 else Reason("OutOfRange", f"is {value}; an integer has 64 bits and a sign")


def _double(parts: Sequence[Any]) -> float | Reason:
    value = float(parts[0])
    return value if math.isfinite(value) else Reason("NotFinite", f"is {value}; a double is a finite number")


def _date(parts: Sequence[Any]) -> date | Reason:
    year, month, day = parts
    if not 1 <= year <= 9999:
        return Reason("OutOfRange", f"has the year {year}; years run from 0001 to 9999")
    try:
        return date(year, month, day)
    except ValueError:
        return Reason("InvalidDate", f"is year {year}, month {month}, day {day}, which is not a date")


def _timestamp(parts: Sequence[Any]) -> datetime | Reason:
    seconds, nanos = parts
    if not 0 <= nanos < 1_000_000_000:
        return Reason("InvalidTimestamp", f"has {plural(nanos, 'nanosecond')}; the valid range is 0 to 999,999,999")
    if nanos % 1_000:
        return Reason(
            "InvalidTimestamp", f"has {plural(nanos, 'nanosecond')}; it keeps microseconds and nothing is rounded"
        )
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        return Reason("OutOfRange", f"is {seconds:,} seconds from 1970; years run from 0001 to 9999 in UTC")
    return EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1_000)


_READERS: dict[str, Reader] = {
    "text": lambda parts: stored_text(parts[0]),
    "integer": _integer,
    "double": _double,
    "boolean": itemgetter(0),
    "date_parts": _date,
    "timestamp": _timestamp,
    "bytes": itemgetter(0),
}
