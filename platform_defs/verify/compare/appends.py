"""Comparison of an append table with its topic, chunk by chunk: the expected and the actual result of each offset."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from platform_defs.errors.words import noun_for, plural
from platform_defs.verify.compare.accumulates import Accumulated
from platform_defs.verify.compare.chunk_validator import ChunkValidator
from platform_defs.verify.compare.dead_letters import (
    LATE,
    OTHER_BYTES,
    DeadLetters,
    needless,
    no_dead_letter,
    report_strays,
    settled_in,
    several,
    skipped_in,
)
from platform_defs.verify.compare.differences import Difference, differences, offsets_of, places_of
from platform_defs.verify.compare.expected import Expected
from platform_defs.verify.compare.report import Findings
from platform_defs.verify.compare.skipped import SkippedRecords
from platform_defs.verify.source.arrow_rows import Ordered
from platform_defs.verify.source.messages import Chunk, Topic
from platform_defs.verify.source.partitions import DeadLetter, Partition, Pinned
from platform_defs.verify.source.spans import Offsets, Span, format_span, less, missing, size, within
from platform_defs.verify.validators.validator import NoRow

STEP = 100_000  # offsets checked together if the topic no longer has messages

Step: TypeAlias = Callable[[], int | None]  # reports faults; returns the number of messages compared, if any


@dataclass(frozen=True)
class VersionValidation:
    """The validation of messages by one contract version, and their expected rows."""

    validator: ChunkValidator
    expected: Expected
    doubt: str = ""  # appended to each difference: another possible cause

    @property
    def columns(self) -> list[str]:
        """The columns of the row table that the contract has, by their current names."""
        return [name for name in self.expected.schema.names if name not in ("_partition", "_offset")]


@dataclass(frozen=True)
class _Made:
    """The expected results of a chunk's messages."""

    others: dict[int, NoRow]  # by offset, the reason why a message has no row
    settled: set[int]  # offsets whose dead letters were resolved and pruned
    good: int  # valid messages, before the transform
    not_made: Offsets  # of messages whose rows can no longer be made
    want: pa.Table


@dataclass(frozen=True)
class _Chunk:
    """A chunk's messages with their expected and actual results."""

    part: Partition
    version: VersionValidation
    messages: Chunk
    dead: dict[int, list[DeadLetter]]
    made: _Made
    found: dict[int, Difference]
    wanted: Offsets  # ascending, those with a row after the transform
    places: dict[int, int]  # of messages compared one by one, by offset

    def is_wanted(self, offset: int) -> bool:
        return bool(places_of(self.wanted, [offset]))


