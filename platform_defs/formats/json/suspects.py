r"""Which values of a block probably keep it from being read at once: a guess, by regular expressions of RE2.

A wrong guess costs time and changes nothing: suspects are read one by one, and so is what the guess lets through and
the block reader does not take.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute

from platform_defs.contract.model import Contract, Field

pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them

_MOST_FIELDS = 50  # with more, RE2 leaves its fast automaton: 300 fields took 90 ms a message
_STRING = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt])*"'  # \u escapes are suspects: they may be half a surrogate pair
_SCALAR = rf"(?:{_STRING}|-?[0-9][0-9.eE+-]*|true|false|null)"
_FLAT = rf'(?:{_STRING}|[^"\[\]{{}}])*'
_NESTED = rf'(?:{_STRING}|[^"\[\]{{}}]|\[{_FLAT}\]|\{{{_FLAT}\}})*'
_NAME_CHARACTER = r'[^"\\\x00-\x1f]'


def suspects(contract: Contract, values: Sequence[bytes]) -> pa.BooleanArray:
    """True for values that do not look like a message of the contract, or seem to have a field twice."""
    if len(contract.fields) > _MOST_FIELDS:
        return pa.array([False] * len(values), pa.bool_())
    column = pa.array(values, pa.binary())
    shapely = pc.match_substring_regex(column, _message(contract))
    return pc.or_(pc.invert(shapely), pc.match_substring_regex(column, _twice(contract)))


def _message(contract: Contract) -> str:
    known = [rf'{item.name}"\s*:\s*(?:null|{_usual(item)})' for item in contract.fields]
    unknown = (
        rf'{_other_than(item.name for item in contract.fields)}"\s*:\s*(?:{_SCALAR}|\[{_NESTED}\]|\{{{_NESTED}\}})'
    )
    pair = rf'"(?:{"|".join([*known, unknown])})\s*'
    return rf"\A\{{\s*(?:{pair}(?:,\s*{pair})*)?\}}\z"


def _twice(contract: Contract) -> str:
    return "(?s)" + "|".join(rf'"{item.name}"\s*:.*"{item.name}"\s*:' for item in contract.fields)


def _other_than(names: Iterable[str]) -> str:
    """A regular expression of every name but these (RE2 has no look-ahead): it leaves their tree at some character."""
    words = sorted(set(names))
    first = sorted({word[0] for word in words if word})
    away = rf"[^\"\\\x00-\x1f{''.join(first)}]{_NAME_CHARACTER}*"
    below = [c + _other_than(word[1:] for word in group) for c, group in groupby(filter(None, words), lambda w: w[0])]
    return f"(?:{'|'.join([away, *below])}){'' if '' in words else '?'}"


def _usual(item: Field) -> str:
    """What the field usually looks like; what is rare and right, such as 1e3 for a decimal, may be missing."""
    of = item.type.arrow
    if pa.types.is_integer(of):
        return r"-?(?:0|[1-9][0-9]{0,17})"
    if pa.types.is_floating(of):
        return r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?"
    if pa.types.is_decimal(of):
        whole = rf"(?:0|[1-9][0-9]{{0,{of.precision - of.scale - 1}}})" if of.precision > of.scale else "0"
        number = rf"-?{whole}(?:\.[0-9]{{1,{of.scale}}})?" if of.scale else f"-?{whole}"
        return rf'(?:{number}|"{number}")'
    return "(?:true|false)" if pa.types.is_boolean(of) else _STRING
