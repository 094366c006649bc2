"""How a value is shown in a message: short, printable, and storable in Postgres' text."""

_LONGEST = 80  # characters


def excerpt(value: str | bytes) -> str:
    """`value` cut to 80 characters; unprintable characters (NUL, control, lone surrogates, bad UTF-8) escaped."""
    head = value[: _LONGEST * 4].decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    if len(head) <= _LONGEST and head.isprintable():
        return head
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in head[: _LONGEST + 1])
    return shown if len(shown) <= _LONGEST and len(head) <= _LONGEST else f"{shown[:_LONGEST]}…"
