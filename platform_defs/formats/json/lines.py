r"""A reader of many messages at once: `pyarrow.json` reads them, joined by newlines, with the contract's schema.

The rows must be the values, one each and in order. A value is let in if it begins with `{`, ends with `}` and has no
NUL. Then it yields at least one object or an error: RapidJSON refuses the newline between values inside a string, and
what begins with `{` cannot continue an object that another value left open. So as many rows as values means one row
each. NUL is kept out because RapidJSON's input ends there. Newlines within a value are whitespace: all values are one
block.

The checks by column find values that pyarrow takes and the contract does not: `doubtful`, for the single reader.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, cast

import orjson
import pyarrow as pa
import pyarrow.json

from platform_defs.contract.model.message_path import MessagePath
from platform_defs.formats.blocks.arrow import Column, all_bytes, record_batch
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.texts import is_utf8
from platform_defs.formats.json.columns import finished
from platform_defs.formats.json.json_text import MAX_BYTES
from platform_defs.formats.json.message_shape import ObjectShape
from platform_defs.formats.json.read_plan import ReadPlan
from platform_defs.formats.json.single import MAX_DEPTH, too_deep

_MAX_BYTES = 256 << 20  # joined; pyarrow's blocks and string columns end at 2 GiB
_BEYOND = 1 << 30  # past the end of every value
# A character of a plain key or of a number, escaped. Not the characters that HTML needs escaped: some writers do that.
_escaped_ascii = re.compile(rb"\\u00(?:2[bBdDeE]|3[0-9]|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aA])").search


@dataclass(frozen=True)
class Lines:
    """The rows read from a block of values."""

    rows: pa.RecordBatch  # one row a value; a doubtful one means nothing
    doubtful: pa.BooleanArray | None  # rows for the single reader; None: no row
    unknown: pa.BooleanArray | None  # rows with at least one field that the contract does not know; None: no row


@dataclass(frozen=True)
class KeptWhole:
    """The json columns of a block's messages."""

    columns: list[Column]  # in the order of the paths; a doubtful row means nothing
    doubtful: pa.BooleanArray  # rows for the single reader
    unknown: pa.BooleanArray  # rows with at least one field that the contract does not know


def read_lines(plan: ReadPlan, values: pa.BinaryArray) -> Lines | None:
    """Return the values, at least one and none null, as rows; None if one keeps the block from being read at once."""
    if not plan.readable or values.nbytes > _MAX_BYTES:
        return None
    if values.null_count or _braced(values).true_count < len(values):
        return None
    joined = _joined(values)
    if b"\0" in joined or not is_utf8(joined):
        return None
    if plan.shifted_far is not None:  # a decimal may be one that pyarrow must not read
        escaped = _holds(joined, rb"\u00") and _escaped_ascii(joined)  # of a key, or of a number in a string
        if escaped or plan.finds_shifted_far(joined, values):
            return None
    return _with_kept_whole(plan, joined, values) if plan.whole else _plain(plan, joined, values)


def line_mask(values: pa.BinaryArray) -> pa.BooleanArray:
    """Return True for each value that may be in a block."""
    lines = pc.fill_null(pc.and_not(_braced(values), pc.match_substring(values, "\0")), False)
    if values.nbytes <= _MAX_BYTES and is_utf8(_joined(values.drop_null())):
        return lines
    return pc.and_(lines, pa.array([value is not None and is_utf8(value) for value in values.to_pylist()]))


def _plain(plan: ReadPlan, joined: bytes, values: pa.BinaryArray) -> Lines | None:
    """Read a block without json columns. Messages are parsed again, by orjson, only if a field is unknown."""
    table, unknown = _read(joined, plan.schema, "error"), None
    if isinstance(table, pa.ArrowInvalid) and "unexpected field" in str(table) and not _nests_deep(joined, values):
        table = _read(joined, plan.schema, "ignore")
        if not isinstance(table, pa.ArrowInvalid) and (unknown := _unknown(plan.shape, values)) is None:
            return None
    if isinstance(table, pa.ArrowInvalid) or table.num_rows != len(values):
        return None
    return _finish(plan, table, joined, unknown, None)