@dataclass
class AppendComparison:
    """The comparison of the topic and the tables, read in parallel."""

    version: Callable[[Pinned], VersionValidation]
    rows: Ordered
    dead: DeadLetters
    accumulated: list[Accumulated]
    findings: Findings
    one_row_each: bool  # without a transform every message is exactly one row

    def steps(self, part: Partition, topic: Topic, chunk: int, low: int, threads: Executor) -> Iterator[Step]:
        """Yield the steps that compare one partition, to be run in order, partition after partition. A step's
        preparation starts on `threads` when the step is taken.

        `chunk` is the number of messages compared at once, `low` the first offset that the broker still has.
        """
        yield self.strays(part.number, part.start)
        first = min(max(part.start, low), part.next)
        for start in range(part.start, first, STEP):
            until = min(start + STEP, first)
            yield partial(self._deleted, part, start, until, self.dead.before(part.number, until))
        skipped = SkippedRecords(part.counted)
        for start, until, pinned in part.by_contract(first, part.next):
            version = self.version(pinned)
            for read in topic.chunks(part.number, start, until, chunk):
                messages = read.without(part.skips)
                dead = self.dead.before(part.number, messages.until_offset)
                made = threads.submit(_made, version, messages, dead, settled_in(part, messages, dead))
                yield partial(self._chunk, part, version, messages, dead, made, skipped)
        yield partial(skipped.compare, part.number, self.findings)

    def strays(self, partition: int, offset: int) -> Step:
        """Return a step that reports rows and dead letters below a place that were not read: they are outside every
        partition's [start, next).
        """
        return partial(self._strays, partition, offset, self.dead.before(partition, offset))

    def _strays(self, partition: int, offset: int, dead: dict[int, list[DeadLetter]]) -> None:
        rows = self.rows.before(partition, offset)
        for number, where in zip(rows["_partition"].to_pylist(), rows["_offset"].to_pylist(), strict=True):
            self.findings.bad("duplicated", "a row outside the offsets recorded as read in the ledger", number, where)
        report_strays(dead, self.findings)

    def _chunk(
        self,
        part: Partition,
        version: VersionValidation,
        messages: Chunk,
        dead: dict[int, list[DeadLetter]],
        making: "Future[_Made]",
        skipped: SkippedRecords,
    ) -> int:
        have, made = self.rows.before(part.number, messages.until_offset), making.result()
        want, compared = made.want, have
        if len(made.not_made):
            self.findings.count("unverifiable", len(made.not_made))
            compared = have.filter(pa.array(~np.isin(offsets_of(have), made.not_made)))
        for table in self.accumulated:
            table.add(want if compared is have and table.reads <= {*version.columns} else have)
        self._retyped(part, version, have)
        found = differences(want, compared.select(want.schema.names))
        places = places_of(np.array(messages.offsets, np.int64), sorted({*dead, *made.others, *found}))
        chunk = _Chunk(
            part=part,
            version=version,
            messages=messages,
            dead=dead,
            made=made,
            found=found,
            wanted=np.unique(offsets_of(want)),
            places=places,
        )
        self._count(chunk, want)
        self.findings.partly(version.expected.not_compared, len(chunk.wanted))
        skipped.add(messages.offsets, skipped_in(made.others, dead))
        for offset in chunk.found:
            self._differs(chunk, offset)
        self.findings.count("unverifiable", len(made.settled))
        for offset in sorted({*dead, *made.others} - made.settled):
            self._dead_letter(chunk, offset)
        gaps = missing(messages.offsets, messages.from_offset, messages.until_offset)
        self._undelivered(part, gaps, have, dead)
        return len(messages)

    def _retyped(self, part: Partition, version: VersionValidation, have: pa.Table) -> None:
        """Report columns whose type is no longer the one of the messages' contract version."""
        if have.num_rows and version.expected.retyped:
            what = f"{version.expected.retyped}, and the rows were not rebuilt (tidegate replay rebuilds them)"
            self.findings.bad("wrong", what, part.number, int(offsets_of(have)[0]), have.num_rows)

    def _count(self, chunk: _Chunk, want: pa.Table) -> None:
        self.findings.count("messages", len(chunk.messages))
        self.findings.count("rows", want.num_rows - sum(len(gone) for gone, _ in chunk.found.values()))
        skipped = sum(row.skipped for row in chunk.made.others.values())
        self.findings.count("filtered", chunk.made.good - len(chunk.wanted) + skipped)

    def _differs(self, chunk: _Chunk, offset: int) -> None:
        """Report the difference between an offset's rows and the expected ones."""

        def bad(kind: str, what: str) -> None:
            self.findings.bad(kind, f"{what}{chunk.version.doubt}", chunk.part.number, offset)

        gone, extra = chunk.found[offset]
        row, letters = chunk.made.others.get(offset), chunk.dead.get(offset, [])
        if offset not in chunk.places:
            return  # the broker does not deliver the offset: _undelivered reports it
        if row is not None:
            bad("wrong", f"the message is not valid ({row.reason}), but the table has a row for it")
        elif (letters or offset in chunk.made.settled) and extra:
            bad("duplicated", "the message has both a row and a dead letter")
        elif letters and not any(letter.stage in LATE for letter in letters):
            bad("wrong", needless(letters[0]))
        elif letters:
            return  # refused after decoding, and without rows: as it should be
        elif gone and extra:
            unlike = self.findings.unlike(self.findings.row_table, chunk.version.columns, extra[0], gone[0])
            bad("wrong", f"the row differs from the message: {unlike}")
        elif gone:
            rows = f"{plural(len(gone), 'row')} of the message {noun_for(len(gone), 'is', 'are')}"
            bad("lost", f"{rows} missing from the table")
        elif chunk.is_wanted(offset):
            bad("duplicated", f"the table has {plural(len(extra), 'row')} too many for the message")
        else:
            bad("wrong", "the transform filters the message out, but the table has a row for it")

    def _dead_letter(self, chunk: _Chunk, offset: int) -> None:
        """Report a missing, wrong or superfluous dead letter; `_differs` reports the offset's rows."""
        bad = partial(self.findings.bad, partition=chunk.part.number, offset=offset)
        row, letters, differs = chunk.made.others.get(offset), chunk.dead.get(offset, []), offset in chunk.found
        if offset not in chunk.places:
            return  # the broker does not deliver the offset: _undelivered reports it
        if not letters and row is not None:
            if not differs and not row.skipped:
                bad("lost", no_dead_letter(row.reason))
        elif len(letters) > 1:
            bad("duplicated", several(letters))
        elif letters[0].value != chunk.messages.values[chunk.places[offset]]:
            bad("wrong", OTHER_BYTES)
        elif (row is not None and not row.skipped) or letters[0].stage in LATE:
            self.findings.count("dead_letters")
        elif not differs and chunk.is_wanted(offset):
            bad("duplicated", "the message has both a row and a dead letter")
        elif not differs:
            bad("wrong", needless(letters[0]))

    def _undelivered(
        self, part: Partition, spans: list[Span], rows: pa.Table, dead: dict[int, list[DeadLetter]]
    ) -> None:
        """Report offsets that the broker does not deliver as lost unless the ledger records a gap or a skip; those with
        a row or a dead letter are unverifiable.
        """
        undeclared = self._undeclared(part, spans)
        there: Any = _with_dead(rows, dead) if undeclared else None
        for low, high in undeclared:
            kept = int(np.count_nonzero((low <= there) & (there < high)))
            self.findings.count("unverifiable", kept)
            if kept < high - low:
                what = f"{format_span(part.number, (low, high))}: the topic has no message here, the tables have no row"
                self.findings.bad("lost", f"{what}, and the ledger records no gap", part.number, low, high - low - kept)

    def _deleted(self, part: Partition, start: int, until: int, dead: dict[int, list[DeadLetter]]) -> None:
        """Check offsets that retention removed: each must have left a row, but the row can no longer be verified."""
        have = self.rows.before(part.number, until)
        for table in self.accumulated:
            table.add(have)
        due = self._undeclared(part, [(start, until)])
        lost: list[Span] = []
        if self.one_row_each:
            there = missing(_with_dead(have, dead), start, until)
            lost = less(
                [span for low, high in due for span in within(there, low, high)], part.settled.within(start, until)
            )
            extra = have.num_rows - len(np.unique(offsets_of(have)))
            if extra:
                what = f"{format_span(part.number, (start, until))} has {plural(extra, 'row')} too many"
                self.findings.bad("duplicated", what, part.number, start, extra)
        for span in lost:
            what = f"{format_span(part.number, span)} has neither rows nor dead letters"
            self.findings.bad("lost", what, part.number, span[0], size([span]))
        self.findings.count("unverifiable", size(due) - size(lost))

    def _undeclared(self, part: Partition, spans: list[Span]) -> list[Span]:
        """Return the parts of ascending spans that the ledger records neither as a gap nor as skipped; count
        the rest.
        """
        left, gaps, skipped = part.undeclared(spans)
        self.findings.count("gaps", gaps)
        self.findings.count("skipped", skipped)
        return left


def _made(
    version: VersionValidation, messages: Chunk, dead: Mapping[int, list[DeadLetter]], settled: set[int]
) -> _Made:
    """Return the expected results of messages, except of those that may be refused after decoding."""
    validated, offsets = version.validator.validate(messages), np.array(messages.offsets, np.int64)
    rows, good = validated.rows, offsets[validated.places]
    late = [offset for offset, letters in dead.items() if any(letter.stage in LATE for letter in letters)]
    late += settled
    if late:
        kept = ~np.isin(good, late)
        rows, good = rows.filter(pa.array(kept)), good[kept]
    others = {messages.offsets[place]: row for place, row in validated.others.items()}
    want, not_made = version.expected.rows(messages.partition, good, rows)
    return _Made(others, settled, len(good) - len(not_made), not_made, want)


def _with_dead(rows: pa.Table, dead: Mapping[int, object]) -> Offsets:
    """Return the offsets of rows and of dead letters, distinct, ascending."""
    return np.union1d(offsets_of(rows), np.array([*dead], np.int64))
