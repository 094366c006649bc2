"""An append table against its topic, chunk by chunk: what each offset must have become, and what it is."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute

from platform_defs.verification.accumulates import Accumulated
from platform_defs.verification.expected import Expected, differences
from platform_defs.verification.judge import Judge, NoRow
from platform_defs.verification.messages import Chunk, Topic
from platform_defs.verification.report import Findings
from platform_defs.verification.snapshot import DeadLetter, Ordered, Partition
from platform_defs.verification.spans import Span, less, missing, size, within

pc: Any = pyarrow.compute  # its functions are made at import, where no type checker sees them
LATE = ("transform", "publish")  # stages that may refuse a message which can be decoded
STEP = 100_000  # offsets judged together where there are no messages


@dataclass
class DeadLetters:
    """Dead letters in order, handed out up to a place."""

    letters: Iterator[DeadLetter]
    _held: list[DeadLetter] = field(default_factory=list)

    def before(self, partition: int, offset: int) -> dict[int, list[DeadLetter]]:
        """By offset, those not yet handed out that stand before the place."""
        found: dict[int, list[DeadLetter]] = {}
        while (letter := self._held.pop() if self._held else next(self.letters, None)) is not None:
            if (letter.partition, letter.offset) >= (partition, offset):
                self._held.append(letter)
                break
            found.setdefault(letter.offset, []).append(letter)
        return found


@dataclass
class AppendComparison:
    """Goes through the topic and the tables side by side."""

    judge: Judge
    expected: Expected
    rows: Ordered
    dead: DeadLetters
    accumulated: list[Accumulated]
    findings: Findings
    one_row_each: bool  # without a transform every message is exactly one row

    def partition(self, part: Partition, topic: Topic, chunk: int, low: int) -> Iterator[int]:
        """Compare one partition; yields how many messages are done. Partitions come in ascending order."""
        self.strays(part.number, part.start)
        first = min(max(part.start, low), part.next)
        for start in range(part.start, first, STEP):
            self._forgotten(part, start, min(start + STEP, first))
        for messages in topic.chunks(part.number, first, part.next, chunk):
            self._chunk(part, messages)
            yield len(messages.offsets)

    def strays(self, partition: int, offset: int) -> None:
        """What stands before a place and has not been asked for: outside of every partition's [start, next)."""
        rows = self.rows.before(partition, offset)
        for number, where in zip(rows["_partition"].to_pylist(), rows["_offset"].to_pylist(), strict=True):
            self.findings.bad("duplicated", "a row beyond the offsets that the ledger says were read", number, where)
        for where, letters in self.dead.before(partition, offset).items():
            for letter in letters:
                self.findings.bad(
                    "duplicated", "a dead letter beyond the offsets that were read", letter.partition, where
                )

    def _chunk(self, part: Partition, chunk: Chunk) -> None:
        judged = dict(zip(chunk.offsets, map(self.judge.value, chunk.values), strict=True))
        dead = self.dead.before(part.number, chunk.until_offset)
        have = self.rows.before(part.number, chunk.until_offset)
        good = {
            offset: row
            for offset, row in judged.items()
            if not isinstance(row, NoRow) and not any(letter.stage in LATE for letter in dead.get(offset, ()))
        }
        want = self.expected.rows(part.number, list(good), list(good.values()))
        for table in self.accumulated:
            table.add(want)
        found = differences(want, have)
        here = _Offsets(part, judged, dead, good, set(want["_offset"].to_pylist()) if want.num_rows else set())
        self._tally(here, chunk, want, found)
        for offset, (gone, extra) in found.items():
            self._differs(here, offset, gone, extra)
        for offset in sorted({*dead, *(offset for offset, row in judged.items() if isinstance(row, NoRow))}):
            self._dead_letter(here, offset, chunk, differs=offset in found)
        self._undelivered(part, missing(chunk.offsets, chunk.from_offset, chunk.until_offset), have, dead)

    def _tally(
        self, here: "_Offsets", chunk: Chunk, want: pa.Table, found: dict[int, tuple[list[Any], list[Any]]]
    ) -> None:
        self.findings.count("messages", len(chunk.offsets))
        self.findings.count("rows", want.num_rows - sum(len(gone) for gone, _ in found.values()))
        self.findings.count("filtered", len(here.good) - len(here.wanted))

    def _differs(self, here: "_Offsets", offset: int, gone: list[Any], extra: list[Any]) -> None:
        bad = lambda kind, what: self.findings.bad(kind, what, here.part.number, offset)  # noqa: E731
        row = here.judged.get(offset)
        if row is None:
            return  # of an offset that the broker does not deliver: told by _undelivered
        if isinstance(row, NoRow):
            bad("wrong", f"a row, although the message is none ({row.reason})")
        elif offset in here.dead:
            early = not any(letter.stage in LATE for letter in here.dead[offset])
            if extra:
                bad("duplicated", "a row and a dead letter for the same message")
            elif early:
                bad("wrong", f"a dead letter ({here.dead[offset][0].error_class}), although the message is a row")
        elif gone and extra:
            bad("wrong", f"the row is {_spell(extra[0])}; the message says {_spell(gone[0])}")
        elif gone and _holds(here.part.skips, offset):
            self.findings.count("skipped")
        elif gone:
            bad("lost", f"{len(gone)} row(s) of the message are not in the table")
        elif offset in here.wanted:
            bad("duplicated", f"{len(extra)} row(s) too many")
        else:
            bad("wrong", "a row of a message that the transform filters out")

    def _dead_letter(self, here: "_Offsets", offset: int, chunk: Chunk, *, differs: bool) -> None:
        bad = lambda kind, what: self.findings.bad(kind, what, here.part.number, offset)  # noqa: E731
        row, letters = here.judged.get(offset), here.dead.get(offset, [])
        if row is None:
            return  # of an offset that the broker does not deliver
        if not letters:
            if not differs:
                reason = row.reason if isinstance(row, NoRow) else ""
                bad("lost", f"the message is no row ({reason}) and no dead letter keeps it")
        elif len(letters) > 1:
            bad("duplicated", f"{len(letters)} dead letters for one message")
        elif letters[0].value != chunk.values[chunk.offsets.index(offset)]:
            bad("wrong", "the dead letter does not hold the message's bytes")
        elif isinstance(row, NoRow) or letters[0].stage in LATE:
            self.findings.count("dead_letters")
        elif not differs and offset in here.wanted:
            bad("duplicated", "a row and a dead letter for the same message")
        elif not differs:
            bad("wrong", f"a dead letter ({letters[0].error_class}), although the message is a row")

    def _undelivered(
        self, part: Partition, spans: list[Span], have: pa.Table, dead: dict[int, list[DeadLetter]]
    ) -> None:
        """Offsets that the broker does not give: a gap or a skip that the ledger declares, or something is amiss."""
        if not spans:
            return
        there = {*pc.unique(have["_offset"]).to_pylist(), *dead}
        for start, until in spans:
            declared, skipped = within(part.gaps, start, until), within(part.skips, start, until)
            self.findings.count("gaps", size(declared))
            self.findings.count("skipped", size(less(skipped, declared)))
            for low, high in less([(start, until)], [*declared, *skipped]):
                kept = sum(low <= offset < high for offset in there)
                self.findings.count("unverifiable", kept)
                if kept < high - low:
                    what = f"nothing tells of [{low}, {high}): the broker has no message there, the tables no row"
                    self.findings.bad("lost", what, part.number, low, high - low - kept)

    def _forgotten(self, part: Partition, start: int, until: int) -> None:
        """Offsets that retention removed: whether each left a row can still be said, but not whether it is right."""
        have, dead = self.rows.before(part.number, until), self.dead.before(part.number, until)
        for table in self.accumulated:
            table.add(have)
        declared, skipped = within(part.gaps, start, until), within(part.skips, start, until)
        self.findings.count("gaps", size(declared))
        self.findings.count("skipped", size(less(skipped, declared)))
        due = less([(start, until)], [*declared, *skipped])
        offsets = pc.unique(have["_offset"]).to_pylist()
        lost: list[Span] = []
        if self.one_row_each:
            lost = less(missing(sorted({*offsets, *dead}), start, until), [*declared, *skipped])
            if have.num_rows > len(offsets):
                self.findings.bad(
                    "duplicated", "more rows than offsets", part.number, start, have.num_rows - len(offsets)
                )
        for low, high in lost:
            self.findings.bad(
                "lost", f"neither row nor dead letter tells of [{low}, {high})", part.number, low, high - low
            )
        self.findings.count("unverifiable", size(due) - size(lost))


@dataclass(frozen=True)
class _Offsets:
    """What is known of a chunk, by offset."""

    part: Partition
    judged: dict[int, tuple[Any, ...] | NoRow]
    dead: dict[int, list[DeadLetter]]
    good: dict[int, Any]  # rows that the table must hold, before the transform
    wanted: set[int]  # offsets that have a row after it


def _holds(spans: list[Span], offset: int) -> bool:
    return any(start <= offset < until for start, until in spans)


def _spell(row: tuple[Any, ...]) -> str:
    return "(" + ", ".join(map(str, row)) + ")"