def _with_kept_whole(plan: ReadPlan, joined: bytes, values: pa.BinaryArray) -> Lines | None:
    """Read a block with json columns, which pyarrow ignores."""
    if _nests_deep(joined, values):
        return None
    table = _read(joined, plan.schema, "ignore") if plan.places else None
    if isinstance(table, pa.ArrowInvalid) or (table is not None and table.num_rows != len(values)):
        return None
    whole = read_kept_whole(plan.shape, list(plan.whole.values()), all_bytes(values))
    return _finish(plan, table, joined, whole.unknown, whole)


def _finish(
    plan: ReadPlan, table: pa.Table | None, joined: bytes, unknown: pa.BooleanArray | None, whole: KeptWhole | None
) -> Lines:
    """Return the columns in the contract's order and types, with a mask of the doubtful rows."""
    doubts = [whole.doubtful] if whole and whole.doubtful.true_count else []
    has_nul = _holds(joined, rb"\u0000")
    columns: dict[int, Column] = dict(zip(plan.whole, whole.columns if whole else (), strict=True))
    if table is not None:
        tops: list[Column] = [column.combine_chunks() for column in table.columns]
        for position, place in plan.places.items():
            read = tops[place[0]] if len(place) == 1 else pc.struct_field(tops[place[0]], list(place[1:]))
            columns[position] = finished(plan.contract.fields[position], read, has_nul, doubts)
    ordered = [columns[position] for position in range(len(plan.contract.fields))]
    rows = record_batch(ordered, plan.contract.arrow_schema)
    return Lines(rows, reduce(pc.or_, doubts) if doubts else None, unknown)


def _joined(values: pa.BinaryArray) -> bytes:
    """Return the values, none of them null, with a newline after each."""
    if not len(values):
        return b""
    ended = pc.binary_replace_slice(values, _BEYOND, _BEYOND, b"\n")  # five times as fast as binary_join
    _, ends, data = ended.buffers()
    if ends is None or data is None:  # an array of at least one value has both
        raise AssertionError(ended)
    return memoryview(data)[: memoryview(ends).cast("i")[len(values)]].tobytes()


def _braced(values: pa.BinaryArray) -> pa.BooleanArray:
    return pc.and_(pc.starts_with(values, "{"), pc.ends_with(values, "}"))


def _holds(joined: bytes, escape: bytes) -> bool:
    """Return True if an escape is in it. Its backslash alone is found fifty times as fast, and is rarely there."""
    return b"\\" in joined and escape in joined


def _nests_deep(joined: bytes, values: pa.BinaryArray) -> bool:
    """Return True if a value nests deeper than the single reader allows; pyarrow skips unknown fields of any depth."""
    if joined.count(b"[") + joined.count(b"{") < len(values) + MAX_DEPTH:
        return False
    return any(map(too_deep, all_bytes(values)))


def _read(joined: bytes, schema: pa.Schema, unexpected: Literal["error", "ignore"]) -> pa.Table | pa.ArrowInvalid:
    try:
        return pyarrow.json.read_json(
            pa.BufferReader(joined),  # pyright: ignore[reportArgumentType]  # documented; the stubs lack it
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(joined) + 1),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except pa.ArrowInvalid as wrong:
        return wrong


def _unknown(shape: ObjectShape, values: pa.BinaryArray) -> pa.BooleanArray | None:
    """Return True for each value with a field unknown to the contract; None if one is not JSON to orjson (NaN)."""
    keys = shape.keys
    try:
        if shape.objects:
            return pa.array([has_unknown(orjson.loads(value), shape) for value in all_bytes(values)])
        return pa.array([not orjson.loads(value).keys() <= keys for value in all_bytes(values)])
    except orjson.JSONDecodeError:
        return None


_WHITESPACE = b" \t\n\r"
_NO_LARGER_WRITTEN_OUT = MAX_BYTES // 64  # a float's 5 bytes, 1e308, are at most 309 digits without an exponent
_has_exponent = re.compile(rb"[0-9]e[+-]?[0-9]").search


def read_kept_whole(shape: ObjectShape, paths: Sequence[MessagePath], values: Sequence[bytes]) -> KeptWhole:
    """Return the values at `paths` as text, read by orjson: several times as fast as the single reader. `values` are
    UTF-8 and nest no deeper than the single reader allows.

    orjson rounds long numbers and drops repeated keys, so a message is taken only if writing it again gives back the
    message, whitespace aside: both texts then have the same tokens, and every number is as it was written. Any other
    message is doubtful.
    """
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
