"""Blocks of JSON messages, read by Arrow where that is the same judgement as judge.py's, which reads one at a time.

What is accepted here is a row there, with the same values; what is refused or doubted is judged one by one. Arrow may
read a block only because

    each value is one line that begins with { and ends with }, so no document begins in one value and ends in another
    there are as many rows as values, so no value holds two documents
    nothing is in it that Python reads otherwise: NaN, an escaped surrogate or NUL, bytes that are not UTF-8, more than
    a hundred brackets
    what Arrow reads as text (dates, times, uuids) is spelled as values.py wants it

tests/unit/test_verify_blocks.py holds the two against each other.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.json as pj
from numpy.typing import NDArray

from platform_defs.contract.model import Contract, Field
from platform_defs.verification.column_rules import NotInColumns, Rule, column_rules
from platform_defs.verification.documents import MAX_DEPTH

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types

Column: TypeAlias = Any  # an Arrow array: what compute functions take and give is not typed in full
Places: TypeAlias = NDArray[np.int64]

BLOCK = 4_000  # messages: what is read again after each that is refused
_DOUBTFUL = r"\\u(0000|[dD][89a-fA-F])|[\n\r\x00]|[:\[,]\s*-?(NaN|Inf(inity)?)\s*[,\]}]"
_IN_ROW = re.compile(r"in row (\d+)")  # how Arrow says where it stopped
_LONG_MONTHS, _SHORT_MONTHS = r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])", r"(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DAY = rf"(?:\d{{4}}-(?:{_LONG_MONTHS}|{_SHORT_MONTHS}|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP_YEAR}-02-29)"
_HOUR = r"(?:[01]\d|2[0-3]):[0-5]\d"
_SPELT = {
    "date": rf"\A{_DAY}\z",
    "timestamp": rf"\A{_DAY}[T ]{_HOUR}:[0-5]\d(?:\.\d{{1,6}})?(?:Z|[+-]{_HOUR})\z",
    "time": rf"\A{_HOUR}:[0-5]\d(?:\.\d{{1,6}})?Z?\z",
    "uuid": r"\A[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z",
}
_READ = ("string", "integer", "double", "decimal", "boolean", *_SPELT)
_YEAR_ONE, _YEAR_9999 = -719_162, 2_932_896  # their first and last day, since 1970
_MICROSECONDS = 86_400_000_000  # of a day


class BlockReader:
    """Reads the messages of one contract in blocks."""

    def __init__(self, contract: Contract) -> None:
        """Raises NotInColumns where only judge.py reads a type, or knows a rule."""
        self._fields = contract.fields
        self._schema = pa.schema(_explicit([(item.path, item) for item in contract.fields]))
        self._rules: list[tuple[str, Rule]] = [(f.name, rule) for f in contract.fields for rule in column_rules(f)]

    @classmethod
    def of(cls, contract: Contract) -> "BlockReader | None":
        """The contract's reader; None where its messages are read one by one."""
        try:
            return None if contract.format != "json" or contract.wire.framed else cls(contract)
        except NotInColumns:
            return None

    def read(self, values: Sequence[bytes | None]) -> tuple[pa.Table, Places]:
        """A column for each field, in the contract's order, and the places among `values` that its rows are of. All
        others are for judge.py.
        """
        plain = np.flatnonzero(_plain(values))
        read = [*self._parsed([values[place] or b"" for place in plain.tolist()])]
        places = [plain[start : start + table.num_rows] for start, table in read]
        table = pa.concat_tables([self._schema.empty_table(), *(table for _, table in read)])
        rows, held = self._rows(table.combine_chunks())
        return rows.filter(held), np.concatenate([np.array([], np.int64), *places])[held.to_numpy(zero_copy_only=False)]

    def _parsed(self, values: Sequence[bytes]) -> Iterable[tuple[int, pa.Table]]:
        """From which place on, a row for each value; without those that Arrow refuses."""
        waiting = [(start, min(start + BLOCK, len(values))) for start in range(0, len(values), BLOCK)][::-1]
        while waiting:
            start, until = waiting.pop()
            if start == until:
                continue
            found = self._tried(values[start:until])
            if isinstance(found, pa.Table):
                yield start, found
            elif found is not None:
                waiting += [(start + found + 1, until), (start, start + found)]
            elif until - start > 1:
                middle = (start + until) // 2
                waiting += [(middle, until), (start, middle)]

    def _tried(self, values: Sequence[bytes]) -> pa.Table | int | None:
        """A row for each value; or the place of the one to blame, None where Arrow does not say."""
        joined = b"\n".join(values)
        try:
            table: Any = pj.read_json(
                cast("Any", pa.py_buffer(joined)),  # its stubs know files only
                read_options=pj.ReadOptions(use_threads=False, block_size=len(joined) + 1),
                parse_options=pj.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore"),
            )
            table.validate(full=True)  # that decimals have no more digits than their type
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            said = _IN_ROW.search(str(error))
            return int(said[1]) if said and int(said[1]) < len(values) else None
        return table if table.num_rows == len(values) else None

    def _rows(self, table: pa.Table) -> tuple[pa.Table, Column]:
        """The fields' columns, and which rows are to be believed."""
        held: Column = pa.array(np.ones(table.num_rows, np.bool_))
        columns: dict[str, Column] = {}
        for item in self._fields:
            columns[item.name], spelt = _typed(_column(table, item.path), item)
            held = pc.and_(held, spelt)
        for name, rule in self._rules:
            held = pc.and_(held, rule(columns[name]))
        return pa.table(columns), held


