"""Blocks of JSON messages, read into columns by msgspec, with the same rows as validator.py, which reads one at a time.

A message is accepted here only if it is a row there, with the same values; any other is left to validator.py. msgspec
is strict about JSON and about types. Values that it reads differently are not passed to it, or are dropped afterwards:

    bytes that are not UTF-8, an escaped NUL or surrogate, more than a hundred brackets, -0 if there may be a double
    a message with the same key twice: msgspec takes the last one
    decimals: msgspec returns the number's text, and Arrow casts it only if it has nothing but digits and a point
    timestamps as numbers: those outside the years 1 to 9999, and nanoseconds that are not whole microseconds
    texts (dates, times, uuids) that are not written as values.py requires

tests/unit/verify/test_verify_blocks.py compares the two, tests/unit/formats/json/test_number_agreement.py this
and the engine.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, TypeAlias, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Contract, Field, RowRule
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.verify.decoders.documents import MAX_DEPTH
from platform_defs.verify.validators.patterns import whole_matches

pc = cast("Any", pyarrow.compute)  # in its stubs, what compares takes arrays of unknown types

Column: TypeAlias = Any  # an Arrow array: compute functions are not typed in full
Places: TypeAlias = NDArray[np.int64]
Rule: TypeAlias = Callable[[Column], Column]  # a column → True for each value that is valid by validator.py

BLOCK = 1_000  # messages whose values are Python objects at the same time
_escaped = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])").search
_minus_zero = re.compile(rb"-0[\s,}\]]").search
_is_plain_key = re.compile(r"[^\x00-\x1f\"\\/]*").fullmatch  # has only one JSON form, except for \u
_LONG_MONTHS, _SHORT_MONTHS = r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])", r"(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DAY = rf"(?:\d{{4}}-(?:{_LONG_MONTHS}|{_SHORT_MONTHS}|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP_YEAR}-02-29)"
_HOUR = r"(?:[01]\d|2[0-3]):[0-5]\d"
_FORMATS = {
    "date": rf"\A{_DAY}\z",
    "timestamp": rf"\A{_DAY}[T ]{_HOUR}:[0-5]\d(?:\.\d{{1,6}})?(?:Z|[+-]{_HOUR})\z",
    "time": rf"\A{_HOUR}:[0-5]\d(?:\.\d{{1,6}})?Z?\z",
    "uuid": r"\A[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z",
}
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}  # per second, by the unit of a timestamp
_TEXT: tuple[Any, pa.DataType] = (str, pa.string())
_READ: dict[str, tuple[Any, pa.DataType]] = {  # by `_kind`: msgspec's type, and the column's
    "string": _TEXT,
    "integer": (Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)], pa.int64()),
    "double": (float, pa.float64()),
    "decimal": (msgspec.Raw, pa.string()),
    "boolean": (bool, pa.bool_()),
    **dict.fromkeys(_TICKS, (Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)], pa.int64())),
    **dict.fromkeys(_FORMATS, _TEXT),
}
_YEAR_ONE, _YEAR_9999 = -719_162, 2_932_896  # their first and last day, since 1970
_MICROSECONDS = 86_400_000_000  # of a day


class NotInColumns(Exception):
    """Only validator.py supports the type or the rule."""


class BlockReader:
    """Reads one contract's messages in blocks."""

    def __init__(self, contract: Contract) -> None:
        """Prepare the decoder. Raises NotInColumns if only validator.py supports a type or a rule."""
        self._fields = contract.fields
        self._message = _Object((), [(item.path, item) for item in contract.fields])
        self._decode = msgspec.json.Decoder(self._message.type).decode
        self._escapes = re.compile(rb"\\u00[2-7]" if b"".join(self._message.keys).isascii() else rb"\\u").search
        self._doubles = any(item.type.kind == "double" for item in contract.fields)
        self._schema = pa.schema([(item.name, _READ[_kind(item)][1]) for item in contract.fields])
        self._rules: list[tuple[str, Rule]] = [(f.name, rule) for f in contract.fields for rule in _rules(f)]

    @classmethod
    def of(cls, contract: Contract) -> "BlockReader | None":
        """Return the contract's reader; None if its messages are read one by one."""
        try:
            return None if contract.format != "json" or contract.wire.framed else cls(contract)
        except NotInColumns:
            return None

    def read(self, values: Sequence[bytes | None]) -> tuple[pa.Table, Places]:
        """Return a column for each field, in the contract's order, and the places of its rows among `values`. All
        others are for validator.py.
        """
        tables, places = [self._schema.empty_table()], [np.array([], np.int64)]
        for start in range(0, len(values), BLOCK):
            table, chosen = self._block(values[start : start + BLOCK])
            tables.append(table)
            places.append(chosen + start)
        rows, accepted = self._rows(pa.concat_tables(tables))
        return rows.filter(accepted), np.concatenate(places)[accepted.to_numpy(zero_copy_only=False)]

    def _block(self, values: Sequence[bytes | None]) -> tuple[pa.Table, Places]:
        """Return the fields as msgspec reads them, and the places of the rows."""
        plain = self._plain(values)
        texts, objects = [values[place] or b"" for place in plain], list[Any]()
        try:
            objects += map(self._decode, texts)
        except (msgspec.DecodeError, UnicodeDecodeError):
            good = {place: found for place in plain if (found := self._tried(values[place] or b"")) is not None}
            plain, objects = [*good], [*good.values()]
            texts = [values[place] or b"" for place in plain]
        read = _Read()
        self._message.collect(objects, read)
        table = pa.Table.from_arrays([read.columns[item.path] for item in self._fields], schema=self._schema)
        once = np.ones(len(texts), np.bool_)
        once[self._twice(texts, read)] = False
        return table if once.all() else table.filter(pa.array(once)), np.array(plain, np.int64)[once]

    def _tried(self, text: bytes) -> Any:
        try:
            return self._decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _plain(self, values: Sequence[bytes | None]) -> Sequence[int]:
        """Return the places of values that msgspec, if it accepts them, reads as validator.py does."""
        joined = b"\n".join(value or b"" for value in values)
        if max(len(value or b"") for value in values) <= 2 * MAX_DEPTH and self._is_plain(joined):
            return range(len(values))
        brackets = [value.count(b"{") + value.count(b"[") if value else 0 for value in values]
        shallow = [(n, value) for n, value in enumerate(values) if value and brackets[n] <= MAX_DEPTH]
        return [n for n, value in shallow if self._is_plain(value)]

    def _is_plain(self, text: bytes) -> bool:
        if (b"\\u" in text and _escaped(text)) or (self._doubles and _minus_zero(text)):
            return False
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
        return True

    def _twice(self, texts: Sequence[bytes], read: "_Read") -> list[int]:
        """Return the places of messages that may have a key of the contract twice."""
        joined = b"\n".join(texts)
        if np.count_nonzero(np.frombuffer(joined, np.uint8) == ord('"')) == read.quotes:
            return []  # only the quotes of the keys and texts that were read
        doubtful = {n for n, text in enumerate(texts) if self._escapes(text)} if b"\\u" in joined else set[int]()
        for key, paths in self._message.keys.items():
            if doubtful or joined.count(key) > sum(int(read.there[path].sum()) for path in paths):
                most = np.sum([read.there[path] for path in paths], axis=0, dtype=int).clip(min=1).tolist()
                doubtful |= {n for n, text in enumerate(texts) if text.count(key) > most[n]}
        if _is_whole(b"[" + b",".join([texts[place] for place in doubtful]) + b"]"):
            return []
        return [place for place in doubtful if not _is_whole(texts[place])]

    def _rows(self, table: pa.Table) -> tuple[pa.Table, Column]:
        """Return the fields' columns, and True for each row that is valid here."""
        accepted: Column = pa.array(np.ones(table.num_rows, np.bool_))
        columns: dict[str, Column] = {}
        for item in self._fields:
            read = table[item.name].combine_chunks()
            columns[item.name], right = _moments(read, item) if item.unit else _typed(read, item.type)
            accepted = pc.and_(accepted, right)
        for name, rule in self._rules:
            accepted = pc.and_(accepted, rule(columns[name]))
        return pa.table(columns), accepted


