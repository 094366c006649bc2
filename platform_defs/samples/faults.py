"""Ways to spoil a good message, each with one thing wrong. verify's validator decides the outcome."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from platform_defs.contract.model.contract import Contract, Field
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.samples.message import NOTHING, json_of, replaced
from platform_defs.verify.decoders.documents import Document, Integer, Number, Pairs, parse


@dataclass(frozen=True)
class Fault:
    """A way to spoil a message."""

    kind: str  # such as "missing field"; samples use the first one of each kind and reason
    spoil: Callable[[bytes], bytes]  # a good message's value → a bad one


def faults(contract: Contract) -> Iterator[Fault]:
    """Yield ways to spoil a message of the contract. Not every one works on every message: a rule may allow it."""
    yield Fault("broken text", lambda value: value.decode()[: len(value.decode()) // 2].encode())
    yield Fault("broken text", lambda _: b"")
    yield Fault("broken text", lambda value: value.replace(b'"', b'"\xff', 1))
    yield Fault("broken text", lambda _: b"[]")
    yield Fault("repeated key", _first_member_twice)
    for item in contract.fields:
        yield from _of_field(item)


def _of_field(item: Field) -> Iterator[Fault]:
    if item.type.name != "json":
        yield _value("wrong type", item.path, Pairs([("not", "this")]))
    for depth in range(1, len(item.path)):
        yield _value("not an object on the way", item.path[:depth], "not an object")
        yield _value("not an object on the way", item.path[:depth], [])
    if item.required:
        yield _value("missing field", item.path, NOTHING)
        for depth in range(1, len(item.path)):
            yield _value("missing object", item.path[:depth], NOTHING)
    for value in _wrong_values(item):
        yield _value("wrong value", item.path, value)


def _value(kind: str, path: MessagePath, value: Document | object) -> Fault:
    return Fault(kind, lambda message: replaced(message, path, value))


def _first_member_twice(message: bytes) -> bytes:
    """Repeat the first member: `{"a":1,"b":2}` becomes `{"a":1,"a":1,"b":2}`."""
    document = parse(message)
    return json_of(Pairs([*document[:1], *document])) if isinstance(document, Pairs) else message


def _wrong_values(item: Field) -> Iterator[Document]:
    """Yield values that may break the field's type or rules; the validator decides which of them do."""
    if item.type.name == "string":
        yield from ("\0", "?")
    if item.type.name in ("date", "timestamp"):
        yield "2026-02-30" + ("T10:00:00Z" if item.type.name == "timestamp" else "")
    if item.unit:
        yield from (Number("1.5"), Integer(10**18 if item.unit != "ns" else 1))
    if item.type.name in ("uuid", "time", "bytes"):
        yield from ("24:00:00", "6f1c0b9e-8d3a-4c55-9f0e-2b7a1d4e5f6", "AAH/=")
    if item.type.name == "json":
        yield from _wrong_documents()
    if pa.types.is_decimal(item.type.arrow):
        yield "1." + "0" * item.type.arrow.scale + "1"
    for rule in item.rules:
        if rule.kind == "max_length":
            yield "x" * (rule.argument + 1)
        if rule.kind in ("minimum", "maximum") and isinstance(rule.argument, int | float | Decimal):
            yield _beyond(rule.kind, rule.argument)


def _wrong_documents() -> Iterator[Document]:
    """Yield JSON that Postgres' jsonb refuses, or that would lose something in it."""
    yield Pairs([("text", "a\0b")])
    yield Pairs([("text", "\ud800")])
    yield Pairs([("number", Number("1e200000"))])
    yield Pairs([("twice", Integer("1")), ("twice", Integer("2"))])
    deep: Any = Integer("1")
    for _ in range(150):
        deep = [deep]
    yield deep


def _beyond(kind: str, limit: float | Decimal) -> Document:
    away = limit + (-1 if kind == "minimum" else 1)
    if isinstance(away, Decimal):
        return str(away)
    return Integer(away) if isinstance(away, int) else Number(repr(away))
