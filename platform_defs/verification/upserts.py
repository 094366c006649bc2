"""An upsert table against its compacted topic: each key as its newest valid message says."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any

import pyarrow as pa

from platform_defs.contract.model import Contract
from platform_defs.verification.compare import LATE, OTHER_BYTES, DeadLetters, needless, no_dead_letter, several
from platform_defs.verification.eras import Eras
from platform_defs.verification.json_columns import same_text
from platform_defs.verification.judge import Judge, NoRow, Row
from platform_defs.verification.key_judges import KeyJudge
from platform_defs.verification.messages import Chunk, Topic
from platform_defs.verification.report import Findings
from platform_defs.verification.skipped import SkippedRecords
from platform_defs.verification.snapshot import DeadLetter, Partition
from platform_defs.verification.spans import Span, less, missing, size, within


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest valid message of a key in a partition."""

    partition: int
    offset: int
    row: Row | None  # of the table's columns, json, uuid and time in one spelling; None for a tombstone


@dataclass
class UpsertComparison:
    """Holds one entry for each key: the topic's keys must fit into memory, its messages need not."""

    eras: Eras
    judges: Callable[[str | None], "KeyedJudge"]  # by the digest of a contract
    dead: DeadLetters
    findings: Findings
    newest: dict[str, Newest] = field(default_factory=dict[str, Newest])
    elsewhere: dict[str, list[Newest]] = field(default_factory=dict[str, list[Newest]])  # keys that changed partition
    gone: dict[int, list[Span]] = field(default_factory=dict[int, list[Span]])  # not delivered by the broker
    known: dict[int, Partition] = field(default_factory=dict[int, Partition])

    def __post_init__(self) -> None:
        self.names = [name for name, _ in self.eras.columns]

    def partition(self, part: Partition, topic: Topic, chunk: int, low: int) -> Iterator[int]:
        """Read one partition; yields how many messages of each chunk are done. As AppendComparison.partition."""
        self.known[part.number] = part
        self.strays(part.number, part.start)
        first = min(max(part.start, low), part.next)
        if first > part.start:
            self.dead.before(part.number, first)
            self._undelivered(part, [(part.start, first)])
        skipped = SkippedRecords(part.counted)
        for start, until, pinned in part.by_contract(first, part.next):
            for messages in topic.chunks(part.number, start, until, chunk):
                self._chunk(part, self.judges(pinned.contract), messages.without(part.skips), skipped)
                yield len(messages.offsets)
        skipped.compare(part.number, self.findings)

    def strays(self, partition: int, offset: int) -> None:
        """Report dead letters below a place that were not asked for: outside of every partition's [start, next)."""
        for where, letters in self.dead.before(partition, offset).items():
            for letter in letters:
                what = "a dead letter outside the offsets that the ledger says were read"
                self.findings.bad("duplicated", what, letter.partition, where)

    def _chunk(self, part: Partition, judge: "KeyedJudge", chunk: Chunk, skipped: SkippedRecords) -> None:
        dead = self.dead.before(part.number, chunk.until_offset)
        self.findings.count("messages", len(chunk.offsets))
        others = list[int]()
        keys = map(judge.keys.at, repeat(part.number), chunk.offsets, chunk.keys, chunk.key_names)
        for offset, key, value, name in zip(chunk.offsets, keys, chunk.values, chunk.names, strict=True):
            letters = dead.get(offset, [])
            text, row = judge.judged(part.number, offset, key, value, name)
            if isinstance(row, NoRow) and row.skipped and not letters:
                others.append(offset)
            if letters or isinstance(row, NoRow):
                self._dead_letter(part, offset, value, row, letters)
            if not isinstance(row, NoRow) and not letters:
                self._note(text, Newest(part.number, offset, None if row is None else judge.table_row(row)))
        skipped.add(chunk.offsets, others)
        self._undelivered(part, missing(chunk.offsets, chunk.from_offset, chunk.until_offset))

    def _note(self, key: str, found: Newest) -> None:
        before = self.newest.get(key)
        if before is not None and before.partition != found.partition:
            self.elsewhere.setdefault(key, []).append(before)
        self.newest[key] = found

    def _dead_letter(
        self, part: Partition, offset: int, value: bytes | None, row: Row | NoRow | None, letters: list[DeadLetter]
    ) -> None:
        """Report what is wrong with a message that has dead letters, or should have one."""
        bad = partial(self.findings.bad, partition=part.number, offset=offset)
        skipped = isinstance(row, NoRow) and row.skipped
        if not letters and skipped:
            self.findings.count("filtered")
        elif not letters:
            bad("lost", no_dead_letter(row.reason if isinstance(row, NoRow) else ""))
        elif len(letters) > 1:
            bad("duplicated", several(letters))
        elif (skipped or not isinstance(row, NoRow)) and letters[0].stage not in LATE:
            bad("wrong", needless(letters[0]))
        elif letters[0].value != value:
            bad("wrong", OTHER_BYTES)
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
        for batch in batches:
            columns = [batch[name].to_pylist() for name in self.names]
            own = (batch[name].to_pylist() for name in ("_key", "_partition", "_offset"))
            for key, partition, offset, *row in zip(*own, *columns, strict=True):
                self.row(key, Newest(partition, offset, tuple(row)))
        for key, wanted in self.newest.items():
            if wanted.row is not None:
                what = f"the table has no row for key {self.findings.key(key)}"
                self.findings.bad("lost", what, wanted.partition, wanted.offset)

    def row(self, key: str, have: Newest) -> None:
        """Compare the table's row of a key with the newest messages of it, which are then used up."""
        wanted = self.newest.pop(key, None)
        candidates = [item for item in (wanted, *self.elsewhere.pop(key, ())) if item is not None]
        if have in candidates:
            self.findings.count("rows")
        else:
            self._differs(key, have, next((item for item in candidates if item.partition == have.partition), None))

    def _differs(self, key: str, have: Newest, newer: Newest | None) -> None:
        """Report why a key's row is not what any of its newest messages says; `newer` is that of its partition."""
        bad = partial(self.findings.bad, partition=have.partition, offset=have.offset)
        part, row = self.known.get(have.partition), f"the row of key {self.findings.key(key)}"
        if part is None or not part.start <= have.offset < part.next:
            bad("duplicated", f"{row} comes from outside the offsets that the ledger says were read")
        elif newer and newer.offset == have.offset:
            bad("wrong", f"{row} {self._unlike(have.row, newer.row)}")
        elif newer and newer.offset > have.offset:
            what = f"{row} is still the one of offset {have.offset}; a newer message was lost"
            self.findings.bad("lost", what, newer.partition, newer.offset)
        elif self._is_gone(have.partition, have.offset):
            self.findings.count("unverifiable")  # compaction removed its message, and there is no newer one
        else:
            bad("wrong", f"{row} comes from no message with this key")

    def _unlike(self, have: Row | None, wanted: Row | None) -> str:
        if have is None or wanted is None:
            return "should have been deleted: its newest message is a tombstone"
        return f"differs from the message: {self.findings.unlike(self.findings.row_table, self.names, have, wanted)}"

    def _is_gone(self, partition: int, offset: int) -> bool:
        spans = self.gone.get(partition, [])
        place = bisect_right(spans, (offset, 2**62)) - 1
        return place >= 0 and spans[place][0] <= offset < spans[place][1]


