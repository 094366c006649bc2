"""From one contract to the next: every change with its class, and the statements that the tables need.

`tidegate contract diff` shows a ChangePlan, `tidegate contract apply` executes it, a run reads from it whether it may
go on, and `tidegate contract check` whether the version fits. This is the only builder.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from platform_defs.contract.evolution.changes import ORDER, Bump, Change, ChangeClass, version_mistake
from platform_defs.contract.evolution.message import framing_changes, message_changes
from platform_defs.contract.evolution.renames import renames
from platform_defs.contract.evolution.statements import Given, Shapes, Statement, quoted, shape_of, statements
from platform_defs.contract.evolution.tables import CHECKED, table_changes
from platform_defs.contract.model.classified import classified, shown_from_now_on
from platform_defs.contract.model.contract import Contract, Table
from platform_defs.contract.odcs_writer import context_of, contract_digest, same_words


@dataclass(frozen=True)
class ChangePlan:
    """The consequences of a changed contract for its pipeline."""

    old: Contract  # the one that is applied
    new: Contract
    changes: tuple[Change, ...]
    statements: tuple[Statement, ...]  # the statements that the current tables need
    declassify: bool = False  # a person allows values to be shown that were classified

    @property
    def bump(self) -> Bump:
        """The increase of the version that the changes require."""
        return max((change.bump for change in self.changes), key=ORDER.index, default=Bump.NONE)

    @property
    def empty(self) -> bool:
        """True if there is nothing to apply: messages are decoded and checked as before, by the same version."""
        same = contract_digest(self.old) == contract_digest(self.new)
        return same and not self.statements and not self.declassified

    @property
    def needs_replay(self) -> bool:
        """True if existing rows must be rebuilt before they match the contract."""
        return any(change.kind is ChangeClass.REPLAY for change in self.changes)

    @property
    def found_otherwise(self) -> tuple[Change, ...]:
        """The changes that must not be applied to rows in place though no table is altered: their keys differ."""
        return tuple(item for item in self.changes if item.kind is ChangeClass.REPLAY and item.table is None)

    @property
    def declassified(self) -> tuple[Change, ...]:
        """The fields and columns whose values would be shown from now on."""
        return tuple(item for item in self.changes if item.kind is ChangeClass.DECLASSIFIES)

    @property
    def version_mistake(self) -> str | None:
        """The reason why the contract's version does not fit the changes; None if it does."""
        return version_mistake(self.old.version, self.new.version, self.bump)

    @property
    def refusals(self) -> tuple[str, ...]:
        """The reasons why this cannot be applied, each with a remedy; none if it can."""
        found = [f"{c.what}: {c.sentence}" for c in self.changes if c.kind is ChangeClass.NEW_PIPELINE]
        found += [item.refused for item in self.statements if item.refused]
        if not self.declassify:
            why = "if that is intended, add --allow declassify"
            found += [f"{c.what}: {c.sentence}; {why}" for c in self.declassified]
        return (*found, *([self.version_mistake] if self.version_mistake else []))


def plan(
    old: Contract,
    new: Contract,
    shapes: Shapes | None = None,
    given: Given | None = None,
    of_writers: Iterable[Change] = (),
) -> ChangePlan:
    """Return the changes from `old` to `new`, over tables of these shapes, or over those of `old` by default.

    A missing table needs no statement: the pipeline's first run creates it. `of_writers`: changes for messages of the
    schemas in use (formats/writer_fit.py).
    """
    there = {table.name: shape_of(table) for table in _in_place(old, new)} if shapes is None else shapes
    changes = tuple(_over(there, item) for item in _changes(old, new))
    changed = {(change.table, change.column) for change in changes}
    found = [
        item
        for table in new.tables
        if (shape := there.get(table.name)) is not None
        for item in statements(table, shape, given or Given())
        if not item.optional or (item.table, item.column) in changed
    ]
    if given is None or not given.emptied:
        found += _both_there(old, new, there)
    allowed = given is not None and given.declassify
    return ChangePlan(old, new, (*changes, *of_writers), tuple(found), allowed)


def _both_there(old: Contract, new: Contract, shapes: Shapes) -> Iterable[Statement]:
    """Return refused renames of columns whose new name the table has already, from an earlier contract."""
    before = {table.name: table for table in _in_place(old, new)}
    for table in new.tables:
        shape, was = shapes.get(table.name, {}), before.get(table.name)
        names = {column.name for column in was.columns} if was else set[str]()
        done = renames(table.columns, shape)
        for former, name in renames(table.columns, names).items():
            if former in shape and former not in done:
                place, left, right = quoted(table.name), quoted(former), quoted(name)
                why = (
                    f"{table.name} has both {former} and {name}, left by an earlier contract, so {former} cannot "
                    f"be renamed. Either copy its values (UPDATE {place} SET {right} = {left} WHERE {left} IS NOT "
                    f"NULL) and drop it (ALTER TABLE {place} DROP COLUMN {left}), or rebuild all rows: tidegate "
                    f"replay {new.pipeline} --execute"
                )
                yield Statement("rename", table.name, name, f"RENAME COLUMN {left} TO {right}", why)


