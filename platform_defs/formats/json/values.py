r"""The JSON values that each contract type accepts, and their Python values.

    string      a JSON string without \u0000 (Postgres' text cannot store it) and without half a surrogate pair
    integer     a JSON number written with digits alone (1, not 1.0 or 1e3) of 64 bits
    double      a JSON number; NaN, Infinity and numbers that are too large are refused
    decimal     a JSON number, or a string with one, such as "12.34": the exact value or nothing, never rounded
    boolean     true or false
    date        a string such as "2026-11-01", years 0001 to 9999
    timestamp   a string such as "2026-11-01T10:00:00.123456Z": ISO 8601 with a zone (Z or +01:00), T or a space
                between, at most six decimals, no leap second, years 0001 to 9999 in UTC; in a field with a unit an
                integer of 64 bits, so many of them since 1970 in UTC: of the same years, and whole microseconds
    json        any JSON value that Postgres' jsonb stores unchanged: see json_text.py
    uuid        a string such as "6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60", in either case
    time        a string such as "10:00:00.123456": no zone or Z, at most six decimals, no leap second
    bytes       a string: base64 with its padding
    array       an array of such values, none of them null, at most 10,000: all of one type

null is SQL's null for every type, json included; the row rule `required` decides if it is allowed.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, cast

import pyarrow as pa

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Unit
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.array_columns import read_items
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.reason import Reason
from platform_defs.formats.blocks.texts import not_a, plain_value, utf8_text
from platform_defs.times import EPOCH


class JsonNumber(str):
    """A number as it is written, so that nothing is lost before its type is known."""

    __slots__ = ()


class JsonInteger(JsonNumber):
    """A number written with digits alone."""

    __slots__ = ()


class LongInteger(str):
    """A whole number that JSON writes as a string, as Protobuf's mapping does for 64 bits."""

    __slots__ = ()


class JsonObject(list[tuple[str, Any]]):
    """The pairs of an object, in order and with repetitions."""

    __slots__ = ()


Reader = Callable[[Any], Any]  # a value of json's, never None → a value of the type, or a Reason without field

# Both RE2 (whole columns) and Python (one value) run these, so they keep to what the two have in common.
_CALENDAR = (
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    r"|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
)
_HOUR = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIMESTAMP = _CALENDAR + rf"[T ]{_HOUR}:[0-5][0-9](?:\.[0-9]{{1,6}})?(?:Z|[+-]{_HOUR})"
DATE_SHAPE, TIMESTAMP_SHAPE = rf"\A{_CALENDAR}\z", rf"\A{_TIMESTAMP}\z"  # for RE2

_is_date = re.compile(_CALENDAR).fullmatch
_is_timestamp = re.compile(_TIMESTAMP).fullmatch
_decimal_parts = re.compile(
    r"([+-]?)(?=\.?[0-9])([0-9]*+)(?:\.([0-9]*+))?(?:[eE]([+-]?)(?=[0-9])0*+([0-9]*+))?"  # never tried twice
).fullmatch
_MAX_EXPONENT_DIGITS = 18  # with more, no message is long enough to bring the number back into a column's range
UNITS: dict[Unit, str] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
TICKS: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
_YEAR_1, _YEAR_10000 = -62_135_596_800, 253_402_300_800  # their first second, since 1970
_surrogate = re.compile("[\ud800-\udfff]").search


def reader_of(of: ColumnType) -> Reader:
    """Return the function that reads a JSON value of this type."""
    if of.item:
        return partial(_array, reader_of(of.item), of)
    if pa.types.is_decimal(of.arrow):
        whole, scale = of.precision - of.scale, of.scale
        usual = re.compile(rf"-?[0-9]{{1,{whole}}}(?:\.[0-9]{{1,{scale}}})?" if whole and scale else r"0").fullmatch
        return lambda raw: Decimal(raw) if isinstance(raw, str) and usual(raw) else _decimal(raw, of)
    return _READERS[of.name]


def epoch_limits(unit: Unit) -> tuple[int, int]:
    """Return the first and the last number of this unit, of 64 bits, that is a timestamp."""
    ticks = TICKS[unit]
    return max(_YEAR_1 * ticks, -(2**63)), min(_YEAR_10000 * ticks - 1, 2**63 - 1)


def wrong_type(raw: Any, wanted: str, where: str = "") -> Reason:
    """Return the reason for a value of another type than `wanted`, such as "a string". `where`: what precedes "is"."""
    if isinstance(raw, JsonNumber):
        described = f"the number {excerpt(raw)}"
    elif isinstance(raw, list):
        described = "an object" if isinstance(raw, JsonObject) else "an array"
    else:
        described = {True: "true", False: "false"}[raw] if isinstance(raw, bool) else f'the string "{excerpt(raw)}"'
    return Reason("WrongType", f"{where} is {described}; the contract requires {wanted}".lstrip())


def _string(raw: Any) -> Any:
    if type(raw) is not str:
        return wrong_type(raw, "a string")
    return text_reason(raw, "text") or raw