class KeyedJudge:
    """Judges messages and their keys by one contract, and makes the table's rows of them."""

    def __init__(self, eras: Eras, contract: Contract, judge: Judge, keys: KeyJudge) -> None:
        self._judge, self.keys = judge, keys
        fields = [item.name for item in contract.fields]
        places = {now: fields.index(name) for name, now in eras.names(contract).items()}
        known: dict[str, Any] = dict.fromkeys(eras.left(contract))
        known |= {name: Retyped(what) for name, what in eras.retyped(contract).items()}
        self._columns = [
            (places.get(name), eras.as_text.get(name), known.get(name, WHATEVER)) for name, _ in eras.columns
        ]

    def judged(
        self, partition: int, offset: int, key: str | NoRow, value: bytes | None, name: bytes | None
    ) -> tuple[str, Row | NoRow | None]:
        """The key as text, and the row, or why there is none; None of a tombstone."""
        if isinstance(key, NoRow):
            return "", key
        return key, None if value is None else self._judge.at(partition, offset, value, name)

    def table_row(self, row: Row) -> Row:
        """The table's columns. One that an older contract left is NULL; of one that has come since, whatever the table
        holds is right.
        """
        return tuple(
            otherwise if place is None else same_text(row[place], kind) if kind else row[place]
            for place, kind, otherwise in self._columns
        )


class _Whatever:
    """Equal to every value."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


class Retyped:
    """Equal to nothing: what a message of an older contract makes is no value of the type that the column has now."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __str__(self) -> str:  # pyright: ignore[reportImplicitOverride]
        return f"what its message says: {self._what}"


WHATEVER: Any = _Whatever()
