"""uuid, time and bytes as texts: which texts are valid, and the one form that each value has in a row.

The expressions are RE2's and Python's alike, so that the same ones check whole columns and single values.
"""

import base64
import re

UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?Z?"
BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"

_is_uuid, _is_time, _is_base64 = (re.compile(shape).fullmatch for shape in (UUID, TIME, BASE64))


def plain_uuid(text: str) -> str | None:
    """Return it in lower case; None for an invalid text."""
    return text.lower() if _is_uuid(text) else None


def plain_time(text: str) -> str | None:
    """Return it without a Z, and without zeros at the end of a fraction; None for a text that is no time of a day."""
    if not _is_time(text):
        return None
    found = text.removesuffix("Z")
    return found.rstrip("0").rstrip(".") if "." in found else found


def plain_bytes(text: str) -> bytes | None:
    """Decode base64, with padding and no bit to spare. None for an invalid text."""
    return base64.b64decode(text) if _is_base64(text) else None
