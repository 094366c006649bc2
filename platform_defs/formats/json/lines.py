r"""Many messages at once: joined by newlines and read by `pyarrow.json` with the contract's schema.

The rows must be the values, one each and in order. Values let in begin with `{`, end with `}` and hold no NUL: then
each yields at least one object or an error (RapidJSON refuses the newline between values inside a string, and what
begins with `{` cannot continue an object that another value left open), so as many rows as values means one row each.
NUL is kept out because RapidJSON's input ends there. Newlines within a value are whitespace: all values are one block.

What pyarrow takes and the contract does not is found afterwards, by column, and left to the single reader: `doubtful`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.json

from platform_defs.contract.model import Contract, Field
from platform_defs.formats.json.single import MAX_DEPTH, too_deep
from platform_defs.formats.json.values import DATE_SHAPE, TIMESTAMP_SHAPE

pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them

_MOST_BYTES = 256 << 20  # joined; pyarrow's blocks and string columns end at 2 GiB
_FULL_TIME = len("2026-11-01T10:00:00Z")


@dataclass(frozen=True)
class Lines:
    """What a block of values was read as."""

    rows: pa.RecordBatch  # one row a value; what stands in a doubtful one means nothing
    doubtful: pa.BooleanArray | None  # rows that the single reader must judge; None: not one
    unknown: pa.BooleanArray | None  # rows with at least one field that the contract does not know; None: not one


def read_lines(contract: Contract, values: Sequence[bytes]) -> Lines | None:
    """The values as rows; None if one of them keeps the block from being read as one."""
    joined = b"\n".join(values)
    if len(joined) > _MOST_BYTES or b"\0" in joined or not _all_braced(values) or not _is_utf8(joined):
        return None
    schema = pa.schema([(item.name, _read_as(item)) for item in contract.fields])
    table, strange = _read(joined, schema, "error"), False
    if isinstance(table, pa.ArrowInvalid) and "unexpected field" in str(table) and not _nests_deep(joined, values):
        table, strange = _read(joined, schema, "ignore"), True
    if isinstance(table, pa.ArrowInvalid) or table.num_rows != len(values):
        return None
    unknown = _unknown(contract, values) if strange else None
    if strange and unknown is None:
        return None
    doubts = list[pa.BooleanArray]()
    has_nul = b"\\" in joined and rb"\u0000" in joined  # one byte is found much faster than six
    columns = [_column(item, table.column(item.name).combine_chunks(), has_nul, doubts) for item in contract.fields]
    doubtful = reduce(pc.or_, doubts) if doubts else None
    rows = pa.RecordBatch.from_arrays(columns, schema=contract.arrow_schema)
    return Lines(rows, doubtful, unknown)


def is_line(value: bytes | None) -> bool:
    """Whether the value may stand in a block."""
    return value is not None and value[:1] == b"{" and value[-1:] == b"}" and b"\0" not in value and _is_utf8(value)


def _all_braced(values: Sequence[bytes]) -> bool:
    column = pa.array(values, pa.binary())
    braced = pc.and_(pc.starts_with(column, "{"), pc.ends_with(column, "}"))
    return column.null_count == 0 and braced.true_count == len(values)


def _is_utf8(value: bytes) -> bool:
    if value.isascii():
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _nests_deep(joined: bytes, values: Sequence[bytes]) -> bool:
    """Whether a value nests deeper than the single reader allows; pyarrow skips unknown fields of any depth."""
    if joined.count(b"[") + joined.count(b"{") < len(values) + MAX_DEPTH:
        return False
    return any(too_deep(value) for value in values)


def _read(joined: bytes, schema: pa.Schema, unexpected: str) -> pa.Table | pa.ArrowInvalid:
    try:
        return pyarrow.json.read_json(
            pa.BufferReader(joined),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(joined) + 1),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except pa.ArrowInvalid as wrong:
        return wrong


def _read_as(item: Field) -> pa.DataType:
    """The type to ask pyarrow.json for."""
    of = item.type.arrow
    if pa.types.is_date(of) or pa.types.is_timestamp(of):
        return pa.string()  # it reads no dates, and takes times without a zone
    if pa.types.is_decimal(of) and of.precision + of.scale > 38:
        return pa.decimal256(of.precision, of.scale)  # it checks the digits, then shifts: 128 bits could overflow
    return of


def _column(item: Field, read: pa.Array, has_nul: bool, doubts: list[pa.BooleanArray]) -> pa.Array:
    """The column in its own type, null where doubtful; a mask of those is added to `doubts` if there are any."""
    of = item.type.arrow
    if pa.types.is_string(of):
        return _less(read, pc.match_substring(read, "\0"), doubts) if has_nul else read
    if pa.types.is_floating(of):
        return _less(read, pc.invert(pc.is_finite(read)), doubts)
    if pa.types.is_decimal(of):
        most = pa.scalar(Decimal((0, (9,) * of.precision, -of.scale)), read.type)
        return _less(read, pc.greater(pc.abs(read), most), doubts).cast(of)
    if pa.types.is_date(of):
        known = _less(read, pc.invert(pc.match_substring_regex(read, DATE_SHAPE)), doubts).cast(of)
        return _less(known, pc.less(known, pa.scalar(date(1, 1, 1), of)), doubts)
    if pa.types.is_timestamp(of):
        known = _timestamps(read, of, doubts)
        early = pc.less(known, pa.scalar(datetime(1, 1, 1, tzinfo=UTC), of))
        late = pc.greater(known, pa.scalar(datetime.max.replace(tzinfo=UTC), of))
        return _less(known, pc.or_(early, late), doubts)
    return read


def _timestamps(read: pa.Array, of: pa.DataType, doubts: list[pa.BooleanArray]) -> pa.Array:
    if pc.all(pc.and_(pc.ends_with(read, "Z"), pc.greater_equal(pc.binary_length(read), _FULL_TIME))).as_py():
        try:  # with seconds and a Z, the cast takes what TIMESTAMP_SHAPE matches, at a fifth of the time
            return read.cast(of)
        except pa.ArrowInvalid:
            pass  # one of them is no time: the shape tells which
    return _less(read, pc.invert(pc.match_substring_regex(read, TIMESTAMP_SHAPE)), doubts).cast(of)


def _less(column: pa.Array, doubt: pa.BooleanArray, doubts: list[pa.BooleanArray]) -> pa.Array:
    if not doubt.true_count:
        return column
    doubts.append(pc.fill_null(doubt, False))
    return pc.if_else(doubts[-1], pa.scalar(None, column.type), column)


def _unknown(contract: Contract, values: Sequence[bytes]) -> pa.BooleanArray | None:
    """Which of the values have a field that the contract does not know; None if one is no JSON to orjson (NaN)."""
    names = frozenset(item.name for item in contract.fields)
    try:
        return pa.array([not orjson.loads(value).keys() <= names for value in values])
    except orjson.JSONDecodeError:
        return None
