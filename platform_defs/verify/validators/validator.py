"""Validation of one message by its contract, in plain Python: the values of a row, or the reason why it is not a row.

Written for verify alone and deliberately not shared with the engine, which reads whole blocks at once: if the two
disagree about a message, one of them is wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from platform_defs.contract.model.contract import Contract, Field, RowRule
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.verify.decoders.documents import Document, NotTheType, Pairs, parse
from platform_defs.verify.decoders.values import reader, since_1970
from platform_defs.verify.validators.patterns import whole_match

Row: TypeAlias = tuple[Any, ...]  # a value for each field (None if missing or null), in the contract's order
Breaks: TypeAlias = Callable[[Any], bool]
Members: TypeAlias = Mapping[str, Document]


@dataclass(frozen=True, slots=True)
class NoRow:
    """The reason why a message is not a row: a decode error, or the name of the first rule that it breaks."""

    reason: str
    skipped: bool = False  # the contract skips it: neither a row nor a dead letter is expected


class Validator:
    """Validates the messages of one contract."""

    def __init__(self, contract: Contract) -> None:
        self._objects = _objects_of(contract.fields)
        numbers = {item.path: number for number, item in enumerate(self._objects)}
        self._fields = [FieldValidator(item, numbers[item.path[:-1]]) for item in contract.fields]

    def value(self, value: bytes | None) -> Row | NoRow:
        """Return the values of the message's row, or the reason why it has none."""
        if value is None:
            return NoRow("NullValue")
        try:
            return self._row(parse(value))
        except NotTheType as wrong:  # decode errors come before rules
            return NoRow(str(wrong))

    def at(self, partition: int, offset: int, value: bytes | None, header: bytes | None) -> Row | NoRow:  # noqa: ARG002
        """Return the same for a message at its place in the topic, with the header that names its schema, if there is
        one.

        Bare JSON names none.
        """
        return self.value(value)

    def ruled(self, values: Sequence[Any]) -> Row | NoRow:
        """Return the row of these values, one for each field, or the first rule that they break."""
        found = (field.broken_rule(value) for field, value in zip(self._fields, values, strict=True))
        broken = next((rule for rule in found if rule), None)
        return NoRow(broken) if broken else tuple(values)

    def _row(self, message: Document) -> Row | NoRow:
        if type(message) is not Pairs:
            raise NotTheType("NotAnObject")
        objects = [_members_of(message, self._objects[0].keys)]
        for item in self._objects[1:]:
            objects.append(_members_of(objects[item.parent].get(item.path[-1]), item.keys))
        row: list[Any] = []
        broken: str | None = None
        for field in self._fields:
            raw = objects[field.object].get(field.key)
            value = None if raw is None else field.read(raw)
            if broken is None:
                broken = field.broken_rule(value)
            row.append(value)
        return NoRow(broken) if broken else tuple(row)


@dataclass(frozen=True)
class _Object:
    """An object that has fields: the message itself first, then each nested object after its parent."""

    path: MessagePath
    parent: int
    keys: frozenset[str]  # keys that lead to fields; only they must not be repeated


def _objects_of(fields: tuple[Field, ...]) -> tuple[_Object, ...]:
    keys: dict[MessagePath, set[str]] = {(): set()}
    for item in fields:
        for depth, key in enumerate(item.path):
            keys.setdefault(item.path[:depth], set()).add(key)
    numbers = {path: number for number, path in enumerate(keys)}
    return tuple(_Object(path, numbers[path[:-1]], frozenset(known)) for path, known in keys.items())


def _members_of(document: Document, known: frozenset[str]) -> Members:
    """Return an object's members by key; none if there is no object."""
    if document is None:
        return {}
    if type(document) is not Pairs:
        raise NotTheType("WrongType")
    members = dict(document)
    if len(members) < len(document):
        keys = [key for key, _ in document]
        if any(keys.count(key) > 1 for key in known):
            raise NotTheType("DuplicateKey")
    return members


class FieldValidator:
    """The reading and the rules of one field."""

    def __init__(self, field: Field, number: int) -> None:
        self.object, self.key = number, field.path[-1]  # the place of its object in `Validator._objects`
        self.read = since_1970(field.unit) if field.unit else reader(field.type)
        self._required = f"{field.name}_required" if field.required else None
        self._rules = [(rule.name, _breaks(rule)) for rule in field.rules if rule.kind != "required"]

    def broken_rule(self, value: Any) -> str | None:
        """Return the name of the first rule that the field's value breaks; None if it is valid."""
        if value is None:
            return self._required
        for name, breaks in self._rules:
            if breaks(value):
                return name
        return None


def _breaks(rule: RowRule) -> Breaks:
    """Return a function that returns True if a value that is not null breaks `rule`."""
    wanted = rule.argument
    match rule.kind:
        case "enum":
            allowed = frozenset(wanted)
            return lambda value: value not in allowed
        case "pattern":
            matches = whole_match(wanted)
            return lambda value: not matches(value)
        case "minimum":
            return lambda value: value < wanted
        case "maximum":
            return lambda value: value > wanted
        case "min_length":
            return lambda value: len(value) < wanted
        case "max_length":
            return lambda value: len(value) > wanted
        case _:
            raise AssertionError(f"row rule of unknown kind {rule.kind!r}")
