"""Conversions of numbers on the wire, for many messages at once."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from platform_defs.formats.blocks.buffer import Integers, Mask, Words
from platform_defs.formats.protobuf.shapes import EnumShape
from platform_defs.formats.protobuf.values import FIRST_SECOND, LAST_SECOND
from platform_defs.formats.wire.varint import zigzag

_HALF = np.uint64(0xFFFF_FFFF)
_NANOS, _MICROS = 1_000_000_000, 1_000_000  # in a second


def _signed_32(raw: Words) -> Integers:
    return raw.astype(np.uint32).view(np.int32).astype(np.int64)


def _unsigned_32(raw: Words) -> Integers:
    return (raw & _HALF).view(np.int64)


def _bits_64(raw: Words) -> Integers:
    return raw.view(np.int64)


def _float(raw: Words) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return raw.astype(np.uint32).view(np.float32).astype(np.float64)


# By kind, of raw values. Numbers are cut to their width, as Google's parsers do. A uint64 or fixed64 that int64
# cannot represent becomes negative.
INTEGERS: dict[str, Callable[[Words], Integers]] = {
    "int32": _signed_32,
    "sfixed32": _signed_32,
    "uint32": _unsigned_32,
    "fixed32": _unsigned_32,
    "sint32": lambda raw: zigzag(raw & _HALF),
    "sint64": zigzag,
    **dict.fromkeys(("int64", "uint64", "fixed64", "sfixed64"), _bits_64),
}


def _as_real(integers: Callable[[Words], Integers]) -> Callable[[Words], npt.NDArray[np.float64]]:
    return lambda raw: integers(raw).astype(np.float64)


REALS: dict[str, Callable[[Words], npt.NDArray[np.float64]]] = {
    "double": lambda raw: raw.view(np.float64),
    "float": _float,
    **{kind: _as_real(INTEGERS[kind]) for kind in ("int32", "uint32", "sint32", "fixed32", "sfixed32")},
}


def enum_places(of: EnumShape, numbers: Integers) -> tuple[Integers, Mask]:
    """Return each number's place in the ascending list of the enum's numbers, and a mask of numbers without a name."""
    known = np.array(sorted(of.names), np.int64)
    places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return places, known[places] != numbers


def timestamp_micros(seconds: Integers, nanos: Integers) -> tuple[Integers, Mask]:
    """Return microseconds from 1970, and a mask of values that are not exact or not of the years 1 to 9999."""
    wrong = (seconds < FIRST_SECOND) | (seconds > LAST_SECOND)
    wrong |= (nanos < 0) | (nanos >= _NANOS) | (nanos % 1_000 != 0)
    return np.where(wrong, 0, seconds) * _MICROS + nanos // 1_000, wrong


def date_days(years: Integers, months: Integers, days: Integers) -> tuple[npt.NDArray[np.int32], Mask]:
    """Return days from 1970, and a mask of values that are not dates of the years 1 to 9999."""
    wrong = (years < 1) | (years > 9999) | (months < 1) | (months > 12) | (days < 1) | (days > 31)
    month = np.where(wrong, 0, (years - 1970) * 12 + months - 1).astype("datetime64[M]")
    day = month.astype("datetime64[D]") + np.where(wrong, 0, days - 1)
    wrong |= day.astype("datetime64[M]") != month
    return day.astype(np.int64).astype(np.int32), wrong
