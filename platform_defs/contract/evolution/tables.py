"""The tables of two contracts: the effect on existing rows, and on readers."""

from collections.abc import Iterator

from platform_defs.contract.evolution.changes import Change, ChangeClass
from platform_defs.contract.evolution.renames import renames
from platform_defs.contract.model.contract import Column, Contract, Table

_FREE, _KEEP, _REPLAY = ChangeClass.FREE, ChangeClass.KEEP, ChangeClass.REPLAY
CHECKED = "checked for NULL: readers wait while Postgres reads the whole table"
_MADE_AGAIN = "existing rows must be rebuilt from their messages"


def table_changes(old: Contract, new: Contract) -> Iterator[Change]:
    """Yield each table that is new, gone or filled in another way, and changes of its columns and batch rules."""
    if old.row_table.name != new.row_table.name:
        was, now = old.row_table.name, new.row_table.name
        sentence = f"rename it in Postgres as well: the rows for {now} are in {was}"
        yield Change("~", f"table {was} -> {now}", ChangeClass.BREAKS_READERS, sentence, now)
    before = {table.name: table for table in old.accumulates} | {new.row_table.name: old.row_table}
    for table in old.accumulates:
        if table.name not in {item.name for item in new.tables}:
            sentence = "it stays as it is, and nothing more is written to it; if it is added again, it needs a replay"
            yield Change("-", f"table {table.name}", _KEEP, sentence, table.name)
    for table in new.tables:
        if (was := before.get(table.name)) is not None:
            yield from _changed(was, table)
        else:
            sentence = "it is created; if batches have been published, runs then wait for the replay that fills it"
            yield Change("+", f"table {table.name} ({table.disposition})", _REPLAY, sentence, table.name)


def _changed(old: Table, new: Table) -> Iterator[Change]:
    if old.disposition != new.disposition:
        what = f"{new.name}: {old.disposition} -> {new.disposition}"
        sentence = "it would be a different table: give the contract a new id and new tables"
        yield Change("~", what, ChangeClass.NEW_PIPELINE, sentence, new.name)
    elif old.definition != new.definition:
        what = f"{new.name}: {old.definition} -> {new.definition}"
        yield Change("~", what, _REPLAY, f"{_MADE_AGAIN}: it is filled in a different way", new.name)
    yield from _columns(old, new)
    was, now = (
        {rule.name: (rule.expectation, rule.arguments, rule.severity) for rule in table.batch_rules}
        for table in (old, new)
    )
    if was != now:
        yield Change("~", f"batch rules of {new.name}", _FREE, "they apply from the next batch on", new.name)


def _columns(old: Table, new: Table) -> Iterator[Change]:
    before = {column.name: column for column in old.columns}
    renamed = renames(new.columns, before)
    names = {column.name for column in new.columns}
    for column in old.columns:
        if column.name not in names | renamed.keys():
            sentence = "the column stays, and rows written from now on leave it empty; --drop drops it"
            yield Change("-", f"{column.name} {column.type.postgres}", _KEEP, sentence, new.name, column.name)
    found = {renamed.get(name, name): column for name, column in before.items()}
    for column in new.columns:
        was = found.get(column.name)
        if was is None:
            yield _added(column, new)
        else:
            yield from _column(was, column, new)


def _added(column: Column, table: Table) -> Change:
    what = f"{column.name} {column.type.postgres}"
    if column.required:
        sentence = f"existing rows have no value for it: --fill {column.name}=..., or a replay"
        return Change("+", f"{what} NOT NULL", ChangeClass.VALUE, sentence, table.name, column.name)
    sentence = "existing rows have none; a replay fills it from messages that had it"
    return Change("+", f"{what} NULL", _FREE, sentence, table.name, column.name)


def _column(old: Column, new: Column, table: Table) -> Iterator[Change]:
    place = {"table": table.name, "column": new.name}
    if old.name != new.name:
        sentence = f"readers of {old.name} fail from then on"
        yield Change("~", f"{old.name} -> {new.name}", ChangeClass.BREAKS_READERS, sentence, **place)
    if old.type != new.type:
        what = f"{new.name} {old.type.name} -> {new.type.name}"
        more_digits = old.type.kind == new.type.kind == "decimal" and old.type.scale == new.type.scale
        if more_digits and old.type.precision < new.type.precision:
            yield Change("~", what, _FREE, "no row is rewritten", **place)
        else:
            yield Change("~", what, _REPLAY, f"{_MADE_AGAIN}: nothing is converted in place", **place)
    if new.required and not old.required:
        sentence = f"existing rows are {CHECKED}"
        yield Change("~", f"{new.name} NULL -> NOT NULL", ChangeClass.CHECKED, sentence, **place)
    elif old.required and not new.required:
        yield Change("~", f"{new.name} NOT NULL -> NULL", _FREE, "readers may find NULL", **place)
