"""Comparison of an upsert table with its compacted topic: each row must match the newest valid message of its key."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from platform_defs.verify.compare.appends import Step
from platform_defs.verify.compare.dead_letters import (
    LATE,
    OTHER_BYTES,
    DeadLetters,
    needless,
    no_dead_letter,
    report_strays,
    settled_in,
    several,
)
from platform_defs.verify.compare.differences import places_of, python_values
from platform_defs.verify.compare.keyed import Keyed, KeyedValidator
from platform_defs.verify.compare.newest import NOT_COMPARED, Newest, equal_rows, without_waste
from platform_defs.verify.compare.report import Findings
from platform_defs.verify.compare.skipped import SkippedRecords
from platform_defs.verify.source.contract_versions import ContractVersions
from platform_defs.verify.source.messages import Chunk, Topic
from platform_defs.verify.source.partitions import DeadLetter, Partition, Pinned
from platform_defs.verify.source.spans import Span, missing, size
from platform_defs.verify.validators.validator import NoRow, Row

_WASTE = 500_000  # replaced rows still in memory, beyond the number of keys


@dataclass
class UpsertComparison:
    """The comparison of an upsert table. The topic's keys must fit into memory, its messages need not."""

    versions: ContractVersions
    validators: Callable[[Pinned], KeyedValidator]
    dead: DeadLetters
    findings: Findings
    newest: dict[str, Newest] = field(default_factory=dict[str, Newest])
    elsewhere: dict[str, list[Newest]] = field(default_factory=dict[str, list[Newest]])  # keys that changed partition
    gone: dict[int, list[Span]] = field(default_factory=dict[int, list[Span]])  # not delivered by the broker
    known: dict[int, Partition] = field(default_factory=dict[int, Partition])
    _held: int = 0  # rows in blocks

    def __post_init__(self) -> None:
        self.names = [name for name, _ in self.versions.columns]

    def steps(self, part: Partition, topic: Topic, chunk: int, low: int, threads: Executor) -> Iterator[Step]:
        """Yield the steps that read one partition, as AppendComparison.steps."""
        self.known[part.number] = part
        yield self.strays(part.number, part.start)
        first = min(max(part.start, low), part.next)
        if first > part.start:
            self.dead.before(part.number, first)
            yield partial(self._undelivered, part, [(part.start, first)])
        skipped = SkippedRecords(part.counted)
        for start, until, pinned in part.by_contract(first, part.next):
            validator = self.validators(pinned)
            for read in topic.chunks(part.number, start, until, chunk):
                messages = read.without(part.skips)
                dead = self.dead.before(part.number, messages.until_offset)
                settled = settled_in(part, messages, dead)
                validating = threads.submit(validator.validate, messages, {*dead, *settled})
                yield partial(self._chunk, part, messages, dead, settled, validating, skipped)
        yield partial(skipped.compare, part.number, self.findings)

    def strays(self, partition: int, offset: int) -> Step:
        """Return a step that reports dead letters below a place that were not read: outside every partition's [start,
        next).
        """
        return partial(report_strays, self.dead.before(partition, offset), self.findings)

    def _chunk(
        self,
        part: Partition,
        messages: Chunk,
        dead: dict[int, list[DeadLetter]],
        settled: set[int],
        validating: "Future[Keyed]",
        skipped: SkippedRecords,
    ) -> int:
        self.findings.count("messages", len(messages))
        self.findings.count("unverifiable", len(settled))
        keyed, places = validating.result(), places_of(np.array(messages.offsets, np.int64), sorted(dead))
        with_dead_letter = set(places.values())
        for place in sorted(with_dead_letter.union(keyed.others)):
            if (offset := messages.offsets[place]) in settled:
                continue
            self._dead_letter(part, offset, messages.values[place], keyed.others.get(place), dead.get(offset, []))
        others = [messages.offsets[n] for n, row in keyed.others.items() if row.skipped and n not in with_dead_letter]
        skipped.add(messages.offsets, sorted(others))
        for key, found in keyed.newest:
            before = self.newest.get(key)
            if before is not None and before.partition != found.partition:
                self.elsewhere.setdefault(key, []).append(before)
            self.newest[key] = found
        self._held += keyed.rows
        if self._held > 2 * len(self.newest) + _WASTE:
            self._held = without_waste(chain(self.newest.values(), *self.elsewhere.values()))
        self._undelivered(part, missing(messages.offsets, messages.from_offset, messages.until_offset))
        return len(messages)

    def _dead_letter(
        self, part: Partition, offset: int, value: bytes | None, row: NoRow | None, letters: list[DeadLetter]
    ) -> None:
        """Report faults of a message that has, or should have, a dead letter; `row` is the reason why it has no row."""
        bad = partial(self.findings.bad, partition=part.number, offset=offset)
        skipped = row is not None and row.skipped
        if not letters and skipped:
            self.findings.count("filtered")
        elif not letters:
            bad("lost", no_dead_letter(row.reason if row else ""))
        elif len(letters) > 1:
            bad("duplicated", several(letters))
        elif (skipped or row is None) and letters[0].stage not in LATE:
            bad("wrong", needless(letters[0]))
        elif letters[0].value != value:
            bad("wrong", OTHER_BYTES)
        else:
            self.findings.count("dead_letters")

    def _undelivered(self, part: Partition, spans: list[Span]) -> None:
        left, gaps, skipped = part.undeclared(spans)
        self.findings.count("gaps", gaps)
        self.findings.count("skipped", skipped)
        self.findings.count("compacted", size(left))
        self.gone.setdefault(part.number, []).extend(left)

    def table(self, batches: Iterator[pa.Table]) -> None:
        """Compare the table's rows (contract columns, _key, _partition, _offset) with the topic."""
        for batch in batches:
            self.compare(batch)
        for key, wanted in self.newest.items():
            if wanted.row is not None:
                what = f"the table has no row for key {self.findings.key(key)}"
                self.findings.bad("lost", what, wanted.partition, wanted.offset)

    def compare(self, rows: pa.Table) -> None:
        """Compare some rows of the table with the newest messages of their keys, which are then consumed: equal ones in
        columns, and only the others one by one.
        """
        own: Any = [rows[name].to_pylist() for name in ("_key", "_partition", "_offset")]
        keys, partitions, offsets = own
        wanted = [None if key in self.elsewhere else self.newest.get(key) for key in keys]
        equal = equal_rows(rows.select(self.names), partitions, offsets, wanted)
        self.findings.count("rows", int(np.count_nonzero(equal)))
        for place in np.flatnonzero(equal).tolist():
            if self.newest.pop(keys[place], None) is None:  # the key was seen before
                equal[place] = False
                self.findings.count("rows", -1)
        others = np.flatnonzero(~equal)
        columns = [python_values(rows[name].take(others)) for name in self.names]
        for place, *row in zip(others.tolist(), *columns, strict=True):
            self.row(keys[place], Newest(partitions[place], offsets[place], tuple(row)))

    def row(self, key: str, have: Newest) -> None:
        """Compare the table's row of a key with its newest messages, which are then consumed."""
        wanted = self.newest.pop(key, None)
        candidates = [item for item in (wanted, *self.elsewhere.pop(key, ())) if item is not None]
        found = next((item for item in candidates if item == have), None)
        if found is not None:
            self.findings.count("rows")
            values = zip(self.names, found.row or (), strict=False)
            self.findings.partly([name for name, value in values if value is NOT_COMPARED])
        else:
            self._differs(key, have, next((item for item in candidates if item.partition == have.partition), None))

    def _differs(self, key: str, have: Newest, newer: Newest | None) -> None:
        """Report the difference of a key's row from all of its newest messages; `newer` is the one in its partition."""
        bad = partial(self.findings.bad, partition=have.partition, offset=have.offset)
        part, row = self.known.get(have.partition), f"the row of key {self.findings.key(key)}"
        if part is None or not part.start <= have.offset < part.next:
            bad("duplicated", f"{row} comes from outside the offsets recorded as read in the ledger")
        elif newer and newer.offset == have.offset:
            bad("wrong", f"{row} {self._unlike(have.row, newer.row)}")
        elif newer and newer.offset > have.offset:
            what = f"{row} is still the one from offset {have.offset}; a newer message was lost"
            self.findings.bad("lost", what, newer.partition, newer.offset)
        elif self._is_gone(have.partition, have.offset):
            self.findings.count("unverifiable")  # compaction removed its message, and there is no newer one
        else:
            bad("wrong", f"{row} does not come from any message with this key")

    def _unlike(self, have: Row | None, wanted: Row | None) -> str:
        if have is None or wanted is None:
            return "should have been deleted: its newest message is a tombstone"
        return f"differs from the message: {self.findings.unlike(self.findings.row_table, self.names, have, wanted)}"

    def _is_gone(self, partition: int, offset: int) -> bool:
        spans = self.gone.get(partition, [])
        place = bisect_right(spans, (offset, 2**62)) - 1
        return place >= 0 and spans[place][0] <= offset < spans[place][1]
