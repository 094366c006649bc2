"""JSON documents exactly as written: numbers as their text, objects with every repetition of a key.

A document is null (None), True, False, a str, a `Number` (or `Integer`), a list of documents, or a `Pairs`.
"""

import re
from json import JSONDecodeError, JSONDecoder, dumps
from typing import Any, NoReturn, TypeAlias

MAX_DEPTH = 100  # levels of objects and arrays, the message itself being the first
NUMERIC_DIGITS = 131_072  # before the decimal point: https://www.postgresql.org/docs/current/datatype-numeric.html
NUMERIC_SCALE = 16_383  # digits after it
JSONB_BYTES = 32 << 20  # of text without exponents, so that jsonb's own 256 MB suffice
_READABLE = 30  # digits
_NUMERIC_EXPONENT = (2**31 - 1) // 2 - 1  # numeric_in refuses any larger one, even of 0 (PG_INT32_MAX / 2)


class NotTheType(ValueError):
    """The value does not have its type; the text is the reason in a dead letter (`WrongType`, ...)."""


class Number(str):
    """A JSON number as written."""

    __slots__ = ()


class Integer(Number):
    """A JSON number without point or exponent."""

    __slots__ = ()


class Long(str):
    """An integer of 64 bits that JSON writes as a string."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """A JSON object as written, with every repetition of a key."""

    __slots__ = ()


Document: TypeAlias = bool | str | Number | list[Any] | Pairs | None


def parse(value: bytes) -> Document:
    """Return the document in a message's bytes. Raises NotTheType with the reason if there is none."""
    text = utf8(value)
    if value.count(b"{") + value.count(b"[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise NotTheType("TooDeep")
    try:
        return _JSON.decode(text)
    except JSONDecodeError:
        raise NotTheType("InvalidJson" if value.strip() else "EmptyValue") from None


def compact(document: Document) -> str:
    """Return `document` as JSON text without whitespace: keys in their order, numbers with their original digits. It
    can be encoded if `check_jsonb` found no surrogates.
    """
    match document:
        case Number():
            return str(document)
        case Pairs():
            return "{" + ",".join(f"{_quoted(key)}:{compact(inner)}" for key, inner in document) + "}"
        case list():
            return "[" + ",".join(map(compact, document)) + "]"
        case _:
            return _quoted(document)


def canonical(text: str | None) -> str | None:
    """Return a text that is equal for two JSON texts exactly if Postgres' jsonb treats them as equal.

    jsonb ignores whitespace, the order of keys and all but the last of repeated ones, and compares numbers by value:
    1.0, 1.00 and 10e-1 are equal, although it prints the first two as written
    (https://www.postgresql.org/docs/current/datatype-json.html). A text that is not JSON is returned unchanged.
    """
    if text is None:
        return None
    try:
        return _canonical(_JSON.decode(text))
    except (ValueError, RecursionError):
        return text


def check_jsonb(document: Document) -> None:
    """Raise NotTheType if Postgres' jsonb would refuse `document` or drop one of two equal keys, or if it is too large
    for a json column.
    """
    if _checked_size(document) > JSONB_BYTES:
        raise NotTheType("TooLarge")


def jsonb_text(document: Document) -> str:
    """Return the text of a json column. Raises as `check_jsonb` does."""
    check_jsonb(document)
    return compact(document)


def _checked_size(document: Document) -> int:
    """Return the bytes of `compact`'s text without exponents. Raises as `check_jsonb` does."""
    match document:
        case Number():
            return _checked_number(document)
        case str():
            return len(_quoted(storable(document)).encode())
        case Pairs():
            if len({key for key, _ in document}) < len(document):
                raise NotTheType("DuplicateKey")
            sizes = [_checked_size(key) + 1 + _checked_size(inner) for key, inner in document]
            return sum(sizes) + max(len(sizes) - 1, 0) + 2
        case list():
            sizes = list(map(_checked_size, document))
            return sum(sizes) + max(len(sizes) - 1, 0) + 2
        case _:
            return len(_quoted(document))


def utf8(value: bytes) -> str:
    """Return the bytes as text. Raises NotTheType if they are not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise NotTheType("InvalidUtf8") from None


def stored_text(value: bytes) -> str:
    """Return the bytes as text. Raises NotTheType if they are not UTF-8 that Postgres can store."""
    return storable(utf8(value))


def storable(text: str) -> str:
    """Return `text`. Raises NotTheType if Postgres' text cannot store it: a NUL, half of a surrogate pair."""
    if "\0" in text:
        raise NotTheType("NulCharacter")
    if not text.isascii() and _half_pair(text):
        raise NotTheType("InvalidUnicode")
    return text


_half_pair = re.compile("[\ud800-\udfff]").search


def _checked_number(number: Number) -> int:
    """Return the characters of the number without an exponent. Raise NotTheType if numeric_in refuses it, which counts
    the place of the first digit that is not zero, and all digits after the point.
    """
    whole, fraction, exponent = _parts(number)
    if len(exponent) > 11 or abs(int(exponent)) > _NUMERIC_EXPONENT:
        raise NotTheType("OutOfRange")
    shift = int(exponent)
    digits = (whole + fraction).lstrip("0")
    before = len(digits) - len(fraction) + shift  # digits before the point
    scale = max(len(fraction) - shift, 0)
    if scale > NUMERIC_SCALE or (digits and before > NUMERIC_DIGITS):
        raise NotTheType("OutOfRange")
    whole_length = max(before, 1) if digits else 1
    return number.startswith("-") + whole_length + (1 + scale if scale else 0)


def _canonical(document: Document) -> str:
    match document:
        case Number():
            return canonical_number(document)
        case Pairs():
            inner = {key: _canonical(value) for key, value in document}
            return "{" + ",".join(f"{dumps(key)}:{inner[key]}" for key in sorted(inner)) + "}"
        case list():
            return "[" + ",".join(map(_canonical, document)) + "]"
        case _:
            return dumps(document)


def canonical_number(number: Number) -> str:
    """Return the same text for equal numbers: its digits without zeros at either end, and its scale."""
    whole, fraction, exponent = _parts(number)
    digits = (whole + fraction).lstrip("0")
    kept = digits.rstrip("0")
    if not kept:
        return "0"
    sign = "-" if number.startswith("-") else ""
    power = int(exponent) - len(fraction) + len(digits) - len(kept)
    if 0 <= power <= _READABLE:
        return f"{sign}{kept}{'0' * power}"
    if -_READABLE <= power < 0:
        padded = kept.rjust(1 - power, "0")
        return f"{sign}{padded[:power]}.{padded[power:]}"
    return f"{sign}{kept}e{power}"


def _parts(number: Number) -> tuple[str, str, str]:
    """Return the digits before and after the point, and the exponent, without leading zeros."""
    mantissa, _, exponent = number.lower().partition("e")
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    sign = "-" if exponent.startswith("-") else ""
    return whole, fraction, sign + (exponent.lstrip("+-0") or "0")


def _depth(text: str) -> int:
    """Return the deepest nesting of brackets outside of strings."""
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _quoted(value: str | bool | None) -> str:
    return dumps(value, ensure_ascii=False)


def _no_such_number(_name: str) -> NoReturn:
    raise NotTheType("InvalidJson")  # NaN and Infinity are Python's, not JSON's


_JSON = JSONDecoder(object_pairs_hook=Pairs, parse_float=Number, parse_int=Integer, parse_constant=_no_such_number)