def text_reason(raw: str, of: str) -> Reason | None:
    """Return why Postgres' type `of`, text or jsonb, cannot store this string; None if it can."""
    if "\0" in raw:
        return Reason("NulCharacter", rf"holds \u0000, which Postgres' {of} cannot store: {excerpt(raw)}")
    if not raw.isascii() and _surrogate(raw):
        return Reason("InvalidUnicode", f"holds half a surrogate pair, which is not a character: {excerpt(raw)}")
    return None


def stored_text(raw: bytes) -> str | Reason:
    """Return the string, or a Reason if Postgres' text cannot store it."""
    found = utf8_text(raw)
    return found if isinstance(found, Reason) else text_reason(found, "text") or found


def _integer(raw: Any) -> Any:
    if type(raw) is not JsonInteger:
        return wrong_type(raw, "an integer, written with digits only")
    if len(raw) > 20 or not -(2**63) <= int(raw) < 2**63:
        return Reason("OutOfRange", f"is {excerpt(raw)}; an integer has 64 bits")
    return int(raw)


def _double(raw: Any) -> Any:
    if not isinstance(raw, JsonNumber):
        return wrong_type(raw, "a number")
    value = float(raw)
    if value in (float("inf"), float("-inf")):
        return Reason("OutOfRange", f"is {excerpt(raw)}; the largest double is 1.8e308")
    return value


def _decimal(raw: Any, of: ColumnType) -> Any:
    if not isinstance(raw, str) or not (parts := _decimal_parts(raw)):
        return wrong_type(raw, f'a {of.name}, such as 12.34 or "12.34"')
    sign, whole_digits, fraction, exponent_sign, exponent_digits = parts.groups(default="")
    written = (whole_digits + fraction).lstrip("0")
    digits = written.rstrip("0")
    if not digits:  # zero, whatever the exponent
        return Decimal(0)
    exponent = int(f"{exponent_sign}{exponent_digits[:_MAX_EXPONENT_DIGITS] or 0}")
    exponent += len(written) - len(digits) - len(fraction)
    if len(digits) + exponent > of.precision - of.scale:
        whole = of.precision - of.scale
        return Reason("OutOfRange", f"is {excerpt(raw)}; {of.name} has {plural(whole, 'digit')} before the point")
    if exponent < -of.scale:
        return Reason("TooManyDecimals", f"is {excerpt(raw)}; {of.name} keeps {of.scale} and nothing is rounded")
    return Decimal(f"{sign}{digits}e{exponent}")


def _array(read: Reader, of: ColumnType, raw: Any) -> Any:
    if type(raw) is not list:
        return wrong_type(raw, f"an {of.name}")
    return read_items(cast("list[Any]", raw), read)


def _date(raw: Any) -> Any:
    if type(raw) is not str:
        return wrong_type(raw, 'a date, such as "2026-11-01"')
    try:
        return date.fromisoformat(raw) if _is_date(raw) else Reason("InvalidDate", not_a("date", raw, "2026-11-01"))
    except ValueError:  # the year 0000
        return Reason("OutOfRange", f"is {raw}; years run from 0001 to 9999")


def _timestamp(raw: Any) -> Any:
    if type(raw) is not str:
        return wrong_type(raw, 'a timestamp, such as "2026-11-01T10:00:00Z"')
    if not _is_timestamp(raw):
        return Reason(
            "InvalidTimestamp", not_a("timestamp with a zone", raw, "2026-11-01T10:00:00.123456Z", _is_timestamp)
        )
    try:
        return datetime.fromisoformat(raw).astimezone(UTC)
    except (ValueError, OverflowError):  # the year 0000, or beyond 9999 by its zone
        return Reason("OutOfRange", f"is {raw}; years run from 0001 to 9999 in UTC")


def read_epoch(unit: Unit, raw: Any) -> Any:
    """Read a timestamp as a number of this unit since 1970."""
    if type(raw) is not JsonInteger:
        return wrong_type(raw, f"a timestamp as an integer: {UNITS[unit]} since 1970, written with digits only")
    low, high = epoch_limits(unit)
    if len(raw) > 20 or not low <= int(raw) <= high:
        years = "64 bits hold the years 1677 to 2262" if unit == "ns" else "years run from 0001 to 9999 in UTC"
        return Reason("OutOfRange", f"is {excerpt(raw)} {UNITS[unit]} since 1970; {years}")
    microseconds, rest = divmod(int(raw) * TICKS["us"], TICKS[unit])
    if rest:
        what = f"is {raw} {UNITS[unit]} since 1970; a timestamp keeps microseconds and nothing is rounded"
        return Reason("TooManyDecimals", what)
    return EPOCH + timedelta(microseconds=microseconds)


def _of_text(kind: str, example: str) -> Reader:
    """Return the function that reads a string of this kind, such as a uuid."""
    read = plain_value("bytes" if kind == "base64" else kind)
    return lambda raw: read(raw) if type(raw) is str else wrong_type(raw, f"a {kind} in a string, such as {example}")


_READERS: dict[str, Reader] = {
    "string": _string,
    "integer": _integer,
    "double": _double,
    "boolean": lambda raw: raw if isinstance(raw, bool) else wrong_type(raw, "true or false"),
    "date": _date,
    "timestamp": _timestamp,
    "uuid": _of_text("uuid", '"6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60"'),
    "time": _of_text("time", '"10:00:00"'),
    "bytes": _of_text("base64", '"AAH/"'),
}
