"""Columns from the result of a walk. A value that a column is not sure of is doubtful, and means nothing."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.formats.blocks.array_columns import MAX_ITEMS, SIZE_OF_ITEM
from platform_defs.formats.blocks.arrow import Column, repeated
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.buffer import Integers, Words
from platform_defs.formats.blocks.reason import Reason, Wrong
from platform_defs.formats.blocks.texts import SHAPES, plain_column
from platform_defs.formats.json.values import DATE_SHAPE
from platform_defs.formats.protobuf.items import items_of
from platform_defs.formats.protobuf.json_tree import json_column_value
from platform_defs.formats.protobuf.resolve import ColumnPlan, Path, Program
from platform_defs.formats.protobuf.shapes import FieldShape, MessageShape
from platform_defs.formats.protobuf.tree import MAX_ITEMS as MAX_OF_A_MESSAGE
from platform_defs.formats.protobuf.tree import TreeReader
from platform_defs.formats.protobuf.values import FIRST_SECOND, LAST_SECOND
from platform_defs.formats.protobuf.walk import Cell, Found
from platform_defs.formats.wire.columns import binary_column, column_of, decimal_column, texts
from platform_defs.formats.wire.varint import zigzag

_HALF = np.uint64(0xFFFF_FFFF)
_MAX_DIGITS = 18  # of a decimal that is made from an integer of 64 bits

Maker = Callable[[ColumnPlan, list[Cell], Integers, Found], Any]


def columns_of(program: Program, found: Found, budget: Budget) -> list[Column]:
    """Return the contract's columns, in order; mark doubtful messages in `found`. Raises BlockTooLarge."""
    return [_column(plan, program, found, budget) for plan in program.columns]


def _column(plan: ColumnPlan, program: Program, found: Found, budget: Budget) -> Column:
    count, kind = len(found.doubtful), plan.item.type.arrow
    if plan.recipe == "missing":
        return repeated(None, kind, count)
    if plan.recipe == "json":
        return _json_column(plan, program, found, budget)
    if plan.recipe == "array":
        return _arrays(plan, program, found, budget)
    cells = [found.cell(path) for path in plan.parts]
    present = found.cell(plan.parts[0][:-1]).present if plan.is_message else cells[0].present
    rows = np.flatnonzero(present)
    if plan.shape and plan.shape.enum:
        budget.spend(len(rows) * plan.shape.enum.longest)
    return _MAKERS[plan.recipe](plan, cells, rows, found)


def _json_column(plan: ColumnPlan, program: Program, found: Found, budget: Budget) -> Column:
    """Return the column, read as the single reader does; null for no value, or a value for the single reader."""
    path = plan.parts[0]
    holder, item = program.shape.end(path)
    alone = MessageShape(holder.of, {item.number: item})
    bytes_of = _bytes_of(path, found)
    longest = MAX_OF_A_MESSAGE // sum(other.is_whole for other in program.columns)
    values: list[str | None] = [None] * len(found.doubtful)
    present = ~found.doubtful
    if len(path) > 1:  # the message that has the field may be missing
        present &= found.cell(path[:-1]).present
    for row in np.flatnonzero(present).tolist():
        text = _json_text(alone, item, bytes_of.get(row, b""), len(path) - 1, longest)
        if isinstance(text, Reason):
            found.doubtful[row] = True
        else:
            values[row] = text
            budget.spend(len(text or ""))
    return pa.array(values, pa.string())


def _bytes_of(path: Path, found: Found) -> dict[int, bytes]:
    """Return all bytes of the field by message, tags included, in order: again a message, with this field alone."""
    pieces: defaultdict[int, bytearray] = defaultdict(bytearray)
    raw: Any = found.buffer.raw
    for values in found.wholes.get(path, ()):
        spans = zip(values.rows.tolist(), values.tags.tolist(), values.stops.tolist(), strict=True)
        for row, start, stop in spans:
            pieces[row] += raw[start:stop].tobytes()
    return {row: bytes(piece) for row, piece in pieces.items()}


def _json_text(alone: MessageShape, item: FieldShape, raw: bytes, depth: int, longest: int) -> str | Reason | None:
    if len(raw) > longest:
        return Reason("TooManyItems", "may hold too many items")
    try:
        return json_column_value(item, TreeReader(raw).read(alone, 0, depth))
    except Wrong as wrong:
        return wrong.reason


