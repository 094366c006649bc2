"""A message's key, value and headers, as commands show them."""

import base64
from collections.abc import Iterator
from typing import Any

from platform_defs.errors.words import plural

_WIDTH = 16  # bytes in a line of a hex dump


def content_json(content: bytes | None, *, hidden: bool = False) -> dict[str, Any] | None:
    """Return the bytes as base64, which is exact, and as text if they are UTF-8; if hidden, their length alone."""
    if content is None:
        return None
    if hidden:
        return {"bytes": len(content)}
    document: dict[str, Any] = {"base64": base64.b64encode(content).decode(), "bytes": len(content)}
    try:
        return {**document, "text": content.decode()}
    except UnicodeDecodeError:
        return document


def hex_lines(data: bytes, most: int) -> Iterator[str]:
    """Yield lines of 78 characters: offset, bytes in hexadecimal, and the printable ASCII. The last line counts the
    bytes that are omitted.
    """
    for start in range(0, min(len(data), most), _WIDTH):
        line = data[start : min(start + _WIDTH, most)]
        digits = f"{line[:8].hex(' '):<23}  {line[8:].hex(' '):<23}"
        yield f"{start:08x}  {digits}  {''.join(chr(one) if 32 <= one < 127 else '.' for one in line)}"
    if len(data) > most:
        yield f"... {plural(len(data) - most, 'more byte')}"
