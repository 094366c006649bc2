"""The `json` columns of a block, read one message at a time by orjson: several times as fast as the single reader.

orjson rounds long numbers and drops repeated keys, so a message is taken only if writing it again gives back the
message, whitespace aside: both texts then have the same tokens, and every number is as it was written. Any other
message is doubtful, and left to the single reader.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson
import pyarrow as pa

from platform_defs.contract.model.message_path import MessagePath
from platform_defs.formats.blocks.arrow import Column
from platform_defs.formats.json.json_text import MAX_BYTES
from platform_defs.formats.json.message_shape import ObjectShape

_WHITESPACE = b" \t\n\r"
_NO_LARGER_WRITTEN_OUT = MAX_BYTES // 64  # a float's 5 bytes, 1e308, are at most 309 digits without an exponent
_has_exponent = re.compile(rb"[0-9]e[+-]?[0-9]").search


@dataclass(frozen=True)
class KeptWhole:
    """The json columns of a block's messages."""

    columns: list[Column]  # in the order of the paths; a doubtful row means nothing
    doubtful: pa.BooleanArray  # rows for the single reader
    unknown: pa.BooleanArray  # rows with at least one field that the contract does not know


def read_kept_whole(shape: ObjectShape, paths: Sequence[MessagePath], values: Sequence[bytes]) -> KeptWhole:
    """Return the values at `paths` as text. `values` are UTF-8 and nest no deeper than the single reader allows."""
    columns: list[list[bytes | None]] = [[] for _ in paths]
    doubtful, unknown = list[bool](), list[bool]()
    for value in values:
        document = _exact(value)
        texts = None if document is None else _texts(document, paths)
        doubtful.append(texts is None)
        unknown.append(texts is not None and has_unknown(document, shape))
        for column, text in zip(columns, texts or [None] * len(paths), strict=True):
            column.append(text)
    arrays: list[Column] = [pa.array(column, pa.binary()).cast(pa.string()) for column in columns]
    return KeptWhole(arrays, pa.array(doubtful, pa.bool_()), pa.array(unknown, pa.bool_()))


def has_unknown(document: Any, shape: ObjectShape) -> bool:
    """Return True if an object that is taken apart has a key that the contract does not know."""
    if type(document) is not dict:
        return False
    found = cast("dict[str, Any]", document)
    return not found.keys() <= shape.keys or any(has_unknown(found.get(key), below) for key, below in shape.apart)


def _exact(value: bytes) -> Any:
    """Return the message as Python values; None if they would lose something of it."""
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    again = orjson.dumps(document)
    if again != value and again.translate(None, _WHITESPACE) != value.translate(None, _WHITESPACE):
        return None
    return document


def _texts(document: Any, paths: Sequence[MessagePath]) -> list[bytes | None] | None:
    texts = list[bytes | None]()
    for path in paths:
        found: Any = document
        for key in path:
            if found is None:
                break
            if type(found) is not dict:
                return None
            found = cast("dict[str, Any]", found).get(key)
        text = None if found is None else orjson.dumps(found)
        if text is not None and (rb"\u0000" in text or len(text) > MAX_BYTES):
            return None
        if text is not None and len(text) > _NO_LARGER_WRITTEN_OUT and _has_exponent(text):
            return None  # the single reader must measure it with its numbers written without exponents
        texts.append(text)
    return texts
