r"""A contract's regular expressions: RE2's dialect, over the whole value.

Python's `re` is quick on single values and means the same as RE2 for most of what people write: literals, classes,
groups, repetition, \d \w \s. Only such patterns go to it (with \s spelt out, since Python's also takes \v); all others
(anchors, flags, \p{...}, [[:alpha:]], ...) go to RE2 itself. RE2's syntax: https://github.com/google/re2/wiki/Syntax
"""

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute

pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them

_SPACE = r"\t\n\f\r "
_token = re.compile(
    r"""  [^\\\[\](){}^$|?*+.]                    # a literal
        | [.|)*+?] | \((?!\?) | \(\?:            # any, or, groups, repetition
        | \{\d+(?:,\d*)?\}
        | \\[dw] | \\[^A-Za-z0-9]
        | (?P<space>\\[sS])
        | (?P<set>\[\^?(?:[^\\\[\]^]|\\[dws]|\\[^A-Za-z0-9])+\])
    """,
    re.VERBOSE | re.ASCII,
)


def whole_match(pattern: str) -> Callable[[str], bool]:
    """Whether a whole text matches `pattern`, as RE2 understands it."""
    spelt = _for_python(pattern)
    if spelt is not None:
        compiled = re.compile(spelt, re.ASCII).fullmatch
        return lambda text: compiled(text) is not None
    anchored = rf"\A(?:{pattern})\z"
    return lambda text: pc.match_substring_regex(pa.array([text]), anchored)[0].as_py()


def _for_python(pattern: str) -> str | None:
    """`pattern` for Python's re, or None where the two dialects might differ."""
    spelt, at = "", 0
    while at < len(pattern):
        token = _token.match(pattern, at)
        if token is None:
            return None
        if token["space"]:
            spelt += f"[{_SPACE}]" if token["space"] == r"\s" else f"[^{_SPACE}]"
        elif token["set"]:
            spelt += re.sub(r"\\(.)", lambda escape: _SPACE if escape[1] == "s" else escape[0], token["set"])
        else:
            spelt += token[0]
        at = token.end()
    return spelt
