"""Columns of the contract's types, from values that cursors have passed: exact, or doubtful."""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.formats.avro.arrays import array_at, array_to
from platform_defs.formats.avro.conversions import Conversion
from platform_defs.formats.avro.documents import json_of
from platform_defs.formats.avro.schema import Definite, Enum, Schema
from platform_defs.formats.avro.value_cursors import Scalar, Spans
from platform_defs.formats.avro.values import FIRST_DAY, FIRST_MICROSECOND, LAST_DAY, LAST_MICROSECOND
from platform_defs.formats.blocks.array_columns import MAX_ITEMS, as_lists, doubt_arrays
from platform_defs.formats.blocks.arrow import Column, nulls
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.buffer import Integers, Mask
from platform_defs.formats.blocks.reason import Wrong
from platform_defs.formats.blocks.texts import SHAPES, plain_column
from platform_defs.formats.wire.columns import binary_column, column_of, decimal_column, spread, texts, uuid_texts
from platform_defs.formats.wire.cursors import Cursors

_MAX_DIGITS = 38
_LEAST_INT, _MAX_INT = -(1 << 63), (1 << 63) - 1


def column(of: Definite, to: ColumnType, conversion: Conversion, held: Scalar, cursors: Cursors) -> Column:
    """Return a column of type `to` for all messages of the block: null for messages without a cursor. A value that does
    not fit the contract is doubtful. Not for json.
    """
    if isinstance(held, Spans):
        return _of_spans(to, conversion, held, cursors)
    match conversion.kind:
        case "symbol":
            return _symbols(of, held, cursors)
        case "decimal":
            return _decimals(to, 0, held >> 63, held, cursors)
        case "timestamp":
            return _plain(_microseconds(held, conversion.per_second, cursors), to, cursors)
        case "time":
            return _times(held, conversion.per_second, cursors)
        case "date":
            cursors.doubt((held < FIRST_DAY) | (held > LAST_DAY))
            return _plain(held.astype(np.int32), to, cursors)
        case "double":
            finite = np.isfinite(held)
            cursors.doubt(~finite)
            return _plain(np.where(finite, held, 0).astype(np.float64), to, cursors)
        case _:
            return _plain(held, to, cursors)


def _of_spans(to: ColumnType, conversion: Conversion, held: Spans, cursors: Cursors) -> Column:
    match conversion.kind:
        case "text":
            return _texts(held, cursors)
        case "bytes":
            return _bytes(held, cursors)
        case "uuid":
            found: Any = _texts(held, cursors)
            misspelled = pc.invert(pc.match_substring_regex(found, SHAPES["uuid"]))
            return plain_column("uuid", _less(found, misspelled, cursors))
        case "uuid_bytes":
            return spread(uuid_texts(cursors.buffer, held.starts), cursors.rows, len(cursors.doubtful))
        case _:
            return _scaled(to, conversion.scale, held, cursors)


def json_column(schema: Schema, of: Definite, spans: Spans, cursors: Cursors, budget: Budget) -> Column:
    """Return the values as JSON, message by message; null for null. Raises BlockTooLarge."""

    def text_of(raw: bytes) -> str | None:
        text = json_of(schema, of, raw)
        budget.spend(len(text or ""))
        return text

    return pa.array(_one_by_one(text_of, spans, cursors), pa.string())


def lists(items: Column, doubtful: Mask, inner: Cursors, cursors: Cursors) -> Column:
    """Return a list for each message of `cursors`, null for the other messages. `inner`: the cursors of the items. A
    message with a doubtful or null item, or too many items, is doubtful.
    """
    rows: Any = inner.rows
    doubt_arrays(cursors.doubtful, items, rows, doubtful, MAX_ITEMS)
    absent = np.ones(len(cursors.doubtful), np.bool_)
    absent[slice(None) if cursors.rows is None else cursors.rows] = False
    return as_lists(items, rows, absent)


def array_column(
    schema: Schema, of: Definite, to: ColumnType, conversion: Conversion, spans: Spans, cursors: Cursors
) -> Column:
    """Return the values as lists, message by message; null for a null array."""
    read = partial(array_at, schema, of, array_to(to, conversion))
    return pa.array(_one_by_one(read, spans, cursors), to.arrow)


def _one_by_one(read: Callable[[bytes], Any], spans: Spans, cursors: Cursors) -> list[Any]:
    """Return the value that `read` makes of each message's bytes; one that it refuses is doubtful."""
    found: list[Any] = [None] * len(cursors.doubtful)
    raw, rows = cursors.buffer.raw, range(len(cursors)) if cursors.rows is None else cursors.rows.tolist()
    wrong = cursors.doubts.copy()
    for n, (row, start, length) in enumerate(zip(rows, spans.starts.tolist(), spans.lengths.tolist(), strict=True)):
        if wrong[n]:
            continue
        try:
            found[row] = read(raw[start : start + length].tobytes())
        except Wrong:
            wrong[n] = True
    cursors.doubt(wrong)
    return found


