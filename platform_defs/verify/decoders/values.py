"""The values that each type of a contract accepts from a JSON document.

string      a JSON string that Postgres' text can store: no NUL, no half of a surrogate pair
integer     a number without point or exponent, of 64 bits
double      a number that is finite as a double
decimal     a number, or a string of one: exactly as written, or not at all
boolean     true, false
date        "YYYY-MM-DD"
timestamp   "YYYY-MM-DD", T or a space, "HH:MM:SS", up to six decimals, Z or an offset; years 1 to 9999 in UTC;
            for a field with a unit: an integer, the time since 1970 in that unit, in those years and whole microseconds
uuid        a string: 8, 4, 4, 4 and 12 hexadecimal digits, in either case; stored in lower case
time        "HH:MM:SS", up to six decimals, nothing or Z; stored as Postgres prints it: without trailing zeros
bytes       a string: canonical base64
array       a list of such values: at most 10,000, and no null among them
json        any value that Postgres' jsonb can store, without repeated keys; its text, with numbers as written
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from math import isfinite, isinf
from string import hexdigits
from typing import Any, cast

import pyarrow as pa

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.verify.decoders.documents import Integer, NotTheType, Number, jsonb_text, storable

_MAX_ITEMS = 10_000  # of an array
_EXACT = Context(prec=1_400)
_decimal_text = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII).fullmatch
_date_text = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII).fullmatch
_hour = r"([01]\d|2[0-3]):[0-5]\d"
_time_parts = re.compile(rf"(?P<second>{_hour}:[0-5]\d)(\.(?P<fraction>\d{{1,6}}))?Z?", re.ASCII).fullmatch
_timestamp_text = re.compile(rf"\d{{4}}-\d\d-\d\d[T ]{_hour}:[0-5]\d(\.\d{{1,6}})?(Z|[+-]{_hour})", re.ASCII).fullmatch


def reader(of: ColumnType) -> Callable[[Any], Any]:
    """Return a function from a parsed JSON value, never null, to a value of the type; it raises NotTheType."""
    if of.item:
        return _lists(reader(of.item))
    if pa.types.is_decimal(of.arrow):
        return _decimals(of.precision, of.scale)
    return _READERS[of.name]


def since_1970(unit: str) -> Callable[[Any], datetime]:
    """Return a function from a parsed JSON value, never null, to the time so many units after 1970; it raises
    NotTheType.
    """
    return lambda raw: ticks_after_1970(_integer(raw), unit)


def ticks_after_1970(number: int, unit: str) -> datetime:
    """Return the time so many units after 1970. Raises NotTheType as `after_1970` does, and for a part of a
    microsecond.
    """
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    microseconds, rest = divmod(number * 1_000_000, per_second)
    found = after_1970(microseconds=microseconds)
    if rest:
        raise NotTheType("TooManyDecimals")
    return found


def after_1970(*, seconds: int = 0, microseconds: int) -> datetime:
    """Return the time so long after 1970. Raises NotTheType if its year is not 1 to 9999."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=microseconds)
    except OverflowError:
        raise NotTheType("OutOfRange") from None


def finite(value: float) -> float:
    """Return the number as a double. Raises NotTheType for NaN and the infinities."""
    if not isfinite(value):
        raise NotTheType("NotFinite")
    return float(value)


def _decimals(precision: int, scale: int) -> Callable[[Any], Decimal]:
    beyond = 10**precision
    usual = re.compile(rf"-?\d{{0,{precision - scale}}}\.\d{{1,{scale}}}", re.ASCII).fullmatch if scale else None

    def read(raw: Any) -> Decimal:
        if usual and isinstance(raw, str) and usual(raw):
            return Decimal(raw)
        if not isinstance(raw, str) or not _decimal_text(raw):
            raise NotTheType("WrongType")
        exact = Context(prec=len(raw) + scale + 2, Emin=-999_999_999, Emax=999_999_999, traps=[])
        value = exact.create_decimal(raw)
        if not value.is_finite() or (value and value.adjusted() >= precision - scale):
            raise NotTheType("OutOfRange")
        if not value:
            if re.search("[1-9]", re.split("[eE]", raw)[0]):  # only too small for Python's decimals
                raise NotTheType("TooManyDecimals")
            return Decimal(0)
        scaled = value.scaleb(scale, exact)
        if scaled.adjusted() < 0 or scaled != scaled.to_integral_value():
            raise NotTheType("TooManyDecimals")
        if scaled.copy_abs() >= beyond:  # abs() would round to 28 digits
            raise NotTheType("OutOfRange")
        return value.normalize(exact)  # Arrow cannot strip arbitrarily many zeros

    return read


