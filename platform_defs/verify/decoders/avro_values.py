"""Logical values of Avro, and their JSON in verify."""

from base64 import b64encode
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from platform_defs.verify.decoders.documents import Integer, NotTheType, Number

MAX_DECIMAL, LARGEST_SCALE = 400, 1_000  # bytes, digits
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def unscaled(value: bytes) -> int:
    """Return the unscaled integer of a decimal."""
    return int.from_bytes(value, "big", signed=True)


def day(number: int) -> date:
    """Return the date so many days after 1970-01-01."""
    try:
        return EPOCH.date() + timedelta(days=number)
    except OverflowError:
        raise NotTheType("OutOfRange") from None


def moment(value: int, logical: str) -> str:
    """Return a date, time or timestamp as text."""
    kind, _, unit = logical.rpartition("-")
    if not kind:
        return day(value).isoformat()
    digits = {"millis": 3, "micros": 6, "nanos": 9}[unit]
    days, rest = divmod(value, 86_400 * 10**digits)
    if kind == "time":
        if days:
            raise NotTheType("OutOfRange")
        return _clock(rest, digits)
    return f"{day(days).isoformat()}T{_clock(rest, digits)}" + ("Z" if kind == "timestamp" else "")


def _clock(value: int, digits: int) -> str:
    seconds, fraction = divmod(value, 10**digits)
    time = (EPOCH + timedelta(seconds=seconds)).time()
    decimals = str(fraction).zfill(digits).rstrip("0")
    return f"{time.isoformat()}.{decimals}" if decimals else time.isoformat()


def octets(value: bytes, logical: str, scale: int) -> str:
    if logical == "decimal":
        if len(value) > MAX_DECIMAL or scale > LARGEST_SCALE:
            raise NotTheType("OutOfRange")
        number = unscaled(value)
        whole, fraction = divmod(abs(number), 10**scale)
        sign = "-" if number < 0 else ""
        return Number(f"{sign}{whole}.{str(fraction).zfill(scale)}") if scale else Integer(f"{sign}{whole}")
    return str(UUID(bytes=value)) if logical == "uuid" else b64encode(value).decode()