@dataclass
class _Read:
    """The values that msgspec read from some messages."""

    columns: dict[MessagePath, Column] = field(default_factory=dict[MessagePath, Column])  # of the fields
    there: dict[MessagePath, NDArray[np.bool_]] = field(default_factory=dict[MessagePath, NDArray[np.bool_]])
    quotes: int = 0  # around the keys and texts that were read; all other text has more

    def found(self, path: MessagePath, values: list[Any]) -> list[Any]:
        """Return the values at a path, None if missing. Record which messages have its key."""
        missing = values.count(UNSET)
        self.quotes += 2 * (len(values) - missing)
        self.there[path] = np.ones(len(values), np.bool_)
        if not missing:
            return values
        self.there[path] = np.array([value is not UNSET for value in values])
        return [None if value is UNSET else value for value in values]


class _Object:
    """The message, or an object in it that has fields."""

    def __init__(self, path: MessagePath, fields: Sequence[tuple[MessagePath, Field]]) -> None:
        """Build msgspec's type. `fields` are those in the object, by their paths from here."""
        self.keys = dict[bytes, list[MessagePath]]()  # of it and the objects in it, in quotes, and the place of each
        self._leaves, self._objects = list[tuple[str, MessagePath, str]](), list[tuple[str, _Object, MessagePath]]()
        inside = dict[str, list[tuple[MessagePath, Field]]]()
        for (key, *below), item in fields:
            inside.setdefault(key, []).append((tuple(below), item))
        members = list[tuple[str, Any, Any]]()
        for number, (key, inner) in enumerate(inside.items()):
            if not _is_plain_key(key):
                raise NotInColumns
            name, place = f"m{number}", (*path, key)
            self.keys.setdefault(f'"{key}"'.encode(), []).append(place)
            if all(below for below, _ in inner):
                member = _Object(place, inner)
                self._objects.append((name, member, place))
                members.append((name, member.type | UnsetType | None, UNSET))
                for inner_key, places in member.keys.items():
                    self.keys.setdefault(inner_key, []).extend(places)
            elif len(inner) > 1 or (kind := _kind(inner[0][1])) not in _READ:
                raise NotInColumns
            else:
                self._leaves.append((name, place, kind))
                read = _READ[kind][0]
                members.append((name, read if read is msgspec.Raw else read | UnsetType | None, UNSET))
        renamed = {f"m{number}": key for number, key in enumerate(inside)}
        self.type = msgspec.defstruct("Message", members, rename=renamed, frozen=True, gc=False)
        self._missing = self.type()

    def collect(self, objects: Sequence[Any], read: _Read) -> None:
        """Add a column for each field."""
        for name, path, kind in self._leaves:
            found = read.found(path, [*map(attrgetter(name), objects)])
            if kind == "decimal":
                found = [None if raw is None else bytes(raw) for raw in found]
                read.quotes += b"".join(filter(None, found)).count(b'"')
            read.columns[path] = column = pa.array(found, _READ[kind][1])
            if _READ[kind] is _TEXT:
                read.quotes += 2 * (len(found) - column.null_count)
        for name, member, path in self._objects:
            found = read.found(path, [*map(attrgetter(name), objects)])
            member.collect([member._missing if one is None else one for one in found], read)


