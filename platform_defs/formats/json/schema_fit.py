"""The fit of a JSON Schema to a contract. No message is read by it: the contract's rules validate each of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from platform_defs.contract.model.contract import Contract, Field
from platform_defs.contract.model.message_path import MessagePath, spell_path
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.json.schema_types import Node, item_kinds, kinds_of, meant, node, required_by

_READ = {  # by the contract's type, the types of JSON that it is read from (values.py); json: any
    "integer": frozenset({"integer"}),
    "double": frozenset({"integer", "number"}),
    "decimal": frozenset({"integer", "number", "string"}),
    "boolean": frozenset({"boolean"}),
    "array": frozenset({"array"}),
    **dict.fromkeys(("string", "date", "timestamp", "time", "uuid", "bytes"), frozenset({"string"})),
}


@dataclass(frozen=True)
class JsonFit:
    """Sentences, one for a field."""

    misfits: tuple[str, ...] = ()  # why no message that follows the schema becomes a row
    doubts: tuple[str, ...] = ()  # why some may not


@dataclass(frozen=True)
class _Value:
    """The schema's rules for the value at a path."""

    kinds: frozenset[str] | None  # the types of JSON that it may have; None: the schema does not say
    always: bool  # True if every message has it
    blocked: str = ""  # the value on the way to it that is not an object
    forbidden: bool = False  # True if no message has it: by additionalProperties
    items: frozenset[str] | None = None  # the types of JSON that its items may have, if it is an array


def json_fit(contract: Contract, writer: WriterSchema) -> JsonFit:
    """Return the disagreements of the schema and the contract. Never raises for the content of the schema."""
    try:
        root = node(json.loads(writer.document))
        found = [one for item in contract.fields for one in _problems(item, root)]
    except (ValueError, RecursionError) as wrong:
        return JsonFit(doubts=(f"the schema cannot be read: {wrong}",))
    return JsonFit(
        tuple(text for is_misfit, text in found if is_misfit), tuple(text for is_misfit, text in found if not is_misfit)
    )


def _problems(item: Field, root: Node) -> Iterator[tuple[bool, str]]:
    """Yield each sentence about a field, with True if it is a misfit, False if it is a doubt."""
    values = [_at(path, root) for path in (item.path, *item.aliases)]
    named = [value for value in values if value and not value.forbidden]
    if named:
        yield from _of_named(item, named[0])
    elif item.required and all(values):
        yield True, f"{item.place} is required by the contract; the schema allows no such field"
    elif item.required:
        yield False, f"{item.place} is required by the contract, but the schema does not name it"


def _of_named(item: Field, value: _Value) -> Iterator[tuple[bool, str]]:
    always, needed = value.always and "null" not in (value.kinds or ()), f"the contract requires {item.type.name}"
    read, kinds = _READ.get("integer" if item.unit else item.type.kind), (value.kinds or frozenset()) - {"null"}
    if value.blocked:
        yield item.required or always, f"{item.place} cannot be reached: {value.blocked}"
    elif read and value.kinds is not None and not read & (kinds | {"integer"} if "number" in kinds else kinds):
        yield item.required or always, f"{item.place} is {_words(value.kinds)}; {needed}"
    elif read and not kinds <= read:
        yield False, f"{item.place} is {_words(value.kinds or kinds)}; {needed}"
    elif item.type.item and value.items is not None and not value.items <= _READ[item.type.item.kind]:
        yield False, f"{item.place} is an array of {_words(value.items)}; {needed}"
    if item.required and not always and not value.blocked:
        yield False, f"{item.place} is required by the contract, but may be missing in a message"


def _words(kinds: frozenset[str]) -> str:
    return " or ".join(sorted(kinds)) or "nothing"


def _at(path: MessagePath, root: Node) -> _Value | None:
    """Return the schema's rules for the value at `path`; None if the schema does not name it."""
    raw, always = root, True
    for depth, key in enumerate(path):
        kinds, (found, _) = kinds_of(raw, root), meant(raw, root)
        if kinds is not None and "object" not in kinds:
            where = excerpt(spell_path(path[:depth])) if depth else "the message"
            return _Value(frozenset(), always and "null" not in kinds, f"{where} is {_words(kinds)}")
        properties = node(found.get("properties") if found else None)
        if found is None or key not in properties:
            closed = found is not None and found.get("additionalProperties") is False
            is_forbidden = closed and not node((found or {}).get("patternProperties"))
            return _Value(frozenset(), always=False, forbidden=True) if is_forbidden else None
        always = always and key in required_by(found) and (depth == 0 or kinds == frozenset({"object"}))
        raw = properties[key]
    found, _ = meant(raw, root)
    return _Value(kinds_of(raw, root), always, items=item_kinds(found, root) if found else None)
