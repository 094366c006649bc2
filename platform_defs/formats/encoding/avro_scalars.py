"""Single Avro values as bytes.

https://avro.apache.org/docs/1.12.0/specification/#data-serialization-and-deserialization
"""

import base64
import re
import struct
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from platform_defs.errors.words import plural
from platform_defs.formats.avro.schema import Fixed, Logical, Primitive, spelled
from platform_defs.formats.encoding.documents import CannotEncode, shown
from platform_defs.times import EPOCH

_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_LIMITS = {"int": 2**31, "long": 2**63}
_DATE, _CLOCK = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(?::\d\d)?"
_time = re.compile(rf"({_CLOCK})(?:\.(\d+))?").fullmatch
_timestamp = re.compile(rf"({_DATE})[T ]({_CLOCK})(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?").fullmatch


class _Misfit(ValueError):
    """The reason why a value does not fit; the message may be empty, if the type says enough."""


def scalar(of: Primitive | Fixed, value: Any, *, exact: bool = True) -> bytes:
    """Return one value that has no parts.

    Bytes are base64. Dates, times and timestamps are ISO 8601 texts, or the number that Avro stores; decimals are
    numbers, or texts of numbers. Raises CannotEncode, also for a value that encoding would change: digits that the unit
    or the scale does not keep, a timestamp without an offset. Not `exact`: timestamps are cut to their unit, and a
    timestamp without an offset is UTC.
    """
    try:
        if of.logical is None:
            return _plain(of, value)
        return _logical(of.logical, of, value, exact=exact)
    except (ValueError, TypeError, AttributeError, ArithmeticError, struct.error) as wrong:
        why = f": {wrong}" if isinstance(wrong, _Misfit) and str(wrong) else ""
        raise CannotEncode(f"{shown(value)} is not {spelled(of)}{why}") from wrong


def long_bytes(number: int, limit: int = 2**63) -> bytes:
    """Return an int or a long: a zigzag varint. Raises ValueError if it is not within `limit`."""
    if not -limit <= number < limit:
        raise _Misfit("it is out of range")
    value, written = (number << 1) ^ (number >> 63), bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def sized_bytes(value: bytes) -> bytes:
    """Return a string, or bytes: the length, then the content."""
    return long_bytes(len(value)) + value


def blocks(items: list[bytes]) -> bytes:
    """Return an array, or a map: one block of encoded items, then the end."""
    return (long_bytes(len(items)) + b"".join(items) if items else b"") + b"\0"


def of_default(of: Primitive | Fixed, value: Any) -> bytes:
    """Return the default of a schema: a text of the code points 0 to 255 for bytes, the stored value for a logical
    type. Raises CannotEncode.
    """
    if isinstance(value, str) and (isinstance(of, Fixed) or of.name == "bytes"):
        try:
            return _of_bytes(of, value.encode("latin-1"))
        except ValueError as wrong:
            raise CannotEncode(f"the default {shown(value)} is not {spelled(of)}") from wrong
    return scalar(Primitive(of.name) if isinstance(of, Primitive) else Fixed(of.name, of.size), value)


def _plain(of: Primitive | Fixed, value: Any) -> bytes:
    name = of.name if isinstance(of, Primitive) else "fixed"
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    match name:
        case "null" if value is None:
            return b""
        case "boolean" if isinstance(value, bool):
            return bytes([value])
        case "int" | "long" if number:
            return long_bytes(_whole(value), _LIMITS[name])
        case "float" | "double" if number:
            return _floating("<f" if name == "float" else "<d", value)
        case "string" if isinstance(value, str):
            return sized_bytes(value.encode())
        case "bytes" | "fixed" if isinstance(value, str):
            try:
                decoded = base64.b64decode(value, validate=True)
            except ValueError:
                raise _Misfit("it is not base64") from None
            return _of_bytes(of, decoded)
        case _:
            raise TypeError(name)


def _of_bytes(of: Primitive | Fixed, value: bytes) -> bytes:
    if isinstance(of, Primitive):
        return sized_bytes(value)
    if len(value) != of.size:
        raise _Misfit(f"it has {plural(len(value), 'byte')}, not {of.size}")
    return value


def _whole(value: int | Decimal) -> int:
    """Return the number, which is whole and may be a long: writing out 1e1000000 takes seconds."""
    if not -(2**63) <= value <= 2**63:
        raise _Misfit("it is out of range")
    if value != int(value):
        raise _Misfit("it is not a whole number")
    return int(value)