def _explicit(fields: Sequence[tuple[tuple[str, ...], Field]]) -> list["pa.Field[Any]"]:
    """What Arrow is to read for fields at these paths: nested objects as structs."""
    found = dict[str, list[tuple[tuple[str, ...], Field]]]()
    for path, item in fields:
        found.setdefault(path[0], []).append((path[1:], item))
    return [pa.field(key, _read_as(inner)) for key, inner in found.items()]


def _read_as(inner: Sequence[tuple[tuple[str, ...], Field]]) -> pa.DataType:
    if all(path for path, _ in inner):
        return pa.struct(_explicit(inner))
    if len(inner) > 1 or (kind := inner[0][1].type.kind) not in _READ:
        raise NotInColumns
    return pa.string() if kind in _SPELT else inner[0][1].type.arrow


def _plain(values: Sequence[bytes | None]) -> Any:
    """Which values may be in a block."""
    column: Column = pa.array(values, pa.binary())
    found = pc.and_(pc.starts_with(column, "{"), pc.ends_with(column, "}"))
    found = pc.and_(found, pc.invert(pc.match_substring_regex(column, _DOUBTFUL)))
    found = pc.and_(found, pc.less_equal(_brackets(column), MAX_DEPTH))
    return pc.and_(pc.fill_null(found, fill_value=False), _utf8(column)).to_numpy(zero_copy_only=False)


def _brackets(column: Column) -> Column:
    """How many brackets open in each value, where it is long enough for more than are allowed."""
    long = pc.greater(pc.binary_length(column), 2 * MAX_DEPTH)
    if not pc.any(long).as_py():
        return pc.binary_length(pa.array([b""] * len(column), pa.binary()))
    texts = pc.if_else(long, column, b"")
    return pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))


def _utf8(column: Column) -> Column:
    """Which values are UTF-8."""
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_is_utf8(value) for value in column.to_pylist()])
    return pa.array(np.ones(len(column), np.bool_))


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _column(table: pa.Table, path: Sequence[str]) -> Column:
    """What is at the path; null where there is no object on the way."""
    first, *others = path
    column: Column = table[first].combine_chunks()
    for key in others:
        column = pc.struct_field(column, key)
    return column


def _typed(column: Column, item: Field) -> tuple[Column, Column]:
    """The column with the field's type, and which of its values are to be believed."""
    kind = item.type.kind
    if kind == "double":
        return column, pc.fill_null(pc.is_finite(column), fill_value=True)
    if kind not in _SPELT:
        return column, pc.or_(pc.is_null(column), pc.is_valid(column))
    spelt = pc.fill_null(pc.match_substring_regex(column, _SPELT[kind]), fill_value=True)
    texts = pc.if_else(spelt, column, None)
    if kind == "uuid":
        return pc.ascii_lower(texts), spelt
    if kind == "time":
        return _as_printed(texts), spelt
    typed = texts.cast(item.type.arrow)
    return typed, pc.and_(spelt, pc.fill_null(_in_years(typed), fill_value=True))


def _as_printed(times: Column) -> Column:
    """Times as Postgres prints them: without Z, and without zeros behind the point."""
    bare = pc.utf8_rtrim(times, "Z")
    shortened = pc.utf8_rtrim(pc.utf8_rtrim(bare, "0"), ".")
    return pc.if_else(pc.match_substring(bare, "."), shortened, bare)


def _in_years(typed: Column) -> Column:
    """Whether dates and timestamps are of the years 1 to 9999 in UTC."""
    if pa.types.is_date(typed.type):
        days, one = typed.cast(pa.int32()), 1
    else:
        days, one = typed.cast(pa.int64()), _MICROSECONDS
    return pc.and_(pc.greater_equal(days, _YEAR_ONE * one), pc.less(days, (_YEAR_9999 + 1) * one))