def _rules(field: Field) -> Iterator[Rule]:
    """Yield the rules of a field, for a column of its values. Raises NotInColumns."""
    if field.required:
        yield pc.is_valid
    for rule in field.rules:
        if rule.kind != "required":
            kept = _kept(rule, field.type.arrow)
            yield lambda column, kept=kept: pc.fill_null(kept(column), fill_value=True)


def _kept(rule: RowRule, of: pa.DataType) -> Rule:
    wanted = rule.argument
    match rule.kind:
        case "enum":
            allowed = _values(wanted, of)
            return lambda column: pc.or_kleene(pc.is_null(column), pc.is_in(column, value_set=allowed))
        case "pattern":
            return whole_matches(wanted)
        case "minimum":
            least = _values([wanted], of)[0]
            return lambda column: pc.greater_equal(column, least)
        case "maximum":
            most = _values([wanted], of)[0]
            return lambda column: pc.less_equal(column, most)
        case "min_length":
            return lambda column: pc.greater_equal(pc.utf8_length(column), wanted)
        case "max_length":
            return lambda column: pc.less_equal(pc.utf8_length(column), wanted)
        case _:
            raise NotInColumns


def _values(values: Any, of: pa.DataType) -> Column:
    try:
        found: Column = pa.array(list(values), of)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise NotInColumns from error
    if found.to_pylist() != list(values):
        raise NotInColumns
    return found