def decimal_of(unscaled: int, scale: int, of: ColumnType) -> Decimal:
    """Return unscaled / 10**scale. Raises NotTheType if it does not fit the column exactly."""
    if unscaled == 0:
        return Decimal(0)
    most = of.precision - of.scale + scale  # digits
    if unscaled.bit_length() > 4 * (most + 1):  # at least 16 ** (most + 1); Decimal takes minutes for a megabyte
        raise NotTheType("OutOfRange")
    digits = Decimal(unscaled).as_tuple().digits
    if len(digits) > most:
        raise NotTheType("OutOfRange")
    value = Decimal((int(unscaled < 0), digits, 0))
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if scale - zeros > of.scale:
        raise NotTheType("TooManyDecimals")
    return value.scaleb(-scale, _EXACT).normalize(_EXACT)  # Arrow cannot strip arbitrarily many zeros


def _lists(read: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def read_all(raw: Any) -> list[Any]:
        if type(raw) is not list:
            raise NotTheType("WrongType")
        return items_of(cast("list[Any]", raw), read)

    return read_all


def items_of(raw: Sequence[Any], read: Callable[[Any], Any]) -> list[Any]:
    """Return an array's items as values. Raises NotTheType."""
    if len(raw) > _MAX_ITEMS:
        raise NotTheType("TooManyItems")
    found = list[Any]()
    for item in raw:
        if item is None:
            raise NotTheType("NullItem")
        found.append(read(item))
    return found


def _integer(raw: Any) -> int:
    if type(raw) is not Integer:
        raise NotTheType("WrongType")
    if len(raw) > 20 or not -(2**63) <= int(raw) < 2**63:
        raise NotTheType("OutOfRange")
    return int(raw)


def _double(raw: Any) -> float:
    if not isinstance(raw, Number):
        raise NotTheType("WrongType")
    value = float(raw)
    if isinf(value):
        raise NotTheType("OutOfRange")
    return value


def _boolean(raw: Any) -> bool:
    if raw is True or raw is False:
        return raw
    raise NotTheType("WrongType")


def _of_text(read: Callable[[str], Any]) -> Callable[[Any], Any]:
    def checked(raw: Any) -> Any:
        if type(raw) is not str:
            raise NotTheType("WrongType")
        return read(raw)

    return checked


def _date(text: str) -> date:
    if not _date_text(text):
        raise NotTheType("InvalidDate")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise NotTheType("OutOfRange" if text.startswith("0000") else "InvalidDate") from None


def _timestamp(text: str) -> datetime:
    if not _timestamp_text(text):
        raise NotTheType("InvalidTimestamp")
    try:
        value = datetime.fromisoformat(text)
        return value if value.tzinfo is UTC else value.astimezone(UTC)
    except ValueError:
        raise NotTheType("OutOfRange" if text.startswith("0000") else "InvalidTimestamp") from None
    except OverflowError:
        raise NotTheType("OutOfRange") from None


def uuid_text(text: str) -> str:
    """Return the uuid as Postgres prints it. Raises NotTheType."""
    parts = text.split("-")
    if [len(part) for part in parts] != [8, 4, 4, 4, 12] or not set("".join(parts)) <= set(hexdigits):
        raise NotTheType("InvalidUuid")
    return text.lower()


def time_text(text: str) -> str:
    """Return the time as Postgres prints it. Raises NotTheType."""
    found = _time_parts(text)
    if not found:
        raise NotTheType("InvalidTime")
    fraction = (found["fraction"] or "").rstrip("0")
    return f"{found['second']}.{fraction}" if fraction else found["second"]


def _bytes(text: str) -> bytes:
    try:
        value = b64decode(text, validate=True)
    except ValueError:
        raise NotTheType("InvalidBase64") from None
    if b64encode(value).decode() != text:
        raise NotTheType("InvalidBase64")
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "string": _of_text(storable),
    "integer": _integer,
    "double": _double,
    "boolean": _boolean,
    "date": _of_text(_date),
    "timestamp": _of_text(_timestamp),
    "json": jsonb_text,
    "uuid": _of_text(uuid_text),
    "time": _of_text(time_text),
    "bytes": _of_text(_bytes),
}
