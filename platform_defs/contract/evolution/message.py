"""The message's fields, before and after: the effect on the messages that producers send."""

from collections.abc import Iterator, Mapping

from platform_defs.contract.evolution.changes import Change, ChangeClass
from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Contract, Field, OtherRecords
from platform_defs.contract.model.message_path import spell_path
from platform_defs.contract.model.row_rules import loosens, wanted
from platform_defs.contract.odcs_writer import context_of

_FREE, _BREAKS = ChangeClass.FREE, ChangeClass.BREAKS_PRODUCERS
_EARLIER_ROWS = "existing rows lack it: a replay is required"
_OTHER_RECORDS: Mapping[OtherRecords, str] = {
    "dead_letter": "messages of other records, which were only counted, become dead letters",
    "skip": "messages of other records are only counted from now on, and no longer become dead letters",
}


def message_changes(old: Contract, new: Contract) -> Iterator[Change]:
    """Yield each field that is new, gone, or read in another way, and changes of its row rules."""
    before = {item.name: item for item in old.message_fields}
    after = {item.name: item for item in new.message_fields}
    renamed = _renamed(before, after)
    for name, field in before.items():
        if name not in after and name not in renamed.values():
            sentence = "messages may still have it: such messages are counted"
            yield Change("-", f"field {field.place}", _FREE, sentence, column=name)
    for name, field in after.items():
        was = before.get(name) or before.get(renamed.get(name, ""))
        if was is None:
            yield _added(field)
        else:
            yield from _changed(was, field)


def framing_changes(old: Contract, new: Contract) -> Iterator[Change]:
    """Yield changes in how messages name their schema and which are read; for a new format, only in ids and keys."""
    was, now = old.wire, new.wire
    yield from _meant_otherwise(old, new)
    if old.format != new.format:
        return
    if was.framing != now.framing:
        what = f"framing {was.framing} -> {now.framing}"
        kept = now.framing == "both" and was.framing in ("prefix", "header")
        read = "messages that are framed as before are still read"
        sentence = read if kept else "all other messages are dead letters"
        yield Change("~", what, _FREE if kept else _BREAKS, sentence)
    if was.record != now.record:
        sentence = "messages of all records are read, and become rows or dead letters"
        if now.record:
            sentence = "messages of other records do not become rows"
        elif new.format == "protobuf":
            first = "the first message in each schema is read"
            sentence = f"{first}; the previously named one is read only if it is the first"
        yield Change("~", f"record {was.record or 'any'} -> {now.record or 'any'}", _BREAKS, sentence)
    if was.other_records != now.other_records:
        what = f"otherRecords {was.other_records} -> {now.other_records}"
        yield Change("~", what, _BREAKS, _OTHER_RECORDS[now.other_records])
    if (was.schema_text, was.schema_imports) != (now.schema_text, now.schema_imports):
        sentence = "messages are read with a different schema, also in a replay"
        yield Change("~", f"the schema in {now.schema_file or 'schemaFile'}", _BREAKS, sentence)


def _meant_otherwise(old: Contract, new: Contract) -> Iterator[Change]:
    """Yield changes in the meaning of ids and keys, whatever the formats."""
    was, now = old.wire, new.wire
    before, after = context_of(was.subject), context_of(now.subject)
    if was.framed and now.framed and before != after:
        what = f"the subject's context {before or '(default)'} -> {after or '(default)'}"
        sentence = "ids are looked up there from now on; a replay is refused if an id in its range is unknown there"
        yield Change("~", what, _BREAKS, sentence)
    if was.key_format != now.key_format:
        what = f"keyFormat {was.key_format} -> {now.key_format}"
        if new.row_table.disposition == "upsert":
            yield Change("~", what, ChangeClass.REPLAY, "rows get different keys: all rows must be rebuilt")
        elif new.reads_keys:
            yield Change("~", what, ChangeClass.REPLAY, "keys are decoded differently: all rows must be rebuilt")
        else:
            yield Change("~", what, _FREE, "no effect: only upsert tables and fields with source key read keys")


def widens(old: ColumnType, new: ColumnType) -> bool:
    """Return True if every message value that the old type accepts is also valid for the new type, with the same
    meaning.
    """
    if old.item and new.item:
        return old.item == new.item or widens(old.item, new.item)
    if old.kind == new.kind == "decimal":
        return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    return old.kind == "integer" and new.kind == "decimal" and new.precision - new.scale >= 19


def _renamed(before: Mapping[str, Field], after: Mapping[str, Field]) -> dict[str, str]:
    """Return, by its new name, the old name of a field that reads the same part of the message: the same number or key.

    A number may be used again while the old field is still there, under another number.
    """
    numbered = {(item.path[:-1], item.number): name for name, item in before.items() if item.number}
    gone = {item.path: name for name, item in before.items() if name not in after}
    found = {
        name: numbered.get((item.path[:-1], item.number or 0)) or gone.get(item.path)
        for name, item in after.items()
        if name not in before
    }
    return {name: was for name, was in found.items() if was}


