r"""The values of a block that probably keep it from being read at once, found by regular expressions of RE2.

An error costs time and changes nothing: suspects are read one by one, and so is any other value that the block reader
does not take.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

import orjson
import pyarrow as pa

from platform_defs.contract.model.column_types import JSON
from platform_defs.contract.model.contract import Contract, Field
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.json.message_shape import ObjectShape, message_shape

_MAX_FIELDS = 50  # with more, RE2 leaves its fast automaton: 300 fields took 90 ms a message
_MAX_KEY = 200  # with longer ones the expression grows past what RE2 takes
_STRING = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt])*"'  # \u escapes are suspects: they may be half a surrogate pair
_SCALAR = rf"(?:{_STRING}|-?[0-9][0-9.eE+-]*|true|false|null)"
_FLAT = rf'(?:{_STRING}|[^"\[\]{{}}])*'
_NESTED = rf'(?:{_STRING}|[^"\[\]{{}}]|\[{_FLAT}\]|\{{{_FLAT}\}})*'
_ANY = rf"(?:{_SCALAR}|\[{_NESTED}\]|\{{{_NESTED}\}})"
_NAME_CHARACTER = r'[^"\\\x00-\x1f]'


def suspects(contract: Contract, values: pa.BinaryArray) -> pa.BooleanArray:
    """Return True for values that do not look like a message of the contract, or seem to have a field twice."""
    not_one = pa.array([False] * len(values), pa.bool_())
    shape = message_shape(contract)
    if len(contract.fields) > _MAX_FIELDS or max(map(len, _all_keys(shape))) > _MAX_KEY:
        return not_one
    once = [_written(key) for key, times in sorted(Counter(_all_keys(shape)).items()) if times == 1]
    twice = "|".join(rf'(?s:"{key}"\s*:.*"{key}"\s*:)' for key in once)  # of the keys in one place
    try:
        shapely = pc.match_substring_regex(values, rf"\A{_object(contract, shape)}\z")
        repeated = pc.match_substring_regex(values, twice) if twice else not_one
    except pa.ArrowInvalid:  # so many long keys that RE2 refuses the expression
        return not_one
    return pc.or_(pc.invert(shapely), repeated)


def _object(contract: Contract, shape: ObjectShape) -> str:
    """Return an expression for an object with the contract's keys and any others. Below the message's own level it
    ignores commas: it would double with each level.
    """
    known = list[str]()
    for key in sorted(shape.keys):
        inner = shape.objects.get(key)
        value = _object(contract, inner) if inner else _usual(contract.fields[shape.columns[key][0]])
        known.append(rf'{_written(key)}"\s*:\s*(?:null|{value})')
    other = _other_than(key for key in shape.keys if '"' not in key and "\\" not in key)
    every = "|".join([*known, rf'{other}"\s*:\s*{_ANY}'])
    pair = rf'"(?:{every})\s*'
    pairs = rf"(?:{pair},?\s*)*" if shape.path else rf"(?:{pair}(?:,\s*{pair})*)?"
    return rf"\{{\s*{pairs}\}}"


def _all_keys(shape: ObjectShape) -> Iterator[str]:
    yield from shape.keys
    for below in shape.objects.values():
        yield from _all_keys(below)


def _written(key: str) -> str:
    """Return the key as a message usually writes it, for RE2."""
    return re.escape(orjson.dumps(key).decode()[1:-1])


def _other_than(names: Iterable[str]) -> str:
    """Return an expression for every name except these. RE2 has no lookahead: it leaves the tree of the names."""
    words = set(names)
    prefixes = {word[:end] for word in words for end in range(len(word) + 1)} - {""}
    below = defaultdict[str, dict[str, str]](dict)  # by prefix: the expressions after it, by the next character
    for prefix in sorted(prefixes, key=len, reverse=True):
        below[prefix[:-1]][prefix[-1]] = _leaving(below.pop(prefix, {}), prefix in words)
    return _leaving(below[""], "" in words)


def _leaving(below: dict[str, str], is_word: bool) -> str:
    """Return an expression for what may follow a prefix of the words, so that the whole is none of them."""
    characters = sorted(below)
    away = rf"[^\"\\\x00-\x1f{''.join(map(re.escape, characters))}]{_NAME_CHARACTER}*"
    after = [re.escape(character) + below[character] for character in characters]
    return f"(?:{'|'.join([away, *after])}){'' if is_word else '?'}"


def _usual(item: Field) -> str:
    """Return an expression for the field's usual values; rare valid ones, such as 1e3 for a decimal, may be missing."""
    of = item.type.arrow
    if item.type == JSON:
        return _ANY
    if item.type.item:
        one = rf"{_usual(replace(item, type=item.type.item))}\s*"
        return rf"\[\s*(?:{one}(?:,\s*{one})*)?\]"
    if pa.types.is_integer(of) or item.unit:
        return r"-?(?:0|[1-9][0-9]{0,17})"
    if pa.types.is_floating(of):
        return r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?"
    if pa.types.is_decimal(of):
        before, after = item.type.precision - item.type.scale, item.type.scale
        whole = rf"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
        number = rf"-?{whole}(?:\.[0-9]{{1,{after}}})?" if after else f"-?{whole}"
        return rf'(?:{number}|"{number}")'
    return "(?:true|false)" if pa.types.is_boolean(of) else _STRING