def unused(given: Given, found: ChangePlan) -> str | None:
    """Return the mistake in a person's decision about a column that needs none; None if all decisions are used."""
    used = {(item.kind, item.column) for item in found.statements}
    for name in given.fill:
        if ("fill", name) not in used:
            return f"--fill {name}: no new required column with this name needs a value in existing rows"
    for name in given.drop:
        if ("drop", name) not in used:
            return f"--drop {name}: no table has a column with this name that was removed from the contract"
    return None


def _over(there: Shapes, change: Change) -> Change:
    """Return the change with its effect on tables of these shapes: one may have a new column of the contract already,
    left by an older contract, or added manually.
    """
    if change.sign != "+" or change.column not in there.get(change.table or "", ()):
        return change
    keeps = "the table already has the column, and existing rows keep their values"
    if change.kind is ChangeClass.VALUE:
        return replace(change, kind=ChangeClass.CHECKED, sentence=f"{keeps}; they are {CHECKED}")
    return replace(change, sentence=keeps)


def _in_place(old: Contract, new: Contract) -> Iterable[Table]:
    """Return the tables of `old`, the row table under the name that it has in `new`."""
    return (replace(old.row_table, name=new.row_table.name), *old.accumulates)


def _changes(old: Contract, new: Contract) -> Iterable[Change]:
    of_tables = list(table_changes(old, new))
    shown = {change.column for change in of_tables if change.table == new.row_table.name}
    found = [
        *_of_the_whole(old, new),
        # A field that is free to change, and whose column changes as well, is shown once.
        *(c for c in message_changes(old, new) if c.kind is not ChangeClass.FREE or c.rule or c.column not in shown),
        *of_tables,
        *_declassified(old, new),
    ]
    if not found and contract_digest(replace(old, version="")) != contract_digest(replace(new, version="")):
        sentence = "if a message breaks several rules, its dead letter may name a different one"
        found = [Change("~", "the order of fields, rules or tables", ChangeClass.FREE, sentence)]
    before, after = _words(old), _words(new)
    if any(before[name] != after[name] for name in before.keys() & after) or (not found and not same_words(old, new)):
        sentence = "they do not affect messages"
        found.append(Change("~", "descriptions or limits", ChangeClass.WORDS, sentence))
    return found


def _of_the_whole(old: Contract, new: Contract) -> Iterable[Change]:
    if old.pipeline != new.pipeline:
        yield Change(
            "~", f"id {old.pipeline} -> {new.pipeline}", ChangeClass.NEW_PIPELINE, "it is a different pipeline"
        )
    if old.topic != new.topic:
        sentence = (
            "the next run halts (topic_changed); tidegate resolve then continues in the new topic. For other data, "
            "give the contract a new id and new tables"
        )
        yield Change("~", f"topic {old.topic} -> {new.topic}", ChangeClass.NEW_PIPELINE, sentence)
    if old.format != new.format:
        what, sentence = f"format {old.format} -> {new.format}", "messages in the old format become dead letters"
        yield Change("~", what, ChangeClass.BREAKS_PRODUCERS, sentence)
    yield from framing_changes(old, new)
    if old.publication != new.publication:
        what = f"publication {old.publication} -> {new.publication}"
        yield Change("~", what, ChangeClass.FREE, "it applies from the next batch on")


def _declassified(old: Contract, new: Contract) -> Sequence[Change]:
    """Return the fields and columns whose values were hidden and are shown from now on, also under another name."""
    before, after = classified(old), classified(new)
    sentence = "errors, samples, logs and commands will show its values, including those from messages already read"
    found = [
        Change("~", f"field {item.place} is no longer classified", ChangeClass.DECLASSIFIES, sentence, column=item.name)
        for item in shown_from_now_on(old, new)
    ]
    accumulates = {table.name: table for table in old.accumulates}
    same = ((table, accumulates[table.name]) for table in new.accumulates if table.name in accumulates)
    for table, was in ((new.row_table, old.row_table), *same):
        for column in table.columns:
            of_before = {(was.name, column.name), (was.name, column.renamed_from)} & before.columns
            if of_before and (table.name, column.name) not in after.columns:
                what = f"column {table.name}.{column.name} is no longer classified"
                found.append(Change("~", what, ChangeClass.DECLASSIFIES, sentence, table.name, column.name))
    if before.any and not after.any and not found:
        # All that was classified is gone from the contract, but not from the tables, dead letters and the topic.
        what = f"{', '.join(sorted(before.names))}: no longer in the contract, which now classifies nothing"
        gone = "errors, samples, logs and commands will show the values in messages already read and in their columns"
        found.append(Change("~", what, ChangeClass.DECLASSIFIES, gone))
    return found


def _words(contract: Contract) -> Mapping[str, object]:
    """Return what affects no message, for each part that has a name."""
    subject = contract.wire.subject.removeprefix(context_of(contract.wire.subject))
    compatibility = contract.wire.compatibility
    whole = {"": (contract.description, contract.limits, contract.evolution, subject, compatibility)}
    fields = {item.name: (item.description, item.classification) for item in contract.message_fields}
    tables = {
        f"{table.name}.{column.name}": (column.description, column.classification)
        for table in contract.tables
        for column in table.columns
    }
    return {**whole, **fields, **tables}
