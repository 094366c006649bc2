"""A walk through one message, byte by byte: it reads a value, or finds its end. It reports any byte that Avro does not
allow.

Strict where Avro leaves a choice: a boolean is 0 or 1, an int has 32 bits, the index of a union or an enum is in range,
a block that gives its size has that size. A varint may be longer than it needs to be, up to ten bytes.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from platform_defs.errors.words import plural
from platform_defs.formats.avro import schema as avro
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.formats.blocks.reason import Wrong

MAX_DEPTH = 100  # of records, arrays and maps in each other, the message being the first; as in JSON


class Walk:
    """A position in one message. `place`: the current field of the writer."""

    def __init__(self, schema: avro.Schema, data: bytes) -> None:
        self.schema, self.data, self.at, self.place = schema, data, 0, ""
        self.field: str | None = None  # the contract's field that the place leads to
        self.depth = 0

    def wrong(self, error_class: str, what: str, at: int) -> Wrong:
        """Return the error, with the writer's field and the byte, counted from the payload's first."""
        where = f"in {excerpt(self.place)}, " if self.place else ""
        return Wrong(error_class, f"{where}at byte {at} of {len(self.data)}: {what}", self.field)

    def long(self) -> int:
        """Read a zigzag varint of 64 bits."""
        start, shift, value = self.at, 0, 0
        if start < len(self.data) and (byte := self.data[start]) < 0x80:  # most have one byte
            self.at += 1
            return (byte >> 1) ^ -(byte & 1)
        for byte in self.data[start : start + 10]:
            value |= (byte & 0x7F) << shift
            self.at += 1
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                return (value >> 1) ^ -(value & 1)
            shift += 7
        if self.at == len(self.data) and self.at < start + 10:
            raise self.wrong("TruncatedAvro", "the message ends in the middle of a number", start)
        raise self.wrong("InvalidVarint", "a number of more than 64 bits", start)

    def int32(self) -> int:
        """Read a zigzag varint of 32 bits."""
        start, value = self.at, self.long()
        if not -(1 << 31) <= value < 1 << 31:
            raise self.wrong("InvalidVarint", f"{value} is not an int, which has 32 bits", start)
        return value

    def boolean(self) -> bool:
        """Read one byte, 0 or 1."""
        start = self.take(1)
        if self.data[start] > 1:
            raise self.wrong("InvalidBoolean", f"a boolean must be 0 or 1, not {self.data[start]}", start)
        return self.data[start] == 1

    def take(self, size: int) -> int:
        """Pass the next `size` bytes; return their start."""
        start = self.at
        if size > len(self.data) - start:
            left = len(self.data) - start
            raise self.wrong("TruncatedAvro", f"{plural(size, 'byte')} should follow, with {left:,} left", start)
        self.at += size
        return start

    def span(self) -> bytes:
        """Read a string or bytes."""
        start, size = self.at, self.long()
        if size < 0:
            raise self.wrong("InvalidLength", f"the length is negative: {size}", start)
        return self.data[self.take(size) : self.at]

    def scalar(self, of: avro.Primitive | avro.Fixed | avro.Enum) -> Any:
        """Read a value without parts; of a string, bytes or fixed, its bytes."""
        if isinstance(of, avro.Fixed):
            return self.data[self.take(of.size) : self.at]
        return self.symbol(of) if isinstance(of, avro.Enum) else _READ[of.name](self)

    def symbol(self, of: avro.Enum) -> str:
        start, index = self.at, self.long()
        if not 0 <= index < len(of.symbols):
            what = f"index {index} is not in the enum {excerpt(of.name)}, which has {plural(len(of.symbols), 'symbol')}"
            raise self.wrong("InvalidEnum", what, start)
        return of.symbols[index]

    def branch(self, of: avro.Union) -> avro.Definite:
        """Read the index of a union; return the branch."""
        return self.schema.definite(of.branches[self.index(of)])

    def index(self, of: avro.Union) -> int:
        """Read the index of a union's branch."""
        start, index = self.at, self.long()
        if not 0 <= index < len(of.branches):
            raise self.wrong(
                "InvalidBranch", f"branch index {index} is out of range: the union has {len(of.branches)}", start
            )
        return index

    def blocks(self, *, empty: bool) -> Iterator[int]:
        """Yield the number of items in each block of an array or a map; the caller reads them. empty: they take no
        byte.
        """
        self.deeper()
        while count := self._count(empty=empty):
            size_at, size = self.at, self.long() if count < 0 else None
            start = self.at
            yield abs(count)
            if size is not None and size != self.at - start:
                what = f"the block declares {plural(size, 'byte')}, but its items take {self.at - start:,}"
                raise self.wrong("InvalidLength", what, size_at)
        self.depth -= 1

    def _count(self, *, empty: bool) -> int:
        """Read the number of items in a block; if it is negative, the block's size in bytes follows."""
        start, count = self.at, self.long()
        if not empty and abs(count) > len(self.data) - self.at:
            left = plural(len(self.data) - self.at, "byte")
            raise self.wrong("TruncatedAvro", f"{plural(abs(count), 'item')} should follow, with {left} left", start)
        return count

    def deeper(self) -> None:
        """Enter a record, array or map; at its end the caller takes 1 from `depth`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.wrong("TooDeep", f"the message nests deeper than {MAX_DEPTH} levels", self.at)

    def skip(self, of: avro.AvroType) -> None:
        """Pass a value. Its strings may contain anything; the rest is validated."""
        found = self.schema.definite(of)
        if self.schema.is_empty(found):
            return
        match found:
            case avro.Primitive() | avro.Fixed() | avro.Enum():
                self.scalar(found)
            case avro.Record():
                self.deeper()
                for item in found.fields:
                    self.skip(item.type)
                self.depth -= 1
            case avro.Union():
                self.skip(self.branch(found))
            case avro.Array():
                self._skip_items(self.schema.is_empty(found.items), found.items)
            case avro.Map():
                self._skip_items(False, avro.Primitive("string"), found.values)

    def _skip_items(self, empty: bool, *item: avro.AvroType) -> None:
        for count in self.blocks(empty=empty):
            for _ in range(0 if empty else count):
                for of in item:
                    self.skip(of)


_READ: dict[avro.PrimitiveName, Callable[[Walk], Any]] = {
    "null": lambda _: None,
    "boolean": Walk.boolean,
    "int": Walk.int32,
    "long": Walk.long,
    "float": lambda walk: struct.unpack_from("<f", walk.data, walk.take(4))[0],
    "double": lambda walk: struct.unpack_from("<d", walk.data, walk.take(8))[0],
    "bytes": Walk.span,
    "string": Walk.span,
}