def _added(field: Field) -> Change:
    what = f"field {field.place} {field.type.name}"
    if field.source:
        return Change("+", what, ChangeClass.REPLAY, _EARLIER_ROWS, column=field.name)
    if field.required:
        sentence = "messages without it are dead letters from now on"
        return Change("+", f"{what} required", _BREAKS, sentence, column=field.name)
    return Change("+", what, _FREE, "messages may have it", column=field.name)


def _changed(old: Field, new: Field) -> Iterator[Change]:
    name = new.name
    if old.name != name:
        read = new.source or (f"number {new.number}" if new.number else spell_path(new.path))
        sentence = f"it reads {read} in the message, as {old.name} did"
        yield Change("~", f"field {old.name} -> {name}", _FREE, sentence, column=name)
    if old.source != new.source:
        what = f"field {name}: source {old.source or 'value'} -> {new.source or 'value'}"
        yield Change("~", what, ChangeClass.REPLAY, _EARLIER_ROWS, column=name)
    else:
        yield from _found_elsewhere(old, new)
    if old.type != new.type:
        what, wider = f"field {new.place} {old.type.name} -> {new.type.name}", widens(old.type, new.type)
        narrowed = "messages whose value is not of the new type become dead letters from now on"
        sentence = "it accepts every value that it accepted before" if wider else narrowed
        yield Change("~", what, _FREE if wider else _BREAKS, sentence, column=name)
    elif old.unit != new.unit:
        what = f"field {new.place}: unit {old.unit or 'none'} -> {new.unit or 'none'}"
        sentence = "messages written as before become dead letters, or rows with a different time"
        yield Change("~", what, _BREAKS, sentence, column=name)
    if new.required and not old.required:
        sentence = "messages without it are dead letters from now on"
        yield Change("~", f"field {new.place} optional -> required", _BREAKS, sentence, column=name)
    elif old.required and not new.required:
        what, sentence = f"field {new.place} required -> optional", "messages without it become rows from now on"
        yield Change("~", what, _FREE, sentence, column=name, rule=f"{old.name}_required")
    yield from rule_changes(old, new)


def _found_elsewhere(old: Field, new: Field) -> Iterator[Change]:
    """Yield changes of the key, the aliases or the number of a field."""
    before, after = (old.path, *old.aliases), (new.path, *new.aliases)
    by_number = bool(new.number) and new.number == old.number  # instead of the last name of each path
    if new.number != old.number:
        what = f"field {new.name}: number {old.number or 'none'} -> {new.number or 'none'}"
        sentence = "in earlier messages, the new number is a different field, or none"
        if not new.number:
            sentence = "the field is found by its name from now on, which a writer may have changed"
        yield Change("~", what, _BREAKS, sentence, column=new.name)
    kept = {path[: -1 if by_number else None] for path in after}
    gone = [path for path in before if path[: -1 if by_number else None] not in kept]
    if old.path in gone:
        what = f"field {new.name}: {spell_path(old.path)} -> {spell_path(new.path)} in the message"
        lost = "are dead letters" if new.required else "have no value in it"
        sentence = f"messages with the old key {lost} from now on, also in a replay"
        yield Change("~", what, _BREAKS, sentence, column=new.name)
    elif gone:
        what = f"field {new.name}: no longer {', '.join(sorted(map(spell_path, gone)))} in the message"
        sentence = "for writers that use only that name, it has no value"
        yield Change("~", what, _BREAKS, sentence, column=new.name)
    elif before != after:
        what = f"field {new.name}: {', '.join(map(spell_path, after))} in the message"
        sentence = "it is found by its number" if by_number else "it is found under each of these names"
        yield Change("~", what, _FREE, sentence, column=new.name)


def rule_changes(old: Field, new: Field) -> Iterator[Change]:
    """Yield changes of the rules besides `required`, which also affects the column."""
    before = {rule.kind: rule for rule in old.rules if rule.kind != "required"}
    after = {rule.kind: rule for rule in new.rules if rule.kind != "required"}
    for kind in (*(kind for kind in before if kind not in after), *after):
        was, now = before.get(kind), after.get(kind)
        if was and now and was.argument == now.argument:
            continue
        what = f"{(now or before[kind]).name}: {' -> '.join(wanted(rule) for rule in (was, now) if rule)}"
        sign = "~" if was and now else "-" if was else "+"
        if was and (now is None or loosens(was, now)):
            sentence = "messages that break it become rows from now on"
            yield Change(sign, what, _FREE, sentence, column=was.field, rule=was.name)
        else:
            sentence = "messages that break it become dead letters from now on; existing rows stay"
            yield Change(sign, what, _BREAKS, sentence, column=new.name)
