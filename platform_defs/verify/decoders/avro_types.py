"""Avro's types, each of which reads its values from a message and converts them to JSON: verify's own reader.

The faults of a message, by a dead letter's reason: TruncatedAvro (it ends within a value, or more items or bytes should
follow than are left), InvalidVarint (more than ten bytes or 64 bits; an int of more than 32), InvalidBoolean (neither 0
nor 1), InvalidLength (negative; a block with another size than stated), InvalidEnum, InvalidBranch, TooDeep (more than
100 nested records, arrays and maps).

A type that takes no byte is not read: its value is None, however many of them there are.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

from platform_defs.verify.decoders.avro_values import moment, octets
from platform_defs.verify.decoders.documents import JSONB_BYTES, MAX_DEPTH, Integer, NotTheType, Number, Pairs, utf8
from platform_defs.verify.decoders.values import finite

Text = TypeVar("Text", bound=str)
EMPTY_VALUES = 1_000  # values without a byte in one JSON document


class Tape:
    """The bytes of a message, read from the first to the last."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.depth = data, 0, 0

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise NotTheType("TruncatedAvro")
        self.at += size
        return self.data[self.at - size : self.at]

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def number(self) -> int:
        """Return a zigzag varint."""
        total = 0
        for place in range(0, 70, 7):
            (byte,) = self.take(1)
            total += (byte & 127) << place
            if byte < 128:
                break
        else:
            raise NotTheType("InvalidVarint")
        if total.bit_length() > 64:
            raise NotTheType("InvalidVarint")
        return -(total + 1) // 2 if total % 2 else total // 2

    def sized(self) -> bytes:
        """Return a string or bytes."""
        size = self.number()
        if size < 0:
            raise NotTheType("InvalidLength")
        return self.take(size)

    def counts(self, empty: bool) -> Iterator[int]:
        """Yield the number of items of each block, which must be read before the next is requested."""
        while count := self.number():
            if abs(count) > self.left and not empty:
                raise NotTheType("TruncatedAvro")
            size = self.number() if count < 0 else None
            start = self.at
            yield abs(count)
            if size not in (None, self.at - start):
                raise NotTheType("InvalidLength")

    def enter(self) -> None:
        """Enter a level; `leave` it at its end. Raises NotTheType, TooDeep."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotTheType("TooDeep")

    def leave(self) -> None:
        self.depth -= 1


class DocumentSize:
    """The size of a document: its values without a byte in the message, and the characters of its names, strings and
    numbers.
    """

    def __init__(self) -> None:
        self.empty = self.characters = 0

    def counted(self, text: Text) -> Text:
        """Return the text, counted. Raises NotTheType, TooLarge, if a json column cannot store as many characters."""
        self.characters += len(text)
        if self.characters > JSONB_BYTES:
            raise NotTheType("TooLarge")
        return text

    def count_empty(self) -> None:
        self.empty += 1
        if self.empty > EMPTY_VALUES:
            raise NotTheType("TooManyItems")


class Type:
    """A type of a schema."""

    kind = ""
    logical = ""
    scale = 0

    def read(self, tape: Tape) -> Any:
        """Return the value, as `json` takes it."""
        raise NotImplementedError

    def json(self, value: Any, size: DocumentSize) -> Any:
        raise NotImplementedError

    def parts(self) -> Sequence["Type"] | None:
        """Return the types that follow each other in it without a byte between; None if it takes a byte itself."""
        return None

    @cached_property
    def takes_no_byte(self) -> bool:
        """True if neither the type nor any within it takes a byte."""
        waiting, seen = list[Type]([self]), {id(self)}
        while waiting:
            parts = waiting.pop().parts()
            if parts is None:
                return False
            fresh = [part for part in parts if id(part) not in seen]
            seen.update(map(id, fresh))
            waiting += fresh
        return True

    def read_or_none(self, tape: Tape) -> Any:
        """Return the value; None for a type that takes no byte."""
        return None if self.takes_no_byte else self.read(tape)


class Plain(Type):
    """A primitive type."""

    def __init__(self, kind: str, logical: str = "", scale: int = 0) -> None:
        self.kind, self.logical, self.scale = kind, logical, scale

    def read(self, tape: Tape) -> Any:
        return _READ[self.kind](tape)

    def json(self, value: Any, size: DocumentSize) -> Any:
        if self.kind == "null":
            size.count_empty()
            return None
        if self.kind == "boolean":
            return value
        if self.kind in ("float", "double"):
            return size.counted(Number(repr(finite(value))))
        if isinstance(value, int):
            return size.counted(moment(value, self.logical) if self.logical else Integer(value))
        return size.counted(utf8(value) if self.kind == "string" else octets(value, self.logical, self.scale))

    def parts(self) -> Sequence[Type] | None:
        return () if self.kind == "null" else None


class Fixed(Type):
    """A number of bytes."""

    kind = "fixed"

    def __init__(self, size: int, logical: str, scale: int) -> None:
        self.size, self.logical, self.scale = size, logical, scale

    def read(self, tape: Tape) -> bytes:
        return tape.take(self.size)

    def json(self, value: Any, size: DocumentSize) -> Any:
        if not self.size:
            size.count_empty()
        return size.counted(octets(value or b"", self.logical, self.scale))

    def parts(self) -> Sequence[Type] | None:
        return None if self.size else ()


class Enum(Type):
    """A symbol of an enum."""

    kind = "enum"

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = symbols

    def read(self, tape: Tape) -> str:
        index = tape.number()
        if index not in range(len(self.symbols)):
            raise NotTheType("InvalidEnum")
        return self.symbols[index]

    def json(self, value: Any, size: DocumentSize) -> Any:
        return size.counted(value)


class Array(Type):
    """Items; or their number if they take no byte."""

    kind = "array"

    def __init__(self, item: Type) -> None:
        self.item = item

    def read(self, tape: Tape) -> list[Any] | int:
        tape.enter()
        if self.item.takes_no_byte:
            items: list[Any] | int = sum(tape.counts(empty=True))
        else:
            items = [self.item.read(tape) for count in tape.counts(empty=False) for _ in range(count)]
        tape.leave()
        return items

    def json(self, value: Any, size: DocumentSize) -> Any:
        if isinstance(value, int):
            if value > EMPTY_VALUES:
                raise NotTheType("TooManyItems")
            value = [None] * value
        return [self.item.json(item, size) for item in value]


class Map(Type):
    """Pairs of a text and a value."""

    kind = "map"

    def __init__(self, item: Type) -> None:
        self.item = item

    def read(self, tape: Tape) -> list[tuple[bytes, Any]]:
        tape.enter()
        counts = tape.counts(empty=False)
        pairs = [(tape.sized(), self.item.read_or_none(tape)) for count in counts for _ in range(count)]
        tape.leave()
        return pairs

    def json(self, value: Any, size: DocumentSize) -> Any:
        return Pairs((size.counted(utf8(key)), self.item.json(item, size)) for key, item in value)


class Union(Type):
    """A value of one of several types: its place among them, and the value."""

    kind = "union"

    def __init__(self, branches: Sequence[Type]) -> None:
        self.branches = branches

    def branch(self, tape: Tape) -> Type:
        """Return the type of the value that follows."""
        index = tape.number()
        if index not in range(len(self.branches)):
            raise NotTheType("InvalidBranch")
        return self.branches[index]

    def read(self, tape: Tape) -> tuple[Type, Any]:
        branch = self.branch(tape)
        return branch, branch.read_or_none(tape)

    def json(self, value: Any, size: DocumentSize) -> Any:
        branch, held = value
        return None if branch.kind == "null" else branch.json(held, size)


class Record(Type):
    """A record. Its fields are set after it is created, since it may contain itself."""

    kind = "record"

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: dict[str, Type] = {}

    def read(self, tape: Tape) -> dict[str, Any]:
        tape.enter()
        values = {name: of.read_or_none(tape) for name, of in self.fields.items()}
        tape.leave()
        return values

    def json(self, value: Any, size: DocumentSize) -> Any:
        if not self.fields:
            size.count_empty()
        held: dict[str, Any] = value or {}
        return Pairs((size.counted(name), of.json(held.get(name), size)) for name, of in self.fields.items())

    def parts(self) -> Sequence[Type] | None:
        return list(self.fields.values())


def _small(tape: Tape) -> int:
    value = tape.number()
    if value.bit_length() > 31 and value != -(2**31):
        raise NotTheType("InvalidVarint")
    return value


def _boolean(tape: Tape) -> bool:
    (byte,) = tape.take(1)
    if byte > 1:
        raise NotTheType("InvalidBoolean")
    return byte == 1


_READ: dict[str, Callable[[Tape], Any]] = {
    "boolean": _boolean,
    "int": _small,
    "long": Tape.number,
    "float": lambda tape: struct.unpack("<f", tape.take(4))[0],
    "double": lambda tape: struct.unpack("<d", tape.take(8))[0],
    "bytes": Tape.sized,
    "string": Tape.sized,
}
