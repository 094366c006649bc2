r"""What a `json` column holds: any JSON value as text that Postgres' jsonb takes, without a digit lost.

The text is compact, keys are in the message's order, numbers are as the message writes them. So the text does not
depend on the message's whitespace and escapes, and jsonb's numeric gets each number exactly. Refused is what jsonb
refuses, or would change without a word: \u0000, half a surrogate pair, numbers beyond numeric's range, a key that
appears twice in an object (jsonb keeps the last), and more than 32 MB.
"""

import re
from typing import Any, cast

import orjson

from platform_defs.formats.excerpt import excerpt
from platform_defs.formats.json.values import JsonNumber, JsonObject, Reason, text_reason

# Postgres' limits on numeric (Numeric Types): digits before the point; after it, trailing zeros included.
_MOST_WHOLE_DIGITS, _MOST_DECIMALS = 131_072, 16_383
# jsonb's arrays and objects end at 256 MB. An element takes at most six times as many bytes there as in the text.
MOST_BYTES = 32 << 20

_number = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)0*([0-9]+))?").fullmatch


def json_text(raw: Any) -> str | Reason:
    """The text of a parsed value (json/single.py), or the first reason why jsonb could not hold it as it is."""
    try:
        text = _spell(raw)
    except _RefusedValueError as refused:
        return refused.reason
    if len(text) > MOST_BYTES // 4 and (size := len(text.encode())) > MOST_BYTES:
        return Reason("TooLarge", f"is {size:,} bytes of JSON; a json column takes at most {MOST_BYTES:,}")
    return text


class _RefusedValueError(ValueError):
    """Carries the reason out of the recursion."""

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(message)
        self.reason = Reason(error_class, message)


def _spell(raw: Any) -> str:
    if isinstance(raw, JsonNumber):
        return _number_text(raw)
    if isinstance(raw, JsonObject):
        return _object_text(raw)
    if isinstance(raw, list):
        return f"[{','.join(map(_spell, cast('list[Any]', raw)))}]"
    if isinstance(raw, str):
        return _string_text(raw)
    return {None: "null", True: "true", False: "false"}[raw]


def _object_text(raw: JsonObject) -> str:
    seen = set[str]()
    for key, _ in raw:
        if key in seen:
            raise _RefusedValueError(
                "DuplicateKey",
                f'has the key "{excerpt(key)}" twice in one object: it is ambiguous which value is meant',
            )
        seen.add(key)
    return f"{{{','.join(f'{_string_text(key)}:{_spell(value)}' for key, value in raw)}}}"


def _string_text(raw: str) -> str:
    if refused := text_reason(raw, "jsonb"):
        raise _RefusedValueError(refused.error_class, refused.message)
    return orjson.dumps(raw).decode()


def _number_text(raw: JsonNumber) -> str:
    if len(raw) < 300 and "e" not in raw and "E" not in raw:
        return str(raw)
    if (found := _number(raw)) is None:  # json's own syntax lets nothing else through
        raise AssertionError(raw)
    whole, decimals, sign, exponent = found[1], found[2] or "", found[3] or "", found[4] or "0"
    shift = int(f"{sign}{exponent}") if len(exponent) < 8 else None
    leading = len(whole + decimals) - len((whole + decimals).lstrip("0"))
    if shift is None or len(whole) - leading + shift > _MOST_WHOLE_DIGITS or len(decimals) - shift > _MOST_DECIMALS:
        raise _RefusedValueError("OutOfRange", f"holds the number {excerpt(raw)}, which Postgres' numeric cannot store")
    return str(raw)
