"""The columns that `pyarrow.json` reads, and the checks for values that it accepts and the contract does not."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa

from platform_defs.contract.model.contract import Field, Unit
from platform_defs.formats.blocks.array_columns import MAX_ITEMS, doubt_arrays, with_items
from platform_defs.formats.blocks.arrow import Column
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.texts import SHAPES, plain_column
from platform_defs.formats.json.values import DATE_SHAPE, TICKS, TIMESTAMP_SHAPE, epoch_limits

_FULL_TIME = len("2026-11-01T10:00:00Z")


def read_as(item: Field) -> pa.DataType:
    """Return the type to request from pyarrow.json."""
    of = item.type.arrow
    if item.unit:
        return pa.int64()
    if item.type.item:
        return pa.list_(read_as(replace(item, type=item.type.item)))
    if pa.types.is_date(of) or pa.types.is_timestamp(of) or item.type.kind in SHAPES:
        return pa.string()  # it reads no dates, and takes times without a zone
    if pa.types.is_decimal(of) and item.type.precision + item.type.scale > 38:
        # it checks the digits, then shifts them: 128 bits could overflow
        return pa.decimal256(item.type.precision, item.type.scale)
    return of


def finished(item: Field, read: Column, has_nul: bool, doubts: list[pa.BooleanArray]) -> Column:
    """Return the column in its own type, null where doubtful; add a mask of the doubtful values to `doubts`, if any."""
    of = item.type.arrow
    if item.unit:
        return _since_1970(item.unit, read, of, doubts)
    if item.type.item:
        # An array is doubtful if it has a doubtful or null item, or too many items.
        inner, of_each = pc.list_flatten(read), list[pa.BooleanArray]()
        items = finished(replace(item, type=item.type.item), inner, has_nul, of_each)
        wrong, doubtful = np.zeros(len(inner), np.bool_), np.zeros(len(read), np.bool_)
        for mask in of_each:
            wrong |= mask.to_numpy(zero_copy_only=False)
        doubt_arrays(doubtful, inner, pc.list_parent_indices(read).to_numpy(), wrong, MAX_ITEMS)
        doubts += [pa.array(doubtful)] if doubtful.any() else []
        return with_items(read, items)
    if shape := SHAPES.get(item.type.kind):
        return plain_column(item.type.kind, _less(read, pc.invert(pc.match_substring_regex(read, shape)), doubts))
    if pa.types.is_string(of):
        return _less(read, pc.match_substring(read, "\0"), doubts) if has_nul else read
    if pa.types.is_floating(of):
        return _less(read, pc.invert(pc.is_finite(read)), doubts)
    if pa.types.is_decimal(of):
        most = Decimal((0, (9,) * item.type.precision, -item.type.scale))
        return _less(read, pc.greater(pc.abs(read), pc.cast(pa.array([most]), read.type)[0]), doubts).cast(of)
    if pa.types.is_date(of):
        known = _less(read, pc.invert(pc.match_substring_regex(read, DATE_SHAPE)), doubts).cast(of)
        return _less(known, pc.less(known, pa.scalar(date(1, 1, 1), of)), doubts)
    if pa.types.is_timestamp(of):
        known = _timestamps(read, of, doubts)
        early = pc.less(known, pa.scalar(datetime(1, 1, 1, tzinfo=UTC), of))
        late = pc.greater(known, pa.scalar(datetime.max.replace(tzinfo=UTC), of))
        return _less(known, pc.or_(early, late), doubts)
    return read


def _since_1970(unit: Unit, read: Column, of: pa.DataType, doubts: list[pa.BooleanArray]) -> Column:
    low, high = epoch_limits(unit)
    doubt = pc.or_(pc.less(read, low), pc.greater(read, high))
    if (parts := TICKS[unit] // TICKS["us"]) > 1:  # of a microsecond
        doubt = pc.or_(doubt, pc.not_equal(pc.multiply(pc.divide(read, parts), parts), read))
    return _less(read, doubt, doubts).cast(pa.timestamp(unit, "UTC")).cast(of)


def _timestamps(read: Column, of: pa.DataType, doubts: list[pa.BooleanArray]) -> Column:
    if pc.all(pc.and_(pc.ends_with(read, "Z"), pc.greater_equal(pc.binary_length(read), _FULL_TIME))).as_py():
        try:  # with seconds and a Z, the cast takes what TIMESTAMP_SHAPE matches, at a fifth of the time
            return read.cast(of)
        except pa.ArrowInvalid:
            pass  # one of them is not a time: the shape shows which
    return _less(read, pc.invert(pc.match_substring_regex(read, TIMESTAMP_SHAPE)), doubts).cast(of)


def _less(column: Column, doubt: pa.BooleanArray, doubts: list[pa.BooleanArray]) -> Column:
    if not doubt.true_count:
        return column
    doubts.append(pc.fill_null(doubt, False))
    return pc.if_else(doubts[-1], pa.scalar(None, column.type), column)
