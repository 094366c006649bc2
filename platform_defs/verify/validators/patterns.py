r"""A contract's regular expressions: RE2's dialect (https://github.com/google/re2/wiki/Syntax), over the whole value.

They run in google-re2, RE2's own Python binding, and not in the copy inside Arrow that the engine uses.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute
import re2 as _re2

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types

re2: Any = _re2  # it has no types
REMEMBERED = 10_000  # texts of each pattern: account numbers, countries and the like repeat
# A pattern that surely matches no NUL: no dot, no negated or named class, no flags, no escape but those of punctuation,
# digits, word characters and spaces; classes of printable characters.
_WITHOUT_NUL = re.compile(
    r"(?:[^\\.()\[\]\0]|\\[dws.+*?()\[\]{}|^$/\\-]|\((?!\?)|\(\?:|\)"
    r"|\[(?!\^)(?:[ -Z^-~]|\\[dws.+*?()\[\]{}|^$/\\-])+\])*"
)


def whole_match(pattern: str) -> Callable[[str], bool]:
    """Return a function that returns True if a whole text matches `pattern`. Raises re2.error if it is not valid in
    RE2.
    """
    compiled = _compiled(pattern)

    @lru_cache(REMEMBERED)
    def matches(text: str) -> bool:
        return compiled.fullmatch(text.encode()) is not None

    return matches


def whole_matches(pattern: str) -> Callable[[Any], Any]:
    """Return the same function for a column of texts without NUL: null for null.

    If the pattern itself matches no NUL, all texts are matched at once, each followed by a NUL: every match is then one
    text. If that fails, or is not possible, each distinct text is matched.
    """
    one = re2.Set.FullMatchSet(_options())
    one.Add(pattern.encode())
    one.Compile()
    all_of_them = _compiled(rf"(?:(?:{pattern})\x00)*") if _WITHOUT_NUL.fullmatch(pattern) else None

    def matches(column: Any) -> Any:
        texts = column.drop_null()
        if all_of_them and all_of_them.fullmatch("\0".join([*texts.to_pylist(), ""]).encode()):
            return pc.if_else(pc.is_valid(column), True, None)
        different = texts.unique()
        kept = [text for text in different.to_pylist() if one.Match(text.encode())]
        found = pc.is_in(column, value_set=pa.array(kept, different.type))
        return pc.if_else(pc.is_valid(column), found, None)

    return matches


def _compiled(pattern: str) -> Any:
    return re2.compile(pattern.encode(), _options())  # bytes: it is UTF-8 either way, and text is translated slowly


def _options() -> Any:
    options = re2.Options()
    options.never_capture = True  # only the match is needed, no groups
    options.log_errors = False
    return options