def _floating(kind: str, value: int | Decimal) -> bytes:
    """Return the nearest float or double; a whole number exactly."""
    written = struct.pack(kind, float(value))
    (found,) = struct.unpack(kind, written)
    if abs(found) == float("inf"):
        raise _Misfit("it is out of range")
    if isinstance(value, int) and int(found) != value:
        raise _Misfit("it has more digits than the type allows")
    return written


def _logical(logical: Logical, of: Primitive | Fixed, value: Any, *, exact: bool) -> bytes:
    if logical.name == "decimal":
        return _decimal(logical, of, value)
    if logical.name == "uuid":
        found = UUID(value)
        return found.bytes if isinstance(of, Fixed) else sized_bytes(str(found).encode())
    limit = _LIMITS[of.name]  # an int or a long
    if isinstance(value, int) and not isinstance(value, bool):
        return long_bytes(value, limit)
    if logical.name == "date":
        if not isinstance(value, str) or not re.fullmatch(_DATE, value):
            raise _Misfit("write a date as 2026-01-31")
        return long_bytes((date.fromisoformat(value) - EPOCH.date()).days, limit)
    kind, _, unit = logical.name.rpartition("-")
    if kind == "time":
        return long_bytes(_of_time(value, _PER_SECOND[unit], exact=exact), limit)
    return long_bytes(_of_timestamp(value, _PER_SECOND[unit], local=kind == "local-timestamp", exact=exact), limit)


def _decimal(logical: Logical, of: Primitive | Fixed, value: Any) -> bytes:
    if not isinstance(value, int | Decimal | str) or isinstance(value, bool):
        raise TypeError("decimal")
    number = Decimal(value)
    if not number.is_finite():
        raise _Misfit("it is not finite")
    if number and number.adjusted() >= logical.precision - logical.scale:
        raise _Misfit(f"its precision is {logical.precision}, its scale {logical.scale}")
    sign, digits, exponent = number.as_tuple()
    unscaled, shift = int("".join(map(str, digits)) or "0"), int(exponent) + logical.scale
    if shift < 0:
        unscaled, rest = divmod(unscaled, 10 ** min(-shift, len(digits)))  # 1e-999999999 is not written out
        if rest:
            raise _Misfit(f"its scale is {logical.scale}")
    elif unscaled:
        unscaled *= 10**shift
    unscaled = -unscaled if sign else unscaled
    size = of.size if isinstance(of, Fixed) else (unscaled.bit_length() + 8) // 8
    written = unscaled.to_bytes(size, "big", signed=True)
    return written if isinstance(of, Fixed) else sized_bytes(written)


def _of_time(value: Any, per_second: int, *, exact: bool) -> int:
    found = _time(value) if isinstance(value, str) else None
    if found is None:
        raise _Misfit("write a time as 13:45:00.123")
    clock, fraction = found.groups()
    at = datetime.fromisoformat(f"1970-01-01T{clock}+00:00") - EPOCH
    return at.seconds * per_second + _ticks(fraction, per_second, exact=exact)


def _of_timestamp(value: Any, per_second: int, *, local: bool, exact: bool) -> int:
    found = _timestamp(value) if isinstance(value, str) else None
    if found is None:
        written = "2026-01-31T13:45:00" + ("" if local else "Z")
        raise _Misfit(f"write a timestamp as {written}")
    day, clock, fraction, offset = found.groups()
    if exact and local and offset:
        raise _Misfit("it is local and must not have an offset")
    if exact and not local and not offset:
        raise _Misfit("it needs an offset, such as Z or +01:00")
    since = datetime.fromisoformat(f"{day}T{clock}{offset or 'Z'}") - EPOCH
    return (since.days * 86_400 + since.seconds) * per_second + _ticks(fraction, per_second, exact=exact)


def _ticks(fraction: str | None, per_second: int, *, exact: bool) -> int:
    """Return the fraction of a second, whose digits are given, in ticks."""
    digits, kept = (fraction or "").rstrip("0"), len(str(per_second)) - 1
    if exact and len(digits) > kept:
        raise _Misfit(f"it has more than the {kept} fractional digits of its unit")
    return int(digits[:kept].ljust(kept, "0") or "0")
