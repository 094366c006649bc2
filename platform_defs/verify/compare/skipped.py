"""Messages of records that the contract skips: compared with the ledger's count of each committed range."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from platform_defs.verify.compare.report import Findings
from platform_defs.verify.source.partitions import CountedRange
from platform_defs.verify.source.spans import format_span


@dataclass
class SkippedRecords:
    """The counts of one partition's messages, to compare with the ledger's ranges, which ascend."""

    ranges: Sequence[CountedRange]
    _messages: Any = field(init=False)  # numpy arrays of int64, one number per range
    _skipped: Any = field(init=False)

    def __post_init__(self) -> None:
        self._starts = np.array([item.start for item in self.ranges], np.int64)
        self._untils = np.array([item.until for item in self.ranges], np.int64)
        self._messages, self._skipped = np.zeros((2, len(self.ranges)), np.int64)

    def add(self, offsets: Sequence[int], skipped: Sequence[int]) -> None:
        """Add the offsets of validated messages, and of those among them that are of another record."""
        self._count(offsets, self._messages)
        self._count(skipped, self._skipped)

    def _count(self, offsets: Sequence[int], into: Any) -> None:
        at = np.asarray(offsets, np.int64)
        place = np.searchsorted(self._starts, at, side="right") - 1
        within = (place >= 0) & (at < self._untils[place]) if len(self.ranges) else np.zeros(len(at), np.bool_)
        into += np.bincount(place[within], minlength=len(self.ranges))

    def compare(self, partition: int, findings: Findings) -> None:
        """Report ranges with another count in the ledger. A range with missing messages cannot be compared."""
        for item, messages, skipped in zip(self.ranges, self._messages.tolist(), self._skipped.tolist(), strict=True):
            if messages == item.messages and skipped != item.skipped_records:
                place = format_span(partition, (item.start, item.until))
                says = f"{skipped} of its messages are other records, but the ledger counts {item.skipped_records}"
                what = f"{place}: {says} as skipped"
                findings.bad("wrong", what, partition, item.start, abs(skipped - item.skipped_records))
