"""Decodes a block of Kafka message values into rows: whole blocks at once if possible, single messages otherwise.

The result never depends on the path that a message took: the single reader (`single.py`) defines what is a row. The
block reader (`lines.py`) is only faster; whatever it does not read, or doubts, goes to the single reader.
"""

from functools import cached_property

import pyarrow as pa

from platform_defs.contract.model.contract import Contract
from platform_defs.formats.blocks.arrow import counted, integers, places
from platform_defs.formats.blocks.arrow import kernels as pc
from platform_defs.formats.blocks.decoded import Decoded, Rows
from platform_defs.formats.json.lines import Lines, line_mask, read_lines
from platform_defs.formats.json.read_plan import ReadPlan
from platform_defs.formats.json.single import MessageReader
from platform_defs.formats.json.suspects import suspects

_FEW = 128  # messages that are read at once when a larger block has failed


def decode(contract: Contract, values: pa.BinaryArray) -> Decoded:
    """Return the rows and faults of bare JSON. Pure; never raises for the content of a message.

    A missing or null field is null in `rows`. A null value (tombstone) is a fault: an upsert pipeline removes
    tombstones first.
    """
    block = _Block(contract, values)
    if not block.read_whole(counted(len(values))):
        block.read_in_parts()
    return block.decoded()


class _Block:
    """A block that is being read: positions are passed to the methods, each once."""

    def __init__(self, contract: Contract, values: pa.BinaryArray) -> None:
        self._contract, self._values, self._found = contract, values, Rows(contract)
        self._plan = ReadPlan(contract)
        self.decoded = self._found.decoded

    @cached_property
    def _reader(self) -> MessageReader:
        return MessageReader(self._contract)

    def read_whole(self, positions: pa.Int64Array) -> bool:
        """Read these messages at once. Return False, and change nothing, if that is not possible."""
        if not len(positions):
            return True
        values = self._values if len(positions) == len(self._values) else self._values.take(positions)
        lines = None if values.null_count else read_lines(self._plan, values)
        if lines:
            self._take(lines, positions)
        return lines is not None

    def read_in_parts(self) -> None:
        """Read the probable faults apart, and the other messages at once, or in small parts if that fails."""
        mask = line_mask(self._values)
        lines = places(mask)
        if len(lines) < len(self._values):
            self._read_one_by_one(places(pc.invert(mask)))
            if self.read_whole(lines):  # the others were all that was in the way
                return
        doubt = suspects(self._contract, self._values.take(lines))
        aside: pa.Int64Array = pc.filter(lines, doubt)
        others: pa.Int64Array = pc.filter(lines, pc.invert(doubt))
        if not self.read_whole(others):
            self._read_few_by_few(others)
        if len(aside) > len(lines) // 2:  # these look alike: more likely an odd producer than so many faults
            self._read_few_by_few(aside)
        else:
            self._read_one_by_one(aside)

    def _read_few_by_few(self, positions: pa.Int64Array) -> None:
        """Read small parts at once; a part that fails, one by one."""
        for start in range(0, len(positions), _FEW):
            few = positions[start : start + _FEW]
            if not self.read_whole(few):
                self._read_one_by_one(few)

    def _read_one_by_one(self, positions: pa.Int64Array) -> None:
        """Read each message alone, in the order given."""
        self._found.add_alone((at, self._reader.read(self._values[at].as_py())) for at in integers(positions))

    def _take(self, lines: Lines, positions: pa.Int64Array) -> None:
        """Add the rows that are beyond doubt; read the others one by one."""
        rows, unknown = lines.rows, lines.unknown
        if lines.doubtful is not None:
            self._read_one_by_one(pc.filter(positions, lines.doubtful))
            keep = pc.invert(lines.doubtful)
            rows, positions = rows.filter(keep), pc.filter(positions, keep)
            unknown = None if unknown is None else pc.filter(unknown, keep)
        self._found.add(rows, positions, unknown.true_count if unknown is not None else 0)
