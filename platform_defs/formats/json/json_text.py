r"""The text of a `json` column: any JSON value as text that Postgres' jsonb takes, without a digit lost.

The text is compact, keys are in the message's order, numbers are as the message writes them. So the text does not
depend on the message's whitespace and escapes, and jsonb's numeric gets each number exactly, except for the sign of
-0.0: numeric has no negative zero. A value is refused if jsonb refuses it, or would change it silently: \u0000, half a
surrogate pair, numbers beyond numeric's range, a key that appears twice in an object (jsonb keeps the last), and more
than 32 MB. jsonb prints numbers without exponents, so they count with the zeros that it writes: 1e131071 is 131,072
bytes.
"""

import re
from typing import Any, cast

import orjson

from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.reason import Reason, Wrong, unless_wrong
from platform_defs.formats.json.values import JsonNumber, JsonObject, text_reason

# Postgres' limits on numeric (Numeric Types): digits before the point; after it, trailing zeros included.
_MAX_WHOLE_DIGITS, _MAX_DECIMALS = 131_072, 16_383
# jsonb's arrays and objects end at 256 MB. An element takes at most six times as many bytes there as in the text.
MAX_BYTES = 32 << 20

# numeric's parser refuses any larger exponent, even of 0 (PG_INT32_MAX / 2).
_MAX_EXPONENT = (2**31 - 1) // 2 - 1

_number = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)0*([0-9]+))?").fullmatch


def json_text(raw: Any) -> str | Reason:
    """Return the text of a parsed value (json/single.py), or the first reason why jsonb cannot store it unchanged."""
    spelling = _Spelling()
    try:
        text = spelling.of(raw)
    except Wrong as wrong:
        return wrong.reason
    if len(text) + spelling.zeros > MAX_BYTES // 4 and (size := len(text.encode()) + spelling.zeros) > MAX_BYTES:
        written = ", its numbers written without exponents" if spelling.zeros else ""
        return Reason("TooLarge", f"is {size:,} bytes of JSON{written}; a json column stores at most {MAX_BYTES:,}")
    return text


class _Spelling:
    """Writes the parts of one value."""

    def __init__(self) -> None:
        self.zeros = 0  # bytes that the text would be longer by (negative: shorter) without exponents

    def of(self, raw: Any) -> str:
        if isinstance(raw, JsonNumber):
            return self._number(raw)
        if isinstance(raw, JsonObject):
            return self._object(raw)
        if isinstance(raw, list):
            return f"[{','.join(map(self.of, cast('list[Any]', raw)))}]"
        if isinstance(raw, str):
            return _string_text(raw)
        return {None: "null", True: "true", False: "false"}[raw]

    def _object(self, raw: JsonObject) -> str:
        seen = set[str]()
        for key, _ in raw:
            if key in seen:
                raise Wrong(
                    "DuplicateKey",
                    f'has the key "{excerpt(key)}" twice in one object: it is ambiguous which value is meant',
                )
            seen.add(key)
        return f"{{{','.join(f'{_string_text(key)}:{self.of(value)}' for key, value in raw)}}}"

    def _number(self, raw: JsonNumber) -> str:
        if len(raw) >= 300 or "e" in raw or "E" in raw:
            self.zeros += _printed_length(raw) - len(raw)
        return str(raw)


def _string_text(raw: str) -> str:
    return orjson.dumps(unless_wrong(text_reason(raw, "jsonb") or raw)).decode()


def _printed_length(raw: JsonNumber) -> int:
    """Return the length that Postgres prints, without an exponent. Raises if numeric cannot store the number."""
    if (found := _number(raw)) is None:  # json's own syntax lets nothing else through
        raise AssertionError(raw)
    whole, decimals, sign, exponent = found[1], found[2] or "", found[3] or "", found[4] or "0"
    shift = int(f"{sign}{exponent[:11]}")
    digits = len((whole + decimals).lstrip("0"))
    before = digits - len(decimals) + shift if digits else 0
    after = len(decimals) - shift
    if abs(shift) > _MAX_EXPONENT or before > _MAX_WHOLE_DIGITS or after > _MAX_DECIMALS:
        raise Wrong("OutOfRange", f"contains the number {excerpt(raw)}, which Postgres' numeric cannot store")
    return raw.startswith("-") + max(before, 1) + (after + 1 if after > 0 else 0)
