"""An upsert table against its compacted topic: each key as its newest valid message says."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from platform_defs.contract.model import Contract
from platform_defs.verification.compare import LATE, DeadLetters
from platform_defs.verification.judge import Judge, NoRow, key_text
from platform_defs.verification.messages import Chunk, Topic
from platform_defs.verification.report import Findings
from platform_defs.verification.snapshot import DeadLetter, Partition
from platform_defs.verification.spans import Span, less, missing, size, within

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest valid message of a key in a partition; `row` is None for a tombstone."""

    partition: int
    offset: int
    row: Row | None


@dataclass
class UpsertComparison:
    """Holds one entry a key: the topic's keys must fit into memory, its messages need not."""

    contract: Contract
    judge: Judge
    dead: DeadLetters
    findings: Findings
    newest: dict[str, Newest] = field(default_factory=dict)
    elsewhere: dict[str, list[Newest]] = field(default_factory=dict)  # a key that moved when partitions were added
    gone: dict[int, list[Span]] = field(default_factory=dict)  # what the broker does not deliver
    known: dict[int, Partition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [item.name for item in self.contract.fields]
        self._columns = [names.index(column.name) for column in self.contract.row_table.columns]

    def partition(self, part: Partition, topic: Topic, chunk: int, low: int) -> Iterator[int]:
        """Read one partition; yields how many messages are done."""
        self.known[part.number] = part
        self.strays(part.number, part.start)
        first = min(max(part.start, low), part.next)
        if first > part.start:
            self.dead.before(part.number, first)
            self._undelivered(part, [(part.start, first)])
        for messages in topic.chunks(part.number, first, part.next, chunk):
            self._chunk(part, messages)
            yield len(messages.offsets)

    def strays(self, partition: int, offset: int) -> None:
        for where, letters in self.dead.before(partition, offset).items():
            self.findings.bad(
                "duplicated", "a dead letter beyond the offsets that were read", letters[0].partition, where
            )

    def _chunk(self, part: Partition, chunk: Chunk) -> None:
        dead = self.dead.before(part.number, chunk.until_offset)
        self.findings.count("messages", len(chunk.offsets))
        for offset, key, value in zip(chunk.offsets, chunk.keys, chunk.values, strict=True):
            letters = dead.get(offset, [])
            text, row = self._judged(key, value)
            if letters or isinstance(row, NoRow):
                self._dead_letter(part, offset, value, row, letters)
            if not isinstance(row, NoRow) and not letters:
                self._note(text, Newest(part.number, offset, row and tuple(row[n] for n in self._columns)))
        self._undelivered(part, missing(chunk.offsets, chunk.from_offset, chunk.until_offset))

    def _judged(self, key: bytes | None, value: bytes | None) -> tuple[str, Row | NoRow | None]:
        text = key_text(key)
        if isinstance(text, NoRow):
            return "", text
        return text, None if value is None else self.judge.value(value)

    def _note(self, key: str, found: Newest) -> None:
        before = self.newest.get(key)
        if before is not None and before.partition != found.partition:
            self.elsewhere.setdefault(key, []).append(before)
        self.newest[key] = found

    def _dead_letter(
        self, part: Partition, offset: int, value: bytes | None, row: Row | NoRow | None, letters: list[DeadLetter]
    ) -> None:
        if not letters:
            reason = row.reason if isinstance(row, NoRow) else ""
            self.findings.bad(
                "lost", f"the message is no row ({reason}) and no dead letter keeps it", part.number, offset
            )
        elif len(letters) > 1:
            self.findings.bad("duplicated", f"{len(letters)} dead letters for one message", part.number, offset)
        elif not isinstance(row, NoRow) and letters[0].stage not in LATE:
            what = f"a dead letter ({letters[0].error_class}), although the message is a row"
            self.findings.bad("wrong", what, part.number, offset)
        elif letters[0].value != value:
            self.findings.bad("wrong", "the dead letter does not hold the message's bytes", part.number, offset)
        else:
            self.findings.count("dead_letters")

    def _undelivered(self, part: Partition, spans: list[Span]) -> None:
        for start, until in spans:
            declared, skipped = within(part.gaps, start, until), within(part.skips, start, until)
            self.findings.count("gaps", size(declared))
            self.findings.count("skipped", size(less(skipped, declared)))
            compacted = less([(start, until)], [*declared, *skipped])
            self.findings.count("compacted", size(compacted))
            self.gone.setdefault(part.number, []).extend(compacted)

    def table(self, batches: Iterator[pa.Table]) -> None:
        """Compare the table's rows (contract columns, _key, _partition, _offset) with what the topic says."""
        names = [column.name for column in self.contract.row_table.columns]
        for batch in batches:
            columns = [batch[name].to_pylist() for name in names]
            own = (batch[name].to_pylist() for name in ("_key", "_partition", "_offset"))
            for key, partition, offset, *row in zip(*own, *columns, strict=True):
                self._row(key, Newest(partition, offset, tuple(row)))
        for key, wanted in self.newest.items():
            if wanted.row is not None:
                self.findings.bad("lost", f"the table has no row for key {key}", wanted.partition, wanted.offset)

    def _row(self, key: str, have: Newest) -> None:
        wanted = self.newest.pop(key, None)
        candidates = [item for item in (wanted, *self.elsewhere.pop(key, ())) if item is not None]
        if have in candidates:
            self.findings.count("rows")
            return
        part = self.known.get(have.partition)
        bad = lambda kind, what: self.findings.bad(kind, what, have.partition, have.offset)  # noqa: E731
        newer = next((item for item in candidates if item.partition == have.partition), None)
        if part is None or not part.start <= have.offset < part.next:
            bad("duplicated", f"the row of key {key} stands beyond the offsets that the ledger says were read")
        elif newer and newer.offset == have.offset:
            bad("wrong", f"the row of key {key} is {have.row}; the message says {newer.row}")
        elif newer and newer.offset > have.offset:
            self.findings.bad(
                "lost", f"key {key} still is what offset {have.offset} said", newer.partition, newer.offset
            )
        elif self._is_gone(have.partition, have.offset):
            self.findings.count("unverifiable")  # compaction removed the message that made it; nothing says otherwise
        else:
            bad("wrong", f"no message says what the row of key {key} holds")

    def _is_gone(self, partition: int, offset: int) -> bool:
        spans = self.gone.get(partition, [])
        place = bisect_right(spans, (offset, 2**62)) - 1
        return place >= 0 and spans[place][0] <= offset < spans[place][1]
