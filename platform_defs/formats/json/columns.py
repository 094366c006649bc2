"""The columns that `pyarrow.json` reads, and what it takes for right and the contract does not."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from platform_defs.contract.model import Field
from platform_defs.formats.json.values import DATE_SHAPE, TIMESTAMP_SHAPE

_FULL_TIME = len("2026-11-01T10:00:00Z")


def read_as(item: Field) -> pa.DataType:
    """The type to ask pyarrow.json for."""
    of = item.type.arrow
    if pa.types.is_date(of) or pa.types.is_timestamp(of):
        return pa.string()  # it reads no dates, and takes times without a zone
    if pa.types.is_decimal(of) and of.precision + of.scale > 38:
        return pa.decimal256(of.precision, of.scale)  # it checks the digits, then shifts: 128 bits could overflow
    return of


def finished(item: Field, read: pa.Array, has_nul: bool, doubts: list[pa.BooleanArray]) -> pa.Array:
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
