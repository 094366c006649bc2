"""The keys of messages, as the text that decides an upsert's row."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from platform_defs.contract.model.contract import Fault
from platform_defs.engine.interfaces.schema_finder import NamedSchema
from platform_defs.formats.blocks.arrow import Column
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.reason import MISSING_KEY


@dataclass(frozen=True)
class KeyColumn:
    """The keys of a block's messages as text, null if a key has a fault."""

    texts: Column
    faults: list[Fault]
    schemas: Mapping[NamedSchema, int]  # messages by the schema that their keys name, if it is known


def key_texts(keys: pa.BinaryArray) -> tuple[Column, list[Fault]]:
    """Return the message keys as text (null if faulty), and a fault for each key that no upsert can use."""
    if not keys.null_count and not pc.any(pc.match_substring(keys, "\0")).as_py():
        try:
            return keys.cast(pa.string()), []
        except pa.ArrowInvalid:
            pass  # one of them is not UTF-8: find which one by one
    texts: list[str | None] = []
    found: list[Fault] = []
    for index, raw in enumerate(keys.to_pylist()):
        text, why = None, MISSING_KEY
        if raw is not None:
            try:
                text = raw.decode("utf-8")
                why = ("NulCharacter", "the message key holds a NUL character, which Postgres cannot store in text")
            except UnicodeDecodeError as error:
                why = ("InvalidUtf8", f"the message key is not UTF-8: {error.reason} at byte {error.start}")
        if text is None or "\0" in text:
            text = None
            found.append(Fault(index, "decode", *why, "_key"))
        texts.append(text)
    return pa.array(texts, pa.string()), found
