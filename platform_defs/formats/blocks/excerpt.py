"""Excerpts of values for messages: printable, and storable in Postgres' text."""

_LONGEST = 80  # characters


def excerpt(value: str | bytes) -> str:
    """Return `value` cut to 80 characters, as `printable`; bytes that are not UTF-8 are escaped."""
    text = value[: _LONGEST * 4].decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    shown = printable(text[:_LONGEST])
    return shown if len(text) <= _LONGEST and len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def printable(text: str) -> str:
    """Return `text` with unprintable characters (NUL, control, lone surrogates) escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
