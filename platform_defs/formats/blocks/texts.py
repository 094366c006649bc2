"""Texts of a uuid, a time or bytes: columns of them, and single ones."""

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from platform_defs.contract.model.spellings import BASE64, TIME, UUID, plain_bytes, plain_time, plain_uuid
from platform_defs.formats.blocks.arrow import Column
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.reason import Reason

SHAPES = {"uuid": rf"\A{UUID}\z", "time": rf"\A{TIME}\z", "bytes": rf"\A{BASE64}\z"}  # for RE2, by the type's name
_long_fraction = re.compile(r"(\.[0-9]{6})[0-9]+").search
_ZEROS_BEHIND = r"(?:(\.[0-9]*[1-9])0*|\.0+)?Z?\z"


def plain_column(kind: str, texts: Column) -> Column:
    """Convert texts, each null or of the right shape, to values of the column."""
    if kind == "uuid":
        return pc.ascii_lower(texts)
    if kind == "time":
        return pc.replace_substring_regex(texts, _ZEROS_BEHIND, r"\1")
    return pa.array([None if text is None else plain_bytes(text) for text in texts.to_pylist()], pa.binary())


def plain_value(kind: str) -> Callable[[str], Any]:
    """Return the function that reads a single text: a value of the column, or a Reason."""
    return {"uuid": _uuid, "time": _time, "bytes": _bytes}[kind]


def utf8_text(raw: bytes) -> str | Reason:
    """Return the text, or a Reason if it is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as wrong:
        shown = excerpt(raw[max(0, wrong.start - 20) : wrong.start + 20])
        return Reason("InvalidUtf8", f"is not UTF-8 at its byte {wrong.start} ({wrong.reason}), near {shown}")


def is_utf8(raw: bytes) -> bool:
    return raw.isascii() or isinstance(utf8_text(raw), str)


def _uuid(raw: str) -> str | Reason:
    return plain_uuid(raw) or Reason("InvalidUuid", not_a("uuid", raw, "6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f60"))


def _time(raw: str) -> str | Reason:
    return plain_time(raw) or Reason("InvalidTime", not_a("time of a day", raw, "10:00:00.123456", plain_time))


def _bytes(raw: str) -> bytes | Reason:
    found = plain_bytes(raw)
    return Reason("InvalidBase64", f'is "{excerpt(raw)}", which is not base64') if found is None else found


def not_a(what: str, raw: str, example: str, read: Callable[[str], Any] = lambda _: None) -> str:
    """Return the reason for a text of another form. With `read`, which parses a time, a text that is wrong only by
    having more than six decimals gets that reason.
    """
    fraction = _long_fraction(raw)
    if fraction and read(f"{raw[: fraction.end(1)]}{raw[fraction.end() :]}"):
        decimals = len(fraction[0]) - 1
        return f'is "{excerpt(raw)}", which has {decimals:,} decimals; at most six are read, and nothing is rounded'
    return f'is "{excerpt(raw)}", which is not a {what} such as "{example}"'
