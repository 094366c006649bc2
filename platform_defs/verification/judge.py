"""One message against its contract, in plain Python: either the values of a row, or why it is none.

Written for verify alone and on purpose not shared with the engine, which reads whole blocks at once: where the two
disagree about a message, one of them is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from typing import Any, NoReturn

from platform_defs.contract.model import Contract, RowRule
from platform_defs.verification.patterns import whole_match
from platform_defs.verification.values import Integer, NotTheType, Number, Pairs, reader

MAX_DEPTH = 100  # levels of objects and arrays, the message itself being the first

Breaks = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class NoRow:
    """Why a message is no row: a decode error, or the name of the first rule that it breaks."""

    reason: str


class Judge:
    """Judges the messages of one contract."""

    def __init__(self, contract: Contract) -> None:
        rules = {item.name: [rule for rule in item.rules if rule.kind != "required"] for item in contract.fields}
        self._order = {rule.name: place for place, rule in enumerate(contract.row_rules)}
        self._fields = [
            (
                item.name,
                reader(item.type),
                f"{item.name}_required" if item.required else None,
                [(rule.name, _breaks(rule)) for rule in rules[item.name]],
            )
            for item in contract.fields
        ]

    def value(self, value: bytes | None) -> tuple[Any, ...] | NoRow:
        """The fields in the contract's order (None where missing or null), or why there is no row."""
        if value is None:
            return NoRow("NullValue")
        try:
            document = _JSON.decode(_text(value))
            fields = self._known(document)
        except NotTheType as wrong:
            return NoRow(str(wrong))
        except JSONDecodeError:
            return NoRow("InvalidJson" if value.strip() else "EmptyValue")
        return self._row(fields)

    def _known(self, document: Any) -> dict[str, Any]:
        if type(document) is not Pairs:
            raise NotTheType("NotAnObject")
        fields = dict(document)
        if len(fields) < len(document):
            names = [name for name, _ in document]
            if any(names.count(name) > 1 for name, *_ in self._fields):
                raise NotTheType("DuplicateKey")
        return fields

    def _row(self, fields: dict[str, Any]) -> tuple[Any, ...] | NoRow:
        row: list[Any] = []
        broken: str | None = None
        for name, read, required, rules in self._fields:
            raw = fields.get(name)
            if raw is None:
                broken = broken or required
                row.append(None)
                continue
            try:
                value = read(raw)
            except NotTheType as wrong:  # a fault of decoding comes before every rule
                return NoRow(str(wrong))
            if broken is None:
                for rule, breaks in rules:
                    if breaks(value):
                        broken = rule
                        break
            row.append(value)
        return NoRow(broken) if broken else tuple(row)


def key_text(key: bytes | None) -> str | NoRow:
    """A message key as an upsert table stores it, or why it cannot."""
    if key is None:
        return NoRow("MissingKey")
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return NoRow("InvalidUtf8")
    return NoRow("NulCharacter") if "\0" in text else text


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise NotTheType("InvalidUtf8") from None
    if value.count(b"{") + value.count(b"[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise NotTheType("TooDeep")
    return text


def _depth(text: str) -> int:
    """The deepest nesting of brackets outside of strings."""
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _breaks(rule: RowRule) -> Breaks:
    """Whether a value that is not null breaks `rule`."""
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


def _no_such_number(_name: str) -> NoReturn:
    raise NotTheType("InvalidJson")  # NaN and Infinity are Python's, not JSON's


_JSON = JSONDecoder(object_pairs_hook=Pairs, parse_float=Number, parse_int=Integer, parse_constant=_no_such_number)
