"""An append table against its topic, chunk by chunk: what each offset must have become, and what it became."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from platform_defs.verification.accumulates import Accumulated
from platform_defs.verification.expected import Difference, Expected, NotMade, differences
from platform_defs.verification.judge import Judge, NoRow, Row
from platform_defs.verification.messages import Chunk, Topic
from platform_defs.verification.ordered import Ordered
from platform_defs.verification.pins import Pinned
from platform_defs.verification.report import Findings
from platform_defs.verification.skipped import SkippedRecords
from platform_defs.verification.snapshot import DeadLetter, Partition
from platform_defs.verification.spans import Span, less, missing, size, spelt, within
from platform_defs.words import noun_for, plural

LATE = ("transform", "publish")  # stages that may refuse a message which can be decoded
STEP = 100_000  # offsets judged together where the topic holds no messages


@dataclass
class DeadLetters:
    """Dead letters ordered by (partition, offset), handed out once, up to a place."""

    letters: Iterator[DeadLetter]
    _held: list[DeadLetter] = field(default_factory=list[DeadLetter])

    def before(self, partition: int, offset: int) -> dict[int, list[DeadLetter]]:
        """By offset, those not yet handed out whose (partition, offset) is below the place."""
        found: dict[int, list[DeadLetter]] = {}
        while (letter := self._held.pop() if self._held else next(self.letters, None)) is not None:
            if (letter.partition, letter.offset) >= (partition, offset):
                self._held.append(letter)
                break
            found.setdefault(letter.offset, []).append(letter)
        return found


@dataclass(frozen=True)
class Era:
    """How messages are judged by one contract, and what they become."""

    judge: Judge
    expected: Expected
    doubt: str = ""  # behind each difference: what else it may come from

    @property
    def columns(self) -> list[str]:
        """The columns of the row table that the contract has, by their names now."""
        return [name for name in self.expected.schema.names if name not in ("_partition", "_offset")]


@dataclass(frozen=True)
class _Chunk:
    """What is known of a chunk's messages, by offset."""

    part: Partition
    era: Era
    judged: dict[int, Row | NoRow]
    values: dict[int, bytes | None]
    dead: dict[int, list[DeadLetter]]
    good: dict[int, Row]  # messages that the table must hold, before the transform
    wanted: set[int]  # offsets that have a row after it
    found: dict[int, Difference]


