"""The report of verify: counts, up to twenty samples, and a sentence or two."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from platform_defs.contract.model.classified import HIDDEN, Classified, classified
from platform_defs.contract.model.contract import Contract
from platform_defs.errors.words import noun_for, plural

SAMPLES = 20
BAD = ("lost", "duplicated", "wrong", "uncovered")
_LONGEST = 80  # characters shown of a value


@dataclass(frozen=True)
class Sample:
    """A finding: the kind of fault, its place, and a description."""

    kind: str  # lost, duplicated, wrong or uncovered
    what: str
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class New:
    """The scope of a check of new batches: those after `after_batch`, up to `until_batch`, are exact."""

    after_batch: int
    until_batch: int
    snapshots: int  # taken one after another
    left: int  # messages that were read but not compared yet: the next check continues there
    began_again: str = ""  # why it started at the first message although there was an earlier check
    hint: str = ""  # how to make it cheaper


@dataclass(frozen=True)
class Report:
    """The result of verify. Counts are messages (offsets), except `rows` (correct table rows) and `keys`
    (accumulates).
    """

    pipeline: str
    messages: int = 0  # delivered by the broker between start and next offset
    rows: int = 0
    dead_letters: int = 0
    filtered: int = 0  # the transform made no row, or the contract skips the record
    skipped: int = 0  # declared as skipped with `tidegate resolve`
    gaps: int = 0  # never delivered by the broker: control records, aborted transactions, compaction
    compacted: int = 0  # removed by compaction since
    lost: int = 0  # neither row nor dead letter, or too few rows
    duplicated: int = 0  # more rows or dead letters than there should be, or committed twice
    wrong: int = 0  # a value that is not the message's, or a row instead of a dead letter, or the reverse
    uncovered: int = 0  # below the position, but read by no committed batch; or committed beyond the position
    unverifiable: int = 0  # the topic no longer has the messages, or the transform takes only newer ones; or `partly`
    partly: int = 0  # compared, but not in each column of the contract in force
    keys: int = 0  # correct keys of accumulate tables
    seconds: float = 0.0
    digest: str = ""  # of the tables' contents: independent of the batches
    samples: tuple[Sample, ...] = field(default=())
    not_compared: Mapping[str, int] = field(default_factory=dict[str, int])  # messages in `partly`, by column
    new: New | None = None  # None: everything was compared, in one snapshot

    @property
    def ok(self) -> bool:
        """True if nothing is lost, duplicated, wrong or uncovered."""
        return not any(getattr(self, name) for name in BAD)

    @property
    def explanation(self) -> str:
        """The result in a sentence or two."""
        return f"{self._result}{_of_new(self.new) if self.new else ''}"

    @property
    def _result(self) -> str:
        if self.new and self.ok and self.new.until_batch == self.new.after_batch and not self.new.left:
            return f"{self.pipeline} has no new batches since the last check."
        if not self.messages and self.ok and not self.unverifiable:
            return f"{self.pipeline} has nothing to verify: no message has been read yet."
        if self.ok:
            right = "nothing lost, duplicated or wrong"
            exact = "exact since the last check" if self.new else "exact"
            filtered = f", {self.filtered:,} filtered out" if self.filtered else ""
            made = f"{plural(self.rows, 'row')}, {plural(self.dead_letters, 'dead letter')}{filtered}"
            return f"{self.pipeline} is {exact}: {self._compared}: {made}; {right}.{self._doubt}"
        found = ", ".join(f"{getattr(self, name):,} {name}" for name in BAD if getattr(self, name))
        first = f" First: {self.samples[0].what}." if self.samples else ""
        return f"{self.pipeline} is NOT exact: {found} ({self._compared}).{first}{self._doubt}"

    def to_json(self) -> dict[str, Any]:
        """Return `ok`, every count, `seconds`, `digest`, `samples` (list of objects), `new` and `explanation`."""
        return {"ok": self.ok, **asdict(self), "explanation": self.explanation}

    @property
    def _compared(self) -> str:
        return f"{plural(self.messages, 'message')} compared one by one in {self.seconds:.1f} s"

    @property
    def _doubt(self) -> str:
        gone, doubt = self.unverifiable - self.partly, ""
        if gone:
            doubt += (
                f" {plural(gone, 'more message')} can no longer be verified: they were read, but the topic no "
                "longer has them, or the transform no longer accepts them."
            )
        for column, messages in self.not_compared.items():
            doubt += (
                f" {plural(messages, 'message')} {noun_for(messages, 'was', 'were')} not compared in column {column}."
            )
        if self.not_compared:
            doubt += (
                " Columns are not compared if they were dropped or renamed since, or if the current transform does "
                "not produce them."
            )
        return doubt


@dataclass
class Findings:
    """The counts and samples during a comparison."""

    pipeline: str
    row_table: str = ""
    hidden: frozenset[Classified] = frozenset()
    counts: dict[str, int] = field(default_factory=dict[str, int])
    samples: list[Sample] = field(default_factory=list[Sample])
    not_compared: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, contract: Contract) -> "Findings":
        """Return empty findings for a contract's pipeline; classified values are not shown."""
        return cls(contract.pipeline, contract.row_table.name, frozenset([classified(contract)]))

    def hides(self, table: str, column: str) -> bool:
        """Return True if values of the column are not shown."""
        return any(one.hides(table, column) for one in self.hidden)

    def count(self, name: str, number: int = 1) -> None:
        """Add to one of a report's counts."""
        if name not in _COUNTS:
            raise AssertionError(f"a report has no count {name!r}")
        self.counts[name] = self.counts.get(name, 0) + number

    def partly(self, columns: Collection[str], number: int = 1) -> None:
        """Count messages that were compared, but not in these columns."""
        if columns and number:
            self.count("unverifiable", number)
            self.count("partly", number)
        for column in sorted(columns) if number else ():
            self.not_compared[column] = self.not_compared.get(column, 0) + number

    def bad(
        self, name: str, what: str, partition: int | None = None, offset: int | None = None, number: int = 1
    ) -> None:
        """Count a fault under one of BAD, and keep a sample. `offset` is the first of `number`."""
        self.count(name, number)
        if len(self.samples) < SAMPLES:
            place = f" (partition {partition}, offset {offset})" if offset is not None else ""
            self.samples.append(Sample(name, what + place, partition, offset))

    def unlike(self, table: str, columns: Sequence[str], there: Sequence[Any], wanted: Sequence[Any]) -> str:
        """Return the columns in which two rows differ: amount is 10.01, not 10.00; email is not what it should be."""
        pairs = zip(columns, there, wanted, strict=True)
        return ", ".join(self._unlike(table, name, one, other) for name, one, other in pairs if one != other)

    def _unlike(self, table: str, name: str, there: Any, wanted: Any) -> str:
        if self.hides(table, name):
            return f"{name} is not what it should be (classified, so not shown)"
        return f"{name} is {shown(there)}, not {shown(wanted)}"

    def shown(self, table: str, column: str, value: Any) -> str:
        """Return a value of a column for a sentence; hidden if it is classified."""
        return HIDDEN if self.hides(table, column) else shown(value)

    def key(self, key: str) -> str:
        """Return a message key for a sentence; hidden if values of the row table are classified."""
        return self.shown(self.row_table, "_key", key)

    @property
    def ok(self) -> bool:
        """True if nothing bad was found so far."""
        return not any(self.counts.get(name) for name in BAD)

    def report(self, seconds: float, digest: str, new: New | None = None) -> Report:
        """Return the current counts and samples."""
        return Report(
            self.pipeline,
            **self.counts,
            seconds=round(seconds, 3),
            digest=digest,
            samples=tuple(self.samples),
            not_compared=dict(self.not_compared),
            new=new,
        )


def _of_new(new: New) -> str:
    """Return the sentences about the scope of a check of new batches."""
    message = f" Compared: batches after {new.after_batch}, up to {new.until_batch}."
    if new.began_again:
        message += f" It started from the first message, because {new.began_again}."
    if new.left:
        message += (
            f" {plural(new.left, 'message')} in later batches {noun_for(new.left, 'is', 'are')} left for the next "
            "check."
        )
    return f"{message} {new.hint}".rstrip()


def shown(value: Any) -> str:
    """Return a value for a sentence: texts in quotes, at most a line."""
    text = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_COUNTS = {item.name for item in fields(Report) if item.type is int or item.type == "int"}
