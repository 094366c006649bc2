"""The types of an Avro schema, as far as they define the bytes: no aliases, no documentation. Defaults are for encoding
(platform_defs/formats/encoding/avro.py).

https://avro.apache.org/docs/1.12.0/specification/
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from platform_defs.errors.words import plural

PrimitiveName = Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


@dataclass(frozen=True)
class Logical:
    """The logical type of a number or bytes: decimal, date, timestamp-micros and so on."""

    name: str
    precision: int = 0  # of a decimal
    scale: int = 0


@dataclass(frozen=True)
class Primitive:
    """A type without parts."""

    name: PrimitiveName
    logical: Logical | None = None
    not_decimal: str = field(default="", compare=False)  # why Avro ignores its decimal; empty: it has none
    connect_name: str = field(default="", compare=False)  # its meaning in Kafka Connect; empty: it has none


@dataclass(frozen=True)
class Fixed:
    """A fixed number of bytes."""

    name: str
    size: int
    logical: Logical | None = None
    not_decimal: str = field(default="", compare=False)  # as in Primitive


@dataclass(frozen=True)
class Enum:
    """An int that counts the symbols from 0."""

    name: str
    symbols: tuple[str, ...]

    @cached_property
    def longest(self) -> int:
        """Characters of the longest symbol."""
        return max(map(len, self.symbols), default=0)


@dataclass(frozen=True)
class Array:
    """Blocks of items."""

    items: "AvroType"


@dataclass(frozen=True)
class Map:
    """Blocks of pairs: a string, then a value."""

    values: "AvroType"


@dataclass(frozen=True)
class Union:
    """A long, which counts the branches from 0, then a value of that branch."""

    branches: tuple["AvroType", ...]


@dataclass(frozen=True)
class RecordField:
    """A field of a record."""

    name: str
    type: "AvroType"
    default: str | None = field(default=None, compare=False)  # as JSON; None: it has none


@dataclass(frozen=True)
class Record:
    """The fields in their order, nothing between them."""

    name: str  # with its namespace
    fields: tuple[RecordField, ...]

    @cached_property
    def types(self) -> dict[str, "AvroType"]:
        """The types of the fields, by name."""
        return {item.name: item.type for item in self.fields}


@dataclass(frozen=True)
class Reference:
    """A named type that is defined elsewhere: before, around this, or in a schema that is referred to."""

    name: str


Named: TypeAlias = Record | Enum | Fixed
AvroType: TypeAlias = Primitive | Named | Array | Map | Union | Reference
Definite: TypeAlias = Primitive | Named | Array | Map | Union  # no reference

NULL = Primitive("null")


@dataclass(frozen=True)
class Schema:
    """A schema and all that it refers to. It may contain itself, so walk it with a limit."""

    root: AvroType
    named: Mapping[str, Named] = field(repr=False)  # by full name

    def definite(self, of: AvroType) -> Definite:
        """Return the type; for a reference, the type that it refers to."""
        return self.named[of.name] if isinstance(of, Reference) else of

    def without_null(self, of: AvroType) -> tuple[Definite, bool]:
        """Return the type; of a union with null and one other, the other. Also True if null is allowed."""
        found = self.definite(of)
        if not isinstance(found, Union):
            return found, found == NULL
        others = [branch for branch in found.branches if branch != NULL]
        return (self.definite(others[0]) if len(others) == 1 else found), NULL in found.branches

    def records(self, of: AvroType) -> list[tuple[int | None, "Record"]]:
        """Return the record that the type is; of a union, each record among its branches, with the branch's number."""
        found = self.definite(of)
        if not isinstance(found, Union):
            return [(None, found)] if isinstance(found, Record) else []
        branches = enumerate(map(self.definite, found.branches))
        return [(number, branch) for number, branch in branches if isinstance(branch, Record)]

    def is_empty(self, of: AvroType) -> bool:
        """Return True if values of the type take no byte at all, so that no message is too short for many of them."""
        return of.name in self._empty if isinstance(of, Record | Reference) else not _takes_a_byte(of)

    @cached_property
    def _empty(self) -> frozenset[str]:
        """The names of types that take no byte: nothing in them, at any depth, takes one."""
        users = dict[str, list[str]]()
        full = list[str]()
        for name, of in self.named.items():
            parts = [of] if not isinstance(of, Record) else [item.type for item in of.fields]
            if any(_takes_a_byte(part) for part in parts):
                full.append(name)
            for part in parts:
                if isinstance(part, Record | Reference):
                    users.setdefault(part.name, []).append(name)
        # What takes a byte, its users, the users of those, and so on.
        reached = set(full)
        while full:
            more = [user for user in users.get(full.pop(), ()) if user not in reached]
            reached.update(more)
            full += more
        return frozenset(self.named) - reached


def _takes_a_byte(of: AvroType) -> bool:
    match of:
        case Primitive():
            return of.name != "null"
        case Fixed():
            return of.size > 0
        case Record() | Reference():
            return False  # if it does, that comes from its own fields
        case _:
            return True


def name_of(of: Definite) -> str:
    """Return the type's name, as in Avro's JSON encoding; array, map or union for one without a name."""
    return of.name if isinstance(of, Primitive | Named) else type(of).__name__.lower()


def spelled(of: AvroType) -> str:
    """Format the type for a sentence: "a long", "an int (date)", "the record bank.Transfer"."""
    match of:
        case Primitive():
            kind = f"{'an' if of.name == 'int' else 'a'} {of.name}" if of.name != "bytes" else "bytes"
            return kind + (f" ({of.logical.name})" if of.logical else _not_decimal(of))
        case Fixed() | Enum() | Record():
            return f"the {type(of).__name__.lower()} {of.name}" + (_not_decimal(of) if isinstance(of, Fixed) else "")
        case Array():
            return "an array"
        case Map():
            return "a map"
        case Union():
            return f"a union of {plural(len(of.branches), 'type')}"
        case Reference():
            return of.name


def _not_decimal(of: Primitive | Fixed) -> str:
    return f" (not a decimal: {of.not_decimal})" if of.not_decimal else ""