@dataclass
class AppendComparison:
    """Goes through the topic and the tables side by side."""

    era: Callable[[Pinned], Era]
    rows: Ordered
    dead: DeadLetters
    accumulated: list[Accumulated]
    findings: Findings
    one_row_each: bool  # without a transform every message is exactly one row

    def partition(self, part: Partition, topic: Topic, chunk: int, low: int) -> Iterator[int]:
        """Compare one partition; yields how many messages of each chunk are done. Partitions come in ascending order.

        `chunk` is how many messages are compared at once, `low` the first offset that the broker still holds.
        """
        self.strays(part.number, part.start)
        first = min(max(part.start, low), part.next)
        for start in range(part.start, first, STEP):
            self._deleted(part, start, min(start + STEP, first))
        skipped = SkippedRecords(part.counted)
        for start, until, pinned in part.by_contract(first, part.next):
            for messages in topic.chunks(part.number, start, until, chunk):
                self._chunk(part, self.era(pinned), messages.without(part.skips), skipped)
                yield len(messages.offsets)
        skipped.compare(part.number, self.findings)

    def strays(self, partition: int, offset: int) -> None:
        """Report what is below a place and was not asked for: it is outside of every partition's [start, next)."""
        outside = "outside the offsets that the ledger says were read"
        rows = self.rows.before(partition, offset)
        for number, where in zip(rows["_partition"].to_pylist(), rows["_offset"].to_pylist(), strict=True):
            self.findings.bad("duplicated", f"a row {outside}", number, where)
        for where, letters in self.dead.before(partition, offset).items():
            for letter in letters:
                self.findings.bad("duplicated", f"a dead letter {outside}", letter.partition, where)

    def _chunk(self, part: Partition, era: Era, messages: Chunk, skipped: SkippedRecords) -> None:
        dead = self.dead.before(part.number, messages.until_offset)
        have = self.rows.before(part.number, messages.until_offset)
        columns = zip(messages.offsets, messages.values, messages.names, strict=True)
        judged = {offset: era.judge.at(part.number, offset, value, name) for offset, value, name in columns}
        good = {
            offset: row
            for offset, row in judged.items()
            if not isinstance(row, NoRow) and not any(letter.stage in LATE for letter in dead.get(offset, ()))
        }
        try:
            want, compared = era.expected.rows(part.number, list(good), list(good.values())), have
        except NotMade:
            self.findings.count("unverifiable", len(good))
            want, compared = era.expected.schema.empty_table(), _without(have, good)
            good = dict[int, Row]()
        for table in self.accumulated:
            table.add(want if compared is have and table.reads <= {*era.columns} else have)
        self._retyped(part, era, have)
        values = dict(zip(messages.offsets, messages.values, strict=True))
        found = differences(want, compared.select(want.schema.names))
        chunk = _Chunk(part, era, judged, values, dead, good, set(_offsets(want)), found)
        self._count(chunk, want)
        skipped.add(messages.offsets, skipped_in(judged, dead))
        for offset in chunk.found:
            self._differs(chunk, offset)
        for offset in sorted({*dead, *(offset for offset, row in judged.items() if isinstance(row, NoRow))}):
            self._dead_letter(chunk, offset)
        gaps = missing(messages.offsets, messages.from_offset, messages.until_offset)
        self._undelivered(part, gaps, {*_offsets(have), *dead} if gaps else set())

    def _retyped(self, part: Partition, era: Era, have: pa.Table) -> None:
        """Report columns that no longer hold what a message of their contract makes."""
        if have.num_rows and era.expected.retyped:
            what = f"{era.expected.retyped}, and the rows were not made again (tidegate replay makes them)"
            self.findings.bad("wrong", what, part.number, _offsets(have)[0], have.num_rows)

    def _count(self, chunk: _Chunk, want: pa.Table) -> None:
        self.findings.count("messages", len(chunk.judged))
        self.findings.count("rows", want.num_rows - sum(len(gone) for gone, _ in chunk.found.values()))
        skipped = sum(isinstance(row, NoRow) and row.skipped for row in chunk.judged.values())
        self.findings.count("filtered", len(chunk.good) - len(chunk.wanted) + skipped)

    def _differs(self, chunk: _Chunk, offset: int) -> None:
        """Report why the rows of an offset are not those that its message makes."""

        def bad(kind: str, what: str) -> None:
            self.findings.bad(kind, f"{what}{chunk.era.doubt}", chunk.part.number, offset)

        gone, extra = chunk.found[offset]
        row, letters = chunk.judged.get(offset), chunk.dead.get(offset, [])
        if row is None:
            return  # the broker does not deliver the offset: _undelivered reports it
        if isinstance(row, NoRow):
            bad("wrong", f"the message is not valid ({row.reason}), but the table has a row of it")
        elif letters and extra:
            bad("duplicated", "the message has both a row and a dead letter")
        elif letters and not any(letter.stage in LATE for letter in letters):
            bad("wrong", needless(letters[0]))
        elif letters:
            return  # refused after decoding, and without rows: as it should be
        elif gone and extra:
            unlike = self.findings.unlike(self.findings.row_table, chunk.era.columns, extra[0], gone[0])
            bad("wrong", f"the row differs from the message: {unlike}")
        elif gone:
            rows = f"{plural(len(gone), 'row')} of the message {noun_for(len(gone), 'is', 'are')}"
            bad("lost", f"{rows} missing from the table")
        elif offset in chunk.wanted:
            bad("duplicated", f"the table has {plural(len(extra), 'row')} too many of the message")
        else:
            bad("wrong", "the transform filters the message out, but the table has a row of it")

    def _dead_letter(self, chunk: _Chunk, offset: int) -> None:
        """Report a dead letter that is missing, wrong or one too many; `_differs` has spoken of the offset's rows."""
        bad = partial(self.findings.bad, partition=chunk.part.number, offset=offset)
        row, letters, differs = chunk.judged.get(offset), chunk.dead.get(offset, []), offset in chunk.found
        if row is None:
            return  # the broker does not deliver the offset: _undelivered reports it
        if not letters and isinstance(row, NoRow):
            if not differs and not row.skipped:
                bad("lost", no_dead_letter(row.reason))
        elif len(letters) > 1:
            bad("duplicated", several(letters))
        elif letters[0].value != chunk.values[offset]:
            bad("wrong", OTHER_BYTES)
        elif (isinstance(row, NoRow) and not row.skipped) or letters[0].stage in LATE:
            self.findings.count("dead_letters")
        elif not differs and offset in chunk.wanted:
            bad("duplicated", "the message has both a row and a dead letter")
        elif not differs:
            bad("wrong", needless(letters[0]))

    def _undelivered(self, part: Partition, spans: list[Span], there: set[int]) -> None:
        """Offsets that the broker does not deliver: the ledger declares a gap or a skip, or something is missing.

        `there` are offsets that have a row or a dead letter.
        """
        for start, until in spans:
            for low, high in self._undeclared(part, start, until):
                kept = sum(low <= offset < high for offset in there)
                self.findings.count("unverifiable", kept)
                if kept < high - low:
                    what = f"{spelt(part.number, (low, high))}: the topic has no message here, the tables have no row"
                    self.findings.bad(
                        "lost", f"{what}, and the ledger records no gap", part.number, low, high - low - kept
                    )

    def _deleted(self, part: Partition, start: int, until: int) -> None:
        """Offsets that retention removed: whether each left a row can still be said, but not whether it is right."""
        have, dead = self.rows.before(part.number, until), self.dead.before(part.number, until)
        for table in self.accumulated:
            table.add(have)
        due = self._undeclared(part, start, until)
        offsets = set(_offsets(have))
        lost: list[Span] = []
        if self.one_row_each:
            there = missing(sorted({*offsets, *dead}), start, until)
            lost = less([span for low, high in due for span in within(there, low, high)], part.settled)
            if have.num_rows > len(offsets):
                extra = have.num_rows - len(offsets)
                what = f"{spelt(part.number, (start, until))} has {plural(extra, 'row')} too many"
                self.findings.bad("duplicated", what, part.number, start, extra)
        for span in lost:
            what = f"{spelt(part.number, span)} has neither rows nor dead letters"
            self.findings.bad("lost", what, part.number, span[0], size([span]))
        self.findings.count("unverifiable", size(due) - size(lost))

    def _undeclared(self, part: Partition, start: int, until: int) -> list[Span]:
        """What the ledger declares neither as a gap nor as skipped; counts the rest."""
        declared, skipped = within(part.gaps, start, until), within(part.skips, start, until)
        self.findings.count("gaps", size(declared))
        self.findings.count("skipped", size(less(skipped, declared)))
        return less([(start, until)], [*declared, *skipped])


def skipped_in(judged: Mapping[int, Row | NoRow | None], dead: Container[int]) -> list[int]:
    """The offsets of messages that the contract skips, and that nothing became of."""
    return [offset for offset, row in judged.items() if isinstance(row, NoRow) and row.skipped and offset not in dead]


OTHER_BYTES = "the dead letter does not hold the message's bytes"


def no_dead_letter(reason: str) -> str:
    """For a message that is not valid."""
    return f"the message is not valid ({reason}), and there is no dead letter of it"


def several(letters: list[DeadLetter]) -> str:
    """For a message of several dead letters."""
    return f"the message has {len(letters)} dead letters"


def needless(letter: DeadLetter) -> str:
    """For a message that is valid."""
    return f"the message is valid, but it was made a dead letter ({letter.error_class})"


def _without(rows: pa.Table, offsets: Iterable[int]) -> pa.Table:
    """The rows of other offsets."""
    gone = {*offsets}
    return rows.filter(pa.array([offset not in gone for offset in _offsets(rows)], pa.bool_()))


def _offsets(rows: pa.Table) -> list[int]:
    offsets: list[Any] = rows["_offset"].to_pylist()
    return offsets