def _kind(item: Field) -> str:
    """Return the unit of a timestamp that is a number, or the type's kind: a key of _READ."""
    return item.unit or item.type.kind


def _is_whole(text: bytes) -> bool:
    """Return True if no object in it has a duplicate key: then msgspec encodes it with as many quotes."""
    try:
        return msgspec.json.encode(msgspec.json.decode(text)).count(b'"') == text.count(b'"') and b"\\u0022" not in text
    except msgspec.DecodeError:
        return False


def _typed(column: Column, of: ColumnType) -> tuple[Column, Column]:
    """Return the column with the field's type, and True for each valid value."""
    if of.kind == "decimal":
        null = pc.or_kleene(pc.is_null(column), pc.equal(column, "null"))
        # A number, or a string of one, with no more digits on either side of the point than the type has.
        whole = rf"\d{{1,{of.precision - of.scale}}}" if of.precision > of.scale else "0"
        number = rf"-?{whole}(?:\.\d{{1,{of.scale}}})?" if of.scale else f"-?{whole}"
        plain = pc.match_substring_regex(column, rf'\A(?:{number}|"{number}")\z')
        digits = pc.utf8_trim(pc.if_else(plain, column, None), '"')
        return digits.cast(of.arrow), pc.or_kleene(null, plain)
    if of.kind not in _FORMATS:
        return column, pc.or_(pc.is_null(column), pc.is_valid(column))
    fits = pc.fill_null(pc.match_substring_regex(column, _FORMATS[of.kind]), fill_value=True)
    texts = pc.if_else(fits, column, None)
    if of.kind == "uuid":
        return pc.ascii_lower(texts), fits
    if of.kind == "time":  # as Postgres prints it: without Z, and without trailing zeros
        bare = pc.utf8_rtrim(texts, "Z")
        shortened = pc.utf8_rtrim(pc.utf8_rtrim(bare, "0"), ".")
        return pc.if_else(pc.match_substring(bare, "."), shortened, bare), fits
    typed = texts.cast(of.arrow)
    numbers, per_day = (typed.cast(pa.int32()), 1) if of.kind == "date" else (typed.cast(pa.int64()), _MICROSECONDS)
    # The years 1 to 9999 in UTC.
    in_years = pc.and_(pc.greater_equal(numbers, _YEAR_ONE * per_day), pc.less(numbers, (_YEAR_9999 + 1) * per_day))
    return typed, pc.and_(fits, pc.fill_null(in_years, fill_value=True))


def _moments(column: Column, item: Field) -> tuple[Column, Column]:
    """Return times since 1970, and True for each valid one: in the years 1 to 9999, in whole microseconds."""
    ticks = _TICKS[item.unit or ""]
    numbers: Places = pc.fill_null(column, 0).to_numpy()
    seconds: Column = pa.array(numbers // ticks)  # rounded down, unlike Arrow's division
    rest = pc.subtract(column, pc.multiply(seconds, ticks))  # of the second: never below zero
    known = pc.and_(pc.greater_equal(seconds, _YEAR_ONE * 86_400), pc.less(seconds, (_YEAR_9999 + 1) * 86_400))
    if ticks <= 1_000_000:
        fraction = pc.multiply(rest, 1_000_000 // ticks)
    else:
        fraction = pc.divide(rest, ticks // 1_000_000)
        known = pc.and_(known, pc.equal(pc.multiply(fraction, ticks // 1_000_000), rest))
    accepted = pc.fill_null(pc.or_(pc.is_null(column), known), fill_value=True)
    microseconds = pc.add(pc.multiply(pc.if_else(accepted, seconds, 0), 1_000_000), fraction)
    return microseconds.cast(item.type.arrow), accepted