def _plain(values: npt.NDArray[Any], to: ColumnType, cursors: Cursors) -> Column:
    return column_of(values, to.arrow, cursors.rows, len(cursors.doubtful))


def _bytes(held: Spans, cursors: Cursors) -> Column:
    lengths = np.where(cursors.doubts, 0, held.lengths) if cursors.doubtful.any() else held.lengths
    return binary_column(cursors.buffer, held.starts, lengths, cursors.rows, len(cursors.doubtful))


def _times(values: Integers, per_second: int, cursors: Cursors) -> Column:
    wrong = (values < 0) | (values >= 86_400 * per_second)
    cursors.doubt(wrong)
    micros = np.where(wrong, 0, values) * (1_000_000 // per_second)
    found: Any = column_of(micros, pa.time64("us"), cursors.rows, len(cursors.doubtful))
    return plain_column("time", found.cast(pa.string()))


def _texts(held: Spans, cursors: Cursors) -> Column:
    found, wrong = texts(_bytes(held, cursors))
    if wrong is not None:
        cursors.doubtful |= wrong
    return found


def _symbols(of: Definite, indexes: Integers, cursors: Cursors) -> Column:
    assert isinstance(of, Enum)  # noqa: S101  # no other type has symbols
    if not of.symbols:
        return nulls(pa.string(), len(cursors.doubtful))
    known = np.where(cursors.doubts, 0, indexes)
    places: Any = column_of(known, pa.int64(), cursors.rows, len(cursors.doubtful))
    return pa.array(of.symbols, pa.string()).take(places)


def _microseconds(values: Integers, per_second: int, cursors: Cursors) -> Integers:
    least = max(-(-FIRST_MICROSECOND * per_second // 1_000_000), _LEAST_INT)
    most = min(LAST_MICROSECOND * per_second // 1_000_000, _MAX_INT)
    cursors.doubt((values < least) | (values > most))
    if per_second <= 1_000_000:
        return values * (1_000_000 // per_second)
    finer = per_second // 1_000_000
    cursors.doubt(values % finer != 0)
    return values // finer


def _scaled(to: ColumnType, scale: int, held: Spans, cursors: Cursors) -> Column:
    """Convert decimals of up to 16 bytes, big-endian."""
    starts, lengths = held.starts, held.lengths
    wide = lengths > 8
    first = cursors.buffer.words[starts].byteswap().view(np.int64)
    low = np.where(lengths == 0, 0, first >> 8 * np.clip(8 - lengths, 0, 7))
    high = low >> 63
    if wide.any():
        cursors.doubt(lengths > 16)
        wide &= lengths <= 16
        low[wide] = cursors.buffer.words[starts[wide] + lengths[wide] - 8].byteswap().view(np.int64)
        high[wide] = first[wide] >> 8 * (16 - lengths[wide])
    return _decimals(to, scale, high, low, cursors)


def _decimals(to: ColumnType, scale: int, high: Integers, low: Integers, cursors: Cursors) -> Column:
    """Convert integers of 128 bits, times 10**-scale."""
    count, finer = len(cursors.doubtful), scale - to.scale
    if scale > _MAX_DIGITS or abs(finer) > _MAX_DIGITS:
        cursors.doubt_all()
        return nulls(to.arrow, count)
    whole: Any = decimal_column(high, low, cursors.rows, count)
    # The largest integer with the column's digits once `finer` digits are cut from it (negative: added).
    digits = min(to.precision + finer, _MAX_DIGITS)
    most = 10**digits - 1 if finer > 0 else (10**to.precision - 1) // 10**-finer
    beyond = pc.or_(pc.greater(whole, _number(most)), pc.less(whole, _number(-most)))
    whole = _less(whole, beyond, cursors)
    if finer == 0:
        return whole.view(to.arrow)
    written = whole.view(pa.decimal128(_MAX_DIGITS, scale))
    found = pc.cast(written, to.arrow, safe=finer < 0)
    if finer > 0:
        inexact = pc.not_equal(pc.cast(found, written.type), written)
        found = _less(found, inexact, cursors)
    return found


def _number(value: int) -> Any:
    return pa.array([Decimal(value)], pa.decimal128(_MAX_DIGITS, 0))[0]


def _less(found: Any, wrong: Any, cursors: Cursors) -> Any:
    """Return the column with nulls for the `wrong` values, and mark these as doubtful."""
    if not wrong.true_count:
        return found
    wrong = pc.fill_null(wrong, False)
    mask: Mask = wrong.to_numpy(zero_copy_only=False)
    cursors.doubtful |= mask
    return pc.if_else(wrong, pa.scalar(None, found.type), found)
