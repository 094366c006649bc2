"""The statements that change an existing table to match a contract, and why some of them cannot run in place.

Nothing here queries Postgres: the shape of the table is passed in, and the statements come out. `Statement.sql` is both
shown and run.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, cast

from platform_defs.contract.evolution.renames import renames
from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Column, Contract, Table
from platform_defs.contract.model.system_columns import target_columns
from platform_defs.contract.model.values import contract_value
from platform_defs.errors import BadInput

NOT_NULL = "tidegate_not_null"  # the CHECK that proves to Postgres that columns have no NULL, until they are NOT NULL
UNCHECK = f"DROP CONSTRAINT IF EXISTS {NOT_NULL}"
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")


@dataclass(frozen=True)
class ColumnShape:
    """A column as Postgres has it: its type as format_type prints it. `checked`: the constraint NOT_NULL names it."""

    type: str
    not_null: bool
    has_default: bool = False
    checked: bool = False


TableShape = Mapping[str, ColumnShape]  # by the column's name
Shapes = Mapping[str, TableShape]  # by schema.table, for existing tables
# `fill` is an ADD COLUMN that gives existing rows a value; `undefault` removes the default that did so.
Kind = Literal["add", "fill", "undefault", "drop", "rename", "retype", "demand", "relax", "uncheck"]


@dataclass(frozen=True)
class Given:
    """A person's decisions, and whether a replay has emptied the tables."""

    fill: Mapping[str, str] = field(default_factory=dict[str, str])  # by column, the value for old rows: an SQL literal
    drop: frozenset[str] = frozenset()  # columns that the contract no longer has, to be dropped
    breaking: bool = False  # readers of the tables may break
    declassify: bool = False  # values that were classified may be shown
    emptied: bool = False  # no table has a row when the statements run: a replay inserts all rows again


@dataclass(frozen=True)
class Statement:
    """One statement. `refused` is why it cannot be run in place, and what to do; empty if it can."""

    kind: Kind
    table: str
    column: str
    action: str  # the text after ALTER TABLE and the table's name
    refused: str = ""
    checks_rows: bool = False  # it fails if a row has NULL in the column
    optional: bool = False  # the table can be filled without it: run only if the contract has changed

    @property
    def sql(self) -> str:
        """The statement as it is shown and run."""
        return f"ALTER TABLE {quoted(self.table)} {self.action}"


def shape_of(table: Table) -> TableShape:
    """Return the shape that Tidegate creates for the table, without Tidegate's own columns."""
    return {column.name: ColumnShape(column.type.postgres, column.required) for column in table.columns}


def statements(table: Table, shape: TableShape, given: Given) -> Iterator[Statement]:
    """Yield the statements from `shape` to `table`, in the order in which they run."""
    shape = dict(shape)
    for old, new in renames(table.columns, shape).items():  # first: a new column may take a name that one frees
        renamed = f"RENAME COLUMN {quoted(old)} TO {quoted(new)}"
        why = f"readers of {old} in {table.name} will fail; if that is intended, add --allow breaking"
        yield Statement("rename", table.name, new, renamed, "" if given.breaking or given.emptied else why)
        shape[new] = shape.pop(old)
    for column in table.columns:
        yield from _column(table, column, shape.get(column.name), given)
    required = {column.name for column in table.columns if column.required}
    if free := [name for name, there in shape.items() if there.checked and name not in required]:
        yield Statement("uncheck", table.name, free[0], UNCHECK)
    kept = {*(column.name for column in table.columns), *(name for name, _ in target_columns(table))}
    for name, there in shape.items():
        if name in kept:
            continue
        if name in given.drop:
            yield Statement("drop", table.name, name, f"DROP COLUMN {quoted(name)}")
        elif there.not_null and not there.has_default:
            yield Statement("relax", table.name, name, f"{_of(name)} DROP NOT NULL")


def nullable(table: Table, shape: TableShape) -> list[str]:
    """Return the columns that the contract requires and in which Postgres allows NULL."""
    return [c.name for c in table.columns if c.required and (there := shape.get(c.name)) and not there.not_null]


def quoted(name: str) -> str:
    """Quote a name, whatever it is, for Postgres; for schema.table each part."""
    return ".".join('"{}"'.format(part.replace('"', '""')) for part in name.split("."))


