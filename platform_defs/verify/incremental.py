"""`tidegate verify --new`: verification of new batches since the last check, in windows of whole batches.

Each window has a snapshot of its own, so that none is open for hours. If it is exact, it moves the checkpoint in the
ledger: the next check starts there. The coverage of a window:

    the ledger    its batches and skips cover each partition without a hole, and once
    append        each message of its offsets has the expected rows in its batches; dead letters by offset
    upsert        the row of each key in it is from the newest message, or from a later batch. A missing row may have
                  been deleted by a batch after the window: its key waits for that batch's window
    accumulate    its minima and maxima are no worse than those of the window's rows; at the end of a check, its sums
                  are those at the checkpoint plus those of the rows since (sums.py)

A later change to a row of an older batch is not detected: only `verify` reads it again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import psycopg
import pyarrow as pa

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.postgres.connection import queries
from platform_defs.verify.compare import sums
from platform_defs.verify.compare.newest import Newest
from platform_defs.verify.compare.report import Findings, New, Report
from platform_defs.verify.compare.upserts import UpsertComparison
from platform_defs.verify.source.ledger import Checkpoint, move_checkpoint, read_basis, read_checkpoint, record_check
from platform_defs.verify.source.snapshot import Snapshot, take_snapshot
from platform_defs.verify.source.windows import FOREVER, Window, next_window, why_void
from platform_defs.verify.verify import Progress, open_topic, start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from platform_defs.stack.endpoints import Endpoints

WINDOW = 1_000_000  # messages of a window, or one batch: a snapshot is open for about as long as these take
BATCHES = 10_000  # of a window: the batches of a slow topic are small
KEYS = 20_000  # per query
MAX_WAITING = 100_000  # keys
BUDGET = 7_200.0  # seconds after which no further window is started; the next check continues


def verify_new(
    pipeline: Pipeline,
    endpoints: "Endpoints",
    spark: "Callable[[], SparkSession] | None" = None,
    progress: Progress | None = None,
    *,
    window: int = WINDOW,
    seconds: float = BUDGET,
) -> Report:
    """Compare new batches since the checkpoint, and move it as far as everything is exact.

    Some changes void the checkpoint (windows.why_void): the check then starts at the first message. Raises what
    `verify` raises.
    """
    started = time.monotonic()
    check = _Check(pipeline, endpoints, spark or start_spark, progress or (lambda _done, _total: None), window)
    while check.window(late=time.monotonic() - started > seconds):
        pass
    scope = New(
        after_batch=check.began,
        until_batch=check.reached.batch_id,
        snapshots=check.snapshots,
        left=check.left,
        began_again=check.began_again,
        hint=check.hint,
    )
    report = check.findings.report(time.monotonic() - started, "", scope)
    if check.snapshots:
        record_check(endpoints.postgres_url, pipeline.name, passed=report.ok, explanation=report.explanation)
    return report


@dataclass
class _Check:
    """The state of a check from window to window."""

    pipeline: Pipeline
    endpoints: "Endpoints"
    spark: "Callable[[], SparkSession]"
    progress: Progress
    most: int
    findings: Findings = field(init=False)
    snapshots: int = 0
    began: int = 0  # the batch after which it started
    began_again: str = ""
    reached: Checkpoint = field(default_factory=Checkpoint)  # as in the ledger, or later while keys wait
    waiting: dict[str, Newest] = field(default_factory=dict[str, Newest])
    left: int = 0
    open_plan: int = FOREVER  # the pending batch; all batches of lower ids are committed
    hint: str = ""

    def __post_init__(self) -> None:
        self.findings = Findings.of(self.pipeline.contract)

    def window(self, *, late: bool) -> bool:
        """Compare the next window. Return True if there is another. `late`: the time is used up, so this is the last
        one.
        """
        with take_snapshot(self.endpoints.postgres_url, self.pipeline.contract, self._choose) as snapshot:
            if not snapshot.partitions:
                return False
            self._compare(snapshot)
            if self.findings.ok:
                sums.compare_extremes(snapshot, self.findings)
            found, ends = self._found(snapshot), late or snapshot.window.last
            if ends and self.findings.ok:
                sums.compare(snapshot, found.sums, self.findings)
            exact = self.findings.ok
            self.left = snapshot.left_after(found.batch_id if exact else self.reached.batch_id)
            self.hint = self._hint(snapshot)
        return exact and self._move(found, ends=ends) and not ends

    def _choose(self, connection: psycopg.Connection[Any]) -> Window:
        """Return the window after the compared batches; from the first batch if the checkpoint is void."""
        name = self.pipeline.name
        at = self.reached if self.snapshots else read_checkpoint(connection, name)
        asked = {"pipeline": name, "after": at.batch_id, "most": BATCHES}
        positions = connection.execute(queries()["verify_positions"], asked).fetchall()
        basis = read_basis(connection, name)
        why = why_void(at, basis, {number: next_offset for number, *_, next_offset in positions})
        if at.batch_id == 0 or why:
            at = Checkpoint(at.moves, basis=basis)
            self.findings, self.waiting = Findings.of(self.pipeline.contract), {}
            self.began_again = why if at.moves and why else ""
        if not self.snapshots or why:
            self.began = at.batch_id
        self.reached, self.snapshots = at, self.snapshots + 1
        (self.open_plan,) = connection.execute(queries()["verify_open_plan"], asked).fetchone() or (FOREVER,)
        (pruned,) = connection.execute(queries()["verify_pruned"], asked).fetchone() or (0,)
        later = {**asked, "after": max(at.batch_id, pruned)}
        batches = [(batch, messages) for batch, messages in connection.execute(queries()["verify_batches"], later)]
        return next_window(at, batches, self.most, more=len(batches) == BATCHES, pruned=pruned)

    def _compare(self, snapshot: Snapshot) -> None:
        done = self.findings.counts.get("messages", 0)
        left = snapshot.left_after(snapshot.window.after)

        def progress(now: int, _: int) -> None:
            self.progress(done + now, done + left)

        with open_topic(snapshot, self.endpoints, self.pipeline, self.findings, progress) as compared:
            table = snapshot.contract.row_table
            if table.disposition == "upsert":
                keys = TouchedKeys(compared.keys(), snapshot.window, self.waiting, self.findings)
                keys.compare(lambda some: snapshot.rows_of_keys(table, some))
            else:
                compared.rows(self.pipeline, self.spark)

    def _found(self, snapshot: Snapshot) -> Checkpoint:
        """Return the checkpoint after the window, if it is exact."""
        offsets = {part.number: part.next for part in snapshot.partitions.values()}
        total = sums.added(self.reached.sums, sums.of_rows(snapshot, snapshot.of_batches()))
        return replace(self.reached, batch_id=snapshot.window.until, offsets=offsets, sums=total)

    def _move(self, found: Checkpoint, *, ends: bool) -> bool:
        """Move the checkpoint, once no key waits for a later batch. Return True if the check may continue."""
        if self.waiting and (ends or len(self.waiting) > MAX_WAITING):
            self.findings.count("unverifiable", len(self.waiting))
            self.waiting.clear()
        if self.waiting or found == self.reached:
            self.reached = found
            return True
        if found.batch_id >= self.open_plan:
            self.hint = "A batch was being published range by range, so the checkpoint stays before it"
            return False
        if not move_checkpoint(self.endpoints.postgres_url, self.pipeline.name, found):
            self.hint = "Another check moved the checkpoint in the meantime, so this one stopped"
            return False
        self.reached = replace(found, moves=found.moves + 1)
        return True

    def _hint(self, snapshot: Snapshot) -> str:
        """Return how to speed up finding an append table's new rows; empty if it has an index on _batch_id."""
        table = snapshot.contract.row_table
        if table.disposition != "append" or snapshot.indexed_by_batch(table):
            return ""
        return (
            f"{table.name} has no index on _batch_id, so each check reads the whole table. To speed checks up: "
            f"CREATE INDEX CONCURRENTLY ON {table.name} USING brin (_batch_id) WITH (autosummarize = on, "
            "pages_per_range = 1024)"
        )


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
