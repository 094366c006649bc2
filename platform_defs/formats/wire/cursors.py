"""A cursor in each of many messages: numpy takes every step in all of them at once.

Each message has its own position and its own stop, and a cursor never passes its stop. So a message cannot affect its
neighbours, whatever its content. A message that breaks a rule is marked doubtful; its cursor stays within its bounds,
and the values read there mean nothing: a reader of single messages must read it.
"""

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from platform_defs.formats.blocks.buffer import Buffer, Integers, Mask, Words
from platform_defs.formats.wire.varint import varints


class Cursors:
    """The positions in some messages of a buffer: in all, or in the ones that `among` picks.

    at, stops: int64, ascending positions in the buffer, at <= stops; no two messages overlap. rows: int64, ascending,
    the messages' numbers; None: all.
    doubtful: a mask over all messages of the buffer, shared by all cursors of it.
    """

    def __init__(self, buffer: Buffer, at: Integers, stops: Integers, doubtful: Mask, rows: Integers | None) -> None:
        self.buffer, self.at, self.stops, self.doubtful, self.rows = buffer, at, stops, doubtful, rows

    def __len__(self) -> int:
        return len(self.at)

    def doubt(self, wrong: Mask) -> None:
        """Mark the `wrong` messages, a mask over these, as doubtful."""
        if self.rows is None:
            self.doubtful |= wrong
        elif wrong.any():
            self.doubtful[self.rows[wrong]] = True

    def doubt_all(self) -> None:
        """Mark all of these messages as doubtful."""
        self.doubtful[slice(None) if self.rows is None else self.rows] = True

    @property
    def doubts(self) -> Mask:
        """A mask of these messages: True if doubtful by now."""
        return self.doubtful if self.rows is None else self.doubtful[self.rows]

    @property
    def left(self) -> Integers:
        """The number of bytes left in each message."""
        return self.stops - self.at

    def step(self, lengths: Integers | int) -> None:
        """Move on by `lengths` bytes (none negative). A cursor that would pass its stop ends there and is doubtful."""
        moved = self.at + lengths
        if (moved > self.stops).any():
            self.doubt(moved > self.stops)
            moved = np.minimum(moved, self.stops)
        self.at = moved

    def words(self) -> Words:
        """Return the next eight bytes of each, little-endian, not consumed; the bytes after the stop mean nothing."""
        return self.buffer.words[self.at]

    def octets(self) -> Integers:
        """Return one byte of each, consumed: 0 to 255."""
        found = self.buffer.raw[self.at].astype(np.int64)
        self.step(1)
        return found

    def varints(self) -> Words:
        """Return a varint of each, consumed. One of more than 64 bits is doubtful."""
        values, lengths = varints(self.buffer, self.at)
        if not lengths.all():
            self.doubt(lengths == 0)
        self.step(lengths)
        return values

    def spans(self, lengths: Integers) -> tuple[Integers, Integers]:
        """Return the start and the length of the next `lengths` bytes of each, consumed. A length that is negative or
        beyond the message is doubtful, and 0.
        """
        wrong = (lengths < 0) | (lengths > self.stops - self.at)
        if wrong.any():
            self.doubt(wrong)
            lengths = np.where(wrong, 0, lengths)
        starts = self.at
        self.at = starts + lengths
        return starts, lengths

    @contextmanager
    def among(self, picked: Mask) -> Generator["Cursors"]:
        """Yield cursors of the messages that `picked` marks; these here then go on from their positions."""
        if picked.all():
            yield self
            return
        places = np.flatnonzero(picked)
        rows = places if self.rows is None else self.rows[places]
        inner = Cursors(self.buffer, self.at[places], self.stops[places], self.doubtful, rows)
        yield inner
        self.at = self.at.copy()  # spans returned before share the old positions
        self.at[places] = inner.at

    def finish(self) -> None:
        """Mark each cursor that is not at its stop as doubtful."""
        self.doubt(self.at != self.stops)
