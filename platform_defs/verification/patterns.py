r"""A contract's regular expressions: RE2's dialect (https://github.com/google/re2/wiki/Syntax), over the whole value.

Asked of google-re2, RE2's own Python binding, and not of the copy inside Arrow that the engine asks.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2 as _re2

re2: Any = _re2  # it has no types
REMEMBERED = 10_000  # texts of each pattern: account numbers, countries and the like come again and again


def whole_match(pattern: str) -> Callable[[str], bool]:
    """Whether a whole text matches `pattern`. Raises re2.error where it is not a pattern of RE2's."""
    options = re2.Options()
    options.never_capture = True  # only whether it matches is asked
    options.log_errors = False
    compiled = re2.compile(pattern.encode(), options)  # bytes: it is UTF-8 either way, and text is translated slowly

    @lru_cache(REMEMBERED)
    def matches(text: str) -> bool:
        return compiled.fullmatch(text.encode()) is not None

    return matches
