"""The values of `tidegate send`: from arguments, a file or standard input. Bounded memory for any size."""

import os
import select
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from platform_defs.errors import BadInput

MAX_LINE = 64 << 20  # bytes
_CHUNK = 1 << 20  # bytes read at once


@dataclass(frozen=True)
class Line:
    """A value. `number`: its place among the values, from 1."""

    number: int
    text: bytes


@dataclass(frozen=True)
class Lines:
    """Values in blocks: arguments, byte for byte as the shell passed them, or lines of a file or of standard input."""

    source: list[str] | Path | BinaryIO

    @property
    def noun(self) -> str:
        """The name of a value in a sentence."""
        return "value" if isinstance(self.source, list) else "line"

    @property
    def streamed(self) -> bool:
        """True if the values can be read only once. A pipe is read like standard input."""
        return not isinstance(self.source, list | Path) or (isinstance(self.source, Path) and not self.source.is_file())

    def blocks(self) -> Iterator[Sequence[Line]]:
        """Yield the values in order. Raises BadInput for a line longer than 64 MB, or a file that cannot be read."""
        if isinstance(self.source, list):
            yield [Line(number, os.fsencode(value)) for number, value in enumerate(self.source, 1)]
        elif isinstance(self.source, Path):
            try:
                with self.source.open("rb") as stream:
                    yield from _blocks(stream)
            except OSError as error:
                raise BadInput(f"it cannot be read: {error.strerror}", file=str(self.source)) from error
        else:
            yield from _blocks(self.source)

    def more_is_there(self) -> bool:
        """Return True if the next block can be read without waiting for its writer."""
        if isinstance(self.source, list | Path):
            return not self.streamed
        try:
            return bool(select.select([self.source], [], [], 0)[0])
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
