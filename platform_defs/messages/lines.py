"""The values of `tidegate send`: from arguments, a file or standard input. Bounded memory for any size."""

import os
import select
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from platform_defs.errors import BadInput

MAX_LINE = 64 << 20  # bytes
_CHUNK = 1 << 20  # bytes read at once


@dataclass(frozen=True)
class Line:
    """A value. `number`: its place among the values, from 1."""

    number: int
    text: bytes


class Lines(Protocol):
    """Values in blocks. `noun` is their name in a sentence; `streamed`: they can be read only once."""

    @property
    def noun(self) -> str: ...

    @property
    def streamed(self) -> bool: ...

    def blocks(self) -> Iterator[Sequence[Line]]:
        """Yield the values in order. Raises BadInput for a line longer than 64 MB, or a file that cannot be read."""
        ...

    def more_is_there(self) -> bool:
        """Return True if the next block can be read without waiting for its writer."""
        ...


@dataclass(frozen=True)
class Arguments:
    """Values on the command line, byte for byte as the shell passed them."""

    values: Sequence[str]
    noun: str = "value"
    streamed: bool = False

    def blocks(self) -> Iterator[Sequence[Line]]:
        """See `Lines`."""
        yield [Line(number, os.fsencode(value)) for number, value in enumerate(self.values, 1)]

    def more_is_there(self) -> bool:
        """See `Lines`."""
        return True


@dataclass(frozen=True)
class FileLines:
    """The lines of a file; a pipe is read like standard input."""

    path: Path
    noun: str = "line"

    @property
    def streamed(self) -> bool:
        return not self.path.is_file()

    def blocks(self) -> Iterator[Sequence[Line]]:
        """See `Lines`."""
        try:
            with self.path.open("rb") as stream:
                yield from _blocks(stream)
        except OSError as error:
            raise BadInput(f"it cannot be read: {error.strerror}", file=str(self.path)) from error

    def more_is_there(self) -> bool:
        """See `Lines`."""
        return not self.streamed


@dataclass(frozen=True)
class StreamLines:
    """The lines of standard input, as they come."""

    stream: BinaryIO
    noun: str = "line"
    streamed: bool = True

    def blocks(self) -> Iterator[Sequence[Line]]:
        """See `Lines`."""
        yield from _blocks(self.stream)

    def more_is_there(self) -> bool:
        """See `Lines`."""
        try:
            return bool(select.select([self.stream], [], [], 0)[0])
        except (OSError, ValueError):  # it has no file descriptor
            return False


def _blocks(stream: BinaryIO) -> Iterator[Sequence[Line]]:
    """Yield the lines of each chunk, without their ends; a block may be empty. The last line may lack its end."""
    number, rest = 1, b""
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)  # what is available; waits if there is none
    while chunk := read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE:
            raise BadInput(f"line {number + len(whole)} is longer than {MAX_LINE >> 20} MB")
        yield [Line(at, text) for at, text in enumerate(whole, number)]
        number += len(whole)
    if rest:
        yield [Line(number, rest)]