def _arrays(plan: ColumnPlan, program: Program, found: Found, budget: Budget) -> Column:
    """Return a list for each message; null if the message that has the field is missing."""
    assert plan.items  # noqa: S101  # the recipe is for arrays
    path = plan.parts[0]
    items = items_of(plan, program.shape.end(path)[1], found)
    longest = plan.items.shape.enum.longest if plan.items.shape and plan.items.shape.enum else 0
    budget.spend(len(items.rows) * (SIZE_OF_ITEM + longest))
    column = _MAKERS[plan.items.recipe](plan.items, items.cells, np.arange(len(items.rows)), items.alone)
    most = min(MAX_ITEMS, MAX_OF_A_MESSAGE // sum(other.is_whole for other in program.columns))
    return items.lists(column, most, path, found)


def _numbers(values: Any, plan: ColumnPlan, rows: Integers, found: Found) -> Column:
    count = len(found.doubtful)
    return column_of(values, plan.item.type.arrow, None if len(rows) == count else rows, count)


def _kind(plan: ColumnPlan) -> str:
    assert plan.shape is not None  # noqa: S101  # only what is missing has none
    return plan.shape.kind


def _integers(plan: ColumnPlan, cells: list[Cell], rows: Integers, found: Found) -> Integers:
    values = INTEGERS[_kind(plan)](cells[0].raw[rows])
    if _kind(plan) in ("uint64", "fixed64"):
        found.doubtful[rows] |= values < 0
    return values


def _double(plan: ColumnPlan, cells: list[Cell], rows: Integers, found: Found) -> Column:
    kind, raw = _kind(plan), cells[0].raw[rows]
    if kind == "double":
        values = raw.view(np.float64)
    elif kind == "float":
        with np.errstate(invalid="ignore"):  # a signalling NaN
            values = raw.astype(np.uint32).view(np.float32).astype(np.float64)
    else:
        values = INTEGERS[kind](raw).astype(np.float64)
    found.doubtful[rows] |= ~np.isfinite(values)
    return _numbers(values, plan, rows, found)


def _date_parts(plan: ColumnPlan, cells: list[Cell], rows: Integers, found: Found) -> Column:
    years, months, days = (INTEGERS["int32"](cell.raw[rows]) for cell in cells)
    wrong = (years < 1) | (years > 9999) | (months < 1) | (months > 12) | (days < 1) | (days > 31)
    month = np.where(wrong, 0, (years - 1970) * 12 + months - 1).astype("datetime64[M]")
    day = month.astype("datetime64[D]") + np.where(wrong, 0, days - 1)
    found.doubtful[rows] |= wrong | (day.astype("datetime64[M]") != month)
    return _numbers(day.astype(np.int64).astype(np.int32), plan, rows, found)


def _timestamp(plan: ColumnPlan, cells: list[Cell], rows: Integers, found: Found) -> Column:
    seconds, nanos = INTEGERS["int64"](cells[0].raw[rows]), INTEGERS["int32"](cells[1].raw[rows])
    wrong = (seconds < FIRST_SECOND) | (seconds > LAST_SECOND)
    wrong |= (nanos < 0) | (nanos >= 1_000_000_000) | (nanos % 1_000 != 0)
    found.doubtful[rows] |= wrong
    return _numbers(np.where(wrong, 0, seconds) * 1_000_000 + nanos // 1_000, plan, rows, found)


def _enum_name(plan: ColumnPlan, cells: list[Cell], rows: Integers, found: Found) -> Column:
    assert plan.shape is not None  # noqa: S101  # only what is missing has none
    assert plan.shape.enum is not None  # noqa: S101  # the recipe is for enums
    known, numbers = np.array(sorted(plan.shape.enum.names), np.int64), INTEGERS["int32"](cells[0].raw[rows])
    places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    found.doubtful[rows] |= known[places] != numbers
    full = np.zeros(len(found.doubtful), np.int64)
    full[rows] = places
    names = pa.array([plan.shape.enum.names[number] for number in known.tolist()], pa.string())
    chosen: Any = pa.array(full, mask=~cells[0].present)
    return names.take(chosen)


def _strings(cell: Cell, found: Found) -> Column:
    """Return the text of each message; null if it has none, or one that no text column can store."""
    column, wrong = texts(_spans(cell, found))
    if wrong is not None:
        found.doubtful |= wrong
    return column


def _spans(cell: Cell, found: Found) -> Column:
    """Return the bytes of each message; null if it has none."""
    rows = np.flatnonzero(cell.present & (cell.stops > cell.starts))
    starts, count = cell.starts[rows], len(found.doubtful)
    raw = binary_column(found.buffer, starts, cell.stops[rows] - starts, None if len(rows) == count else rows, count)
    empty = cell.present & (cell.stops == cell.starts)
    return pc.if_else(pa.array(empty), pa.scalar(b"", pa.binary()), raw) if empty.any() else raw


def _spelled_text(plan: ColumnPlan, cells: list[Cell], _rows: Integers, found: Found) -> Column:
    kind = plan.item.type.kind
    return plain_column(kind, _matching(_strings(cells[0], found), SHAPES[kind], plan, found))


def _decimal_text(plan: ColumnPlan, cells: list[Cell], _rows: Integers, found: Found) -> Column:
    of = plan.item.type
    whole, scale = of.precision - of.scale, of.scale
    plain = rf"\A-?[0-9]{{1,{whole}}}(?:\.[0-9]{{1,{scale}}})?\z" if whole and scale else r"\A0\z"
    return _matching(_strings(cells[0], found), plain, plan, found).cast(of.arrow)


def _date_text(plan: ColumnPlan, cells: list[Cell], _rows: Integers, found: Found) -> Column:
    days = _matching(_strings(cells[0], found), DATE_SHAPE, plan, found).cast(pa.date32())
    early = pc.fill_null(pc.less(days.view(pa.int32()), -719_162), False)  # the year 0000
    _doubt(early, found)
    return days


def _matching(strings: Any, shape: str, plan: ColumnPlan, found: Found) -> Any:
    """Return the strings of that shape, in RE2's syntax; the others are doubtful and null."""
    if plan.empty_is_null:
        strings = pc.if_else(pc.equal(strings, ""), pa.scalar(None, pa.string()), strings)
    right = pc.match_substring_regex(strings, shape)
    if right.true_count + strings.null_count == len(strings):
        return strings
    other = pc.fill_null(pc.invert(right), False)
    _doubt(other, found)
    return pc.if_else(other, pa.scalar(None, pa.string()), strings)


def _doubt(mask: Any, found: Found) -> None:
    found.doubtful |= mask.to_numpy(zero_copy_only=False)


def _decimal_integer(plan: ColumnPlan, cells: list[Cell], rows: Integers, found: Found) -> Column:
    return _decimals(_integers(plan, cells, rows, found), np.zeros(len(rows), np.int64), plan, rows, found)


def _decimal_bytes(plan: ColumnPlan, cells: list[Cell], rows: Integers, found: Found) -> Column:
    """Convert confluent.type.Decimal: up to eight bytes, the most significant first."""
    starts, lengths = cells[0].starts[rows], cells[0].stops[rows] - cells[0].starts[rows]
    words = found.buffer.words[starts].byteswap().view(np.int64)
    found.doubtful[rows] |= lengths > 8
    unused = 8 * (8 - np.minimum(lengths, 8))
    values = np.where(lengths == 0, 0, words >> np.minimum(unused, 63))
    return _decimals(values, INTEGERS["int32"](cells[2].raw[rows]), plan, rows, found)


def _decimals(values: Integers, scales: Integers, plan: ColumnPlan, rows: Integers, found: Found) -> Column:
    """Return values * 10**-scales. A value for which 64 bits are not enough is doubtful."""
    of = plan.item.type
    up = of.scale - scales  # zeros to append
    wrong = (up < 0) | (up > _MAX_DIGITS)
    factors = 10 ** np.where(wrong, 0, up)
    most = 10 ** min(of.precision, _MAX_DIGITS) - 1
    wrong |= (values > most // factors) | (values < -(most // factors))
    found.doubtful[rows] |= wrong
    exact = np.where(wrong, 0, values) * factors
    count = len(found.doubtful)
    wide: Any = decimal_column(exact >> 63, exact, None if len(rows) == count else rows, count)
    return pa.Array.from_buffers(of.arrow, count, wide.buffers())


# By kind, of raw values. Numbers are cut to their width, as Google's parsers do. A uint64 or fixed64 that int64
# cannot represent becomes negative.
INTEGERS: dict[str, Callable[[Words], Integers]] = {
    **dict.fromkeys(("int32", "sfixed32"), lambda raw: raw.astype(np.uint32).view(np.int32).astype(np.int64)),
    **dict.fromkeys(("uint32", "fixed32"), lambda raw: (raw & _HALF).view(np.int64)),
    "sint32": lambda raw: zigzag(raw & _HALF),
    "sint64": zigzag,
    **dict.fromkeys(("int64", "uint64", "fixed64", "sfixed64"), lambda raw: raw.view(np.int64)),
}
_MAKERS: dict[str, Maker] = {
    "text": lambda _plan, cells, _rows, found: _strings(cells[0], found),
    "enum_name": _enum_name,
    "integer": lambda plan, cells, rows, found: _numbers(_integers(plan, cells, rows, found), plan, rows, found),
    "double": _double,
    "boolean": lambda plan, cells, rows, found: _numbers(cells[0].raw[rows] != 0, plan, rows, found),
    "decimal_text": _decimal_text,
    "decimal_message": _decimal_text,
    "decimal_integer": _decimal_integer,
    "decimal_bytes": _decimal_bytes,
    "date_text": _date_text,
    "date_parts": _date_parts,
    "timestamp": _timestamp,
    "spelled_text": _spelled_text,
    "bytes": lambda _plan, cells, _rows, found: _spans(cells[0], found),
}