def literal(text: str) -> str:
    """Return a value as an SQL literal: of any type, by its text."""
    return "'{}'".format(text.replace("'", "''"))


def _column(table: Table, column: Column, there: ColumnShape | None, given: Given) -> Iterator[Statement]:
    if there is None:
        yield from _add(table, column, given)
        return
    if there.type != column.type.postgres:
        yield _retype(table, column, there, given)
    if there.not_null and not column.required and column.name not in table.group_by:
        yield Statement("relax", table.name, column.name, f"{_of(column.name)} DROP NOT NULL", optional=True)
    if column.required and not there.not_null:
        demanded = f"{_of(column.name)} SET NOT NULL"
        yield Statement("demand", table.name, column.name, demanded, checks_rows=not given.emptied, optional=True)


def _add(table: Table, column: Column, given: Given) -> Iterator[Statement]:
    added = f"ADD COLUMN {quoted(column.name)} {column.type.postgres}"
    if not column.required:
        yield Statement("add", table.name, column.name, added)
        return
    if given.emptied:
        yield Statement("add", table.name, column.name, f"{added} NOT NULL")
        return
    value = given.fill.get(column.name)
    if value is None:
        why = (
            f"existing rows have no {column.name}, which is required. Set one value for all of them (--fill "
            f"{column.name}=...), or rebuild all rows from the topic"
        )
        yield Statement("add", table.name, column.name, f"{added} NOT NULL", why)
        return
    # A constant default is stored once, and no row is rewritten. It is dropped again: messages bring their own values.
    yield Statement("fill", table.name, column.name, f"{added} DEFAULT {value} NOT NULL")
    yield Statement("undefault", table.name, column.name, f"{_of(column.name)} DROP DEFAULT")


def _retype(table: Table, column: Column, there: ColumnShape, given: Given) -> Statement:
    altered = f"{_of(column.name)} TYPE {column.type.postgres}"
    if given.emptied:
        return Statement("retype", table.name, column.name, f"{altered} USING NULL")
    # Postgres changes numeric(18,2) to more digits and the same scale without reading a row, but no array of it.
    before, after = (_NUMERIC.fullmatch(of) for of in (there.type, column.type.postgres))
    if before and after and before[2] == after[2] and int(before[1]) <= int(after[1]):
        return Statement("retype", table.name, column.name, altered)
    rebuild = f"Changing it to {column.type.postgres} requires a full rebuild from the topic"
    return Statement("retype", table.name, column.name, altered, f"{column.name} is {there.type}. {rebuild}")


def _of(column: str) -> str:
    return f"ALTER COLUMN {quoted(column)}"


_READ = {"integer": int, "double": float, "boolean": json.loads, "json": json.loads, "array": json.loads}


def fills(contract: Contract, given: Iterable[str]) -> dict[str, str]:
    """Return by column the value of `--fill` for existing rows, as an SQL literal. Raises BadInput for a text that is
    not column=value, or not of its type.
    """
    types = {column.name: column.type for table in contract.tables for column in table.columns}
    found = dict[str, str]()
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in types:
            known = ", ".join(types)
            what = f"write COLUMN=VALUE, such as channel=unknown, instead of {text!r}; the columns are {known}"
            raise BadInput(what, field="--fill")
        found[name] = literal(_written(name, value, types[name]))
    return found


def _written(name: str, value: str, of: ColumnType) -> str:
    """Return the value as Postgres reads it."""
    try:
        read = contract_value(_READ.get(of.kind, str)(value), of)
    except ValueError as wrong:
        raise BadInput(f"{name} is {of.name}: {wrong}", field="--fill") from wrong
    if "\0" in str(read):
        raise BadInput(f"{name}: Postgres stores no NUL character", field="--fill")
    return _text(read)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return array_literal(map(_text, cast("tuple[Any, ...]", value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return rf"\x{value.hex()}"
    return value.isoformat() if isinstance(value, date) else str(value)


def array_literal(texts: Iterable[str]) -> str:
    """Return a Postgres array literal of these elements. Every element is quoted, so that none is read as NULL.

    https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO
    """
    escaped = (text.replace("\\", r"\\").replace('"', r"\"") for text in texts)
    return "{" + ",".join(f'"{text}"' for text in escaped) + "}"
