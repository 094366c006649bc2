"""Conversions of single Avro values to values of the contract's columns: exact, or refused."""

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.errors.words import plural
from platform_defs.formats.avro.conversions import Conversion
from platform_defs.formats.avro.documents import clock, with_point
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.reason import Wrong, unless_wrong
from platform_defs.formats.blocks.texts import plain_value
from platform_defs.formats.json.values import stored_text
from platform_defs.times import EPOCH

Convert = Callable[[Any], Any]  # the message's value → a value that Arrow takes for the column; raises Wrong

FIRST_DAY, LAST_DAY = (date.min - EPOCH.date()).days, (date.max - EPOCH.date()).days
_MICROSECOND = timedelta(microseconds=1)
FIRST_MICROSECOND = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
LAST_MICROSECOND = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
_EXACT = Context(prec=40)
_MAX_DIGITS_SHOWN = 32  # bytes of a decimal


def convert_to(column: ColumnType, conversion: Conversion) -> Convert:
    """Return the conversion of a value; not for json, which is made from the message (documents.py)."""
    match conversion.kind:
        case "scaled":
            return lambda raw: _decimal(int.from_bytes(raw, "big", signed=True), len(raw), conversion.scale, column)
        case "decimal":
            return lambda raw: _decimal(raw, 8, 0, column)
        case "timestamp":
            return lambda raw: _timestamp(raw, conversion.per_second)
        case "time":
            return lambda raw: _time(raw, conversion.per_second)
        case kind:
            return _CONVERT[kind]


def _time(raw: int, per_second: int) -> str:
    if not 0 <= raw < 86_400 * per_second:
        raise Wrong("OutOfRange", f"is the time {raw:,}; a day has {86_400 * per_second:,} {_UNITS[per_second]}")
    return clock(raw, per_second)


def _double(raw: float) -> float:
    if not math.isfinite(raw):
        raise Wrong("NotFinite", f"is {raw}; a double must be finite")
    return float(raw)


def _date(raw: int) -> int:
    if not FIRST_DAY <= raw <= LAST_DAY:
        raise Wrong("OutOfRange", f"is {raw:,} days from 1970; years run from 0001 to 9999")
    return raw


def _timestamp(raw: int, per_second: int) -> int:
    micros, lost = divmod(raw * 1_000_000, per_second)
    if not FIRST_MICROSECOND <= micros <= LAST_MICROSECOND:
        what = f"is {raw:,} {_UNITS[per_second]} from 1970; years run from 0001 to 9999 in UTC"
        raise Wrong("OutOfRange", what)
    if lost:
        what = f"is {plural(raw, 'nanosecond')}; a timestamp keeps microseconds, and nothing is rounded"
        raise Wrong("TooManyDecimals", what)
    return micros


def _decimal(unscaled: int, size: int, scale: int, of: ColumnType) -> Decimal:
    """Return unscaled / 10**scale. Raises Wrong if it does not fit exactly."""
    if abs(unscaled) >= 10 ** (of.precision - of.scale + scale):
        whole = of.precision - of.scale
        raise Wrong(
            "OutOfRange", f"is {_shown(unscaled, size, scale)}; {of.name} has {plural(whole, 'digit')} before the point"
        )
    finer = scale - of.scale
    if finer > 0:
        unscaled, lost = divmod(unscaled, 10**finer)
        if lost:
            shown = _shown(unscaled * 10**finer + lost, size, scale)
            raise Wrong("TooManyDecimals", f"is {shown}; {of.name} keeps {of.scale} and nothing is rounded")
    return Decimal(unscaled).scaleb(-min(scale, of.scale), _EXACT)


def _shown(unscaled: int, size: int, scale: int) -> str:
    """Format the number; a very long one by its size, since Python takes long to print it."""
    if size > _MAX_DIGITS_SHOWN or scale > 100:
        return f"a number of {plural(size, 'byte')}"
    return excerpt(with_point(unscaled, scale))


_UNITS = {1: "seconds", 1_000: "milliseconds", 1_000_000: "microseconds", 1_000_000_000: "nanoseconds"}
_CONVERT: dict[str, Convert] = {
    "text": lambda raw: unless_wrong(stored_text(raw)),
    **dict.fromkeys(("symbol", "integer", "boolean", "bytes"), lambda raw: raw),
    "double": _double,
    "date": _date,
    "uuid": lambda raw: unless_wrong(plain_value("uuid")(unless_wrong(stored_text(raw)))),
    "uuid_bytes": lambda raw: str(UUID(bytes=raw)),
}
