"""How a value is shown in a message: short, printable, and storable in Postgres' text."""

_LONGEST = 80  # characters


def excerpt(value: str | bytes) -> str:
    """`value` cut to 80 characters; unprintable ones (NUL, control, lone surrogates, bad UTF-8) are shown escaped."""
    text = value[: _LONGEST * 4].decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    head = text[:_LONGEST]
    shown = head if head.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in head)
    return shown if len(text) <= _LONGEST and len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
