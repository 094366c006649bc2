"""Arrays as Postgres reads them from a text: {"a","b"}.

https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO. Every element is quoted: Postgres accepts that for each
type, and no element is then mistaken for NULL.
"""

from collections.abc import Iterable


def array_literal(texts: Iterable[str]) -> str:
    """Return the array of these elements, each formatted as its own type."""
    return "{" + ",".join(map(_quoted, texts)) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'
