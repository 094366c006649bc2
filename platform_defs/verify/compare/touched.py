"""An upsert's rows for the keys in one window: each is from the newest message, or from a later batch.

A missing row may have been deleted by a batch after the window: its key waits for that batch's window.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from platform_defs.verify.compare.newest import Newest
from platform_defs.verify.compare.report import Findings
from platform_defs.verify.compare.upserts import UpsertComparison
from platform_defs.verify.source.windows import Window

KEYS = 20_000  # per query
MAX_WAITING = 100_000  # keys


@dataclass(frozen=True)
class TouchedKeys:
    """The comparison of one window's keys. `waiting`: the keys of earlier windows without a row, which a later message
    may have deleted, and their newest message. Keys that still wait after a window are added.
    """

    comparison: UpsertComparison
    window: Window
    waiting: dict[str, Newest]
    findings: Findings

    def compare(self, rows: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]) -> None:
        """Compare the keys' rows. `rows` returns the table's rows for some keys: its columns, _key, _partition,
        _offset, _batch_id.
        """
        newest = self.comparison.newest
        for key in newest:
            self.waiting.pop(key, None)
        keys = [*newest]
        for start in range(0, len(keys), KEYS):
            for batch in rows(keys[start : start + KEYS]):
                self._rows(batch)
        for key, wanted in newest.items():
            if wanted.row is not None:
                self.waiting[key] = Newest(wanted.partition, wanted.offset, None)
        if self.window.last:
            for key, wanted in self.waiting.items():
                what = f"the table has no row for key {self.findings.key(key)}"
                self.findings.bad("lost", what, wanted.partition, wanted.offset)
            self.waiting.clear()

    def _rows(self, batch: pa.RecordBatch) -> None:
        rows = pa.Table.from_batches([batch])
        batches: Any = rows["_batch_id"].to_numpy()
        newer: Any = (batches > self.window.until) & (not self.window.last)
        here: Any = (batches > self.window.after) & ~newer
        self.comparison.compare(rows.filter(cast("Any", pa.array(here))))
        for place in np.flatnonzero(~here).tolist():
            key, batch_id = rows["_key"][place].as_py(), int(batches[place])
            wanted = self.comparison.newest.pop(key)
            self.comparison.elsewhere.pop(key, None)
            if not newer[place]:
                row = f"the row of key {self.findings.key(key)}"
                what = f"{row} is still the one from batch {batch_id}; a newer message was lost"
                self.findings.bad("lost", what, wanted.partition, wanted.offset)
