"""uuid, time and bytes as texts: what is one, and the one spelling that each value has in a row.

The expressions are RE2's and Python's alike, so that whole columns and single values are judged by the same.
"""

import base64
import re

UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?Z?"
BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"

_is_uuid, _is_time, _is_base64 = (re.compile(shape).fullmatch for shape in (UUID, TIME, BASE64))


def plain_uuid(text: str) -> str | None:
    """In lower case; None for what is none."""
    return text.lower() if _is_uuid(text) else None


def plain_time(text: str) -> str | None:
    """Without a Z, and without zeros at the end of a fraction; None for what is no time of a day."""
    if not _is_time(text):
        return None
    found = text.removesuffix("Z")
    return found.rstrip("0").rstrip(".") if "." in found else found


def plain_bytes(text: str) -> bytes | None:
    """What base64 stands for, with padding and no bit to spare; None for what is none."""
    return base64.b64decode(text) if _is_base64(text) else None
