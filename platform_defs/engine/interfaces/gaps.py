"""The offsets of a range at which no message came: control records, aborted transactions, what compaction removed.

A producer that commits each message by itself makes every other offset a gap. So they are kept as columns, and go from
the task to the ledger inside Postgres: the driver knows them by a digest.
"""

from dataclasses import dataclass, field
from hashlib import sha256

import pyarrow as pa

from platform_defs.formats.blocks.arrow import kernels as pc

Spans = tuple[pa.Int64Array, pa.Int64Array]  # starts (included) and ends (excluded), of as many spans


def ascend(offsets: pa.Int64Array) -> bool:
    """Return True if each is greater than the one before it."""
    return not pc.any(pc.less_equal(offsets.slice(1), offsets.slice(0, len(offsets) - 1))).as_py()


@dataclass
class Gaps:
    """Spans of offsets, in order, that do not touch."""

    parts: list[Spans] = field(default_factory=list[Spans])

    def add(self, start: int, until: int) -> None:
        self.parts.append((pa.array([start], pa.int64()), pa.array([until], pa.int64())))

    def add_between(self, offsets: pa.Int64Array) -> None:
        """Add the gaps between offsets, which ascend."""
        before, after = offsets.slice(0, len(offsets) - 1), offsets.slice(1)
        apart = pc.greater(pc.subtract(after, before), 1)
        if pc.any(apart).as_py():
            self.parts.append((pc.add(before.filter(apart), 1), after.filter(apart)))

    @property
    def text(self) -> str:
        """The gaps as Postgres writes an int8multirange: {[3,5),[7,8)}."""
        spans = list[str]()
        for part in self.parts:
            starts, ends = (column.cast(pa.string()) for column in part)
            spans += pc.binary_join_element_wise("[", starts, ",", ends, ")", "").to_pylist()
        return f"{{{','.join(spans)}}}"

    @property
    def digest(self) -> str:
        """A digest that is the same for the same spans; empty without any."""
        return sha256(self.text.encode()).hexdigest() if self.parts else ""
