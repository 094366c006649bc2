"""The cursors of a walk: each is at a tag of its message, or at its stop.

A cursor moves only within its own message: a value beyond the stop marks the message as doubtful and ends its cursor.
"""

from dataclasses import dataclass

import numpy as np

from platform_defs.formats.blocks.buffer import Buffer, Integers, Mask, Words
from platform_defs.formats.protobuf.shapes import FIXED32, FIXED64, LENGTH, VARINT
from platform_defs.formats.wire.varint import unsigned, varints

_NO_TAG = 2**40  # of a cursor at its stop
_HALF = np.uint64(0xFFFF_FFFF)
_LONGEST = 5  # bytes of a varint that is a tag or a length


@dataclass(frozen=True)
class Values:
    """The values after a tag in some messages."""

    rows: Integers  # ascending: the messages
    tags: Integers  # where the tags begin
    raw: Words  # numbers; the length of a value that has one
    starts: Integers  # of the values, after tag and length
    stops: Integers


class Heads:
    """Cursors in the messages `rows`, whose bytes begin and end at `starts` and `stops`."""

    def __init__(self, buffer: Buffer, rows: Integers, starts: Integers, stops: Integers, doubtful: Mask) -> None:
        self._buffer, self._rows, self._stops, self._doubtful = buffer, rows, stops, doubtful
        self._at = starts.copy()
        self._tags, self._sizes = self._peek(starts, stops)

    def lowest(self) -> int | None:
        """Return the lowest tag under a cursor; None if all are at their stops."""
        tag = int(self._tags.min(initial=_NO_TAG))
        return None if tag == _NO_TAG else tag

    def take(self, tag: int) -> Values:
        """Return the values of all cursors at this tag and move these past it; one that cannot move is doubtful."""
        left = np.flatnonzero(self._tags != _NO_TAG)
        if 2 * len(left) < len(self._tags):  # drop the cursors that have ended: a round costs as much as there are
            self._rows, self._at, self._stops = self._rows[left], self._at[left], self._stops[left]
            self._tags, self._sizes = self._tags[left], self._sizes[left]
        picked = np.flatnonzero(self._tags == tag)
        tags, stops, sizes = (_at(picked, values) for values in (self._at, self._stops, self._sizes))
        at = np.minimum(tags + sizes, stops)
        raw, starts, after, wrong = self._read(tag, at, stops)
        wrong |= after > stops
        if wrong.any():
            self._doubt(picked[wrong])
            right = ~wrong
            picked, tags, stops = picked[right], tags[right], stops[right]
            raw, starts, after = raw[right], starts[right], after[right]
        next_tags, next_sizes = self._peek(after, stops)
        if len(picked) == len(self._at):
            self._at, self._tags, self._sizes = after, next_tags, next_sizes
        else:
            self._at = self._at.copy()  # values returned before may share the old positions
            self._at[picked], self._tags[picked], self._sizes[picked] = after, next_tags, next_sizes
        return Values(_at(picked, self._rows), tags, raw, starts, after)

    def doubt_all(self) -> None:
        """Mark the messages that are not at their stops as doubtful."""
        self._doubt(np.flatnonzero(self._tags != _NO_TAG))

    def _doubt(self, picked: Integers) -> None:
        self._doubtful[self._rows[picked]] = True
        self._tags[picked] = _NO_TAG

    def _peek(self, at: Integers, stops: Integers) -> tuple[Integers, Integers]:
        """Return the tags at these positions, and their lengths; tag 0 is invalid, as it is too long for a tag."""
        tags = self._buffer.raw[at].astype(np.int64)
        sizes = np.ones(len(at), np.int64)
        if (long := np.flatnonzero(tags >= 0x80)).size:
            values, lengths = unsigned(self._buffer.words[at[long]])
            odd = (lengths == 0) | (lengths > _LONGEST) | (values > _HALF)
            tags[long], sizes[long] = np.where(odd, 0, values.view(np.int64)), lengths
        tags[at >= stops] = _NO_TAG
        return tags, sizes

    def _read(self, tag: int, at: Integers, stops: Integers) -> tuple[Words, Integers, Integers, Mask]:
        """Return the raw values, their starts, their stops, and a mask of the invalid ones."""
        wire_type, right = tag & 7, np.zeros(len(at), np.bool_)
        if tag >> 3 and wire_type == VARINT:
            raw, sizes = varints(self._buffer, at)
            return raw, at, at + sizes, sizes == 0
        if tag >> 3 and wire_type == LENGTH:
            raw, sizes = varints(self._buffer, at)
            starts = at + sizes
            wrong = (sizes == 0) | (sizes > _LONGEST) | (raw > (stops - at).view(np.uint64))
            after = starts + np.where(wrong, 0, raw.view(np.int64))
            return raw, starts, after, wrong
        if tag >> 3 and wire_type == FIXED64:
            return self._buffer.words[at], at, at + 8, right
        if tag >> 3 and wire_type == FIXED32:
            return self._buffer.words[at] & _HALF, at, at + 4, right
        return np.zeros(len(at), np.uint64), at, at, ~right


def _at(picked: Integers, values: Integers) -> Integers:
    """Return the picked values, without a copy if all are picked."""
    return values if len(picked) == len(values) else values[picked]
