"""The text of a key, which decides the row: the same for every width, scale and unit that its value is written with.

A string is its text, another scalar its JSON (12, true, "2026-11-01" without quotes), a record or an array JSON without
whitespace, its keys sorted. A Protobuf message is as in a json column, except that integers of 64 bits are numbers too.
Numbers are formatted by their value: 1.50 and 15e-1 are 1.5.
"""

from decimal import Context, Decimal
from operator import itemgetter
from typing import Any, cast

from platform_defs.formats.blocks.reason import MISSING_KEY, Reason
from platform_defs.formats.json.json_text import json_text
from platform_defs.formats.json.values import JsonNumber, JsonObject, LongInteger

_MAX_ZEROS = 30  # written out instead of an exponent
_EXACT = Context(prec=200_000)  # digits: more than a number that json_text lets through has


def key_text(document: Any) -> str | Reason:
    """Return the text of a parsed value (see json/single.py), or why it has none."""
    if document is None:
        return Reason(*MISSING_KEY)
    if isinstance(document, Reason):
        return Reason(document.error_class, f"in the key: {document.message}")
    checked = json_text(document)
    if isinstance(checked, Reason):
        return Reason(checked.error_class, f"the key {checked.message}")
    return str(document) if type(document) is str else cast("str", json_text(_normalized(document)))


def _normalized(document: Any) -> Any:
    """Return the same with the keys of each object in order, and each number in its one format."""
    if isinstance(document, JsonObject):
        return JsonObject((key, _normalized(inner)) for key, inner in sorted(document, key=itemgetter(0)))
    if isinstance(document, list):
        return [_normalized(inner) for inner in cast("list[Any]", document)]
    return _number(document) if isinstance(document, JsonNumber | LongInteger) else document


def _number(written: str) -> JsonNumber:
    """Format a number by its value: no trailing zeros in its decimals, an exponent only for very many zeros."""
    number = Decimal(written)
    if not number:
        return JsonNumber("0")
    shortest = number.normalize(_EXACT)
    exponent = cast("int", shortest.as_tuple().exponent)
    if abs(exponent) <= _MAX_ZEROS:
        return JsonNumber(f"{shortest:f}")
    return JsonNumber(f"{shortest.scaleb(-exponent, _EXACT):f}e{exponent}")
