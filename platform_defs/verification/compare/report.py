"""What verify found: counts, up to twenty samples, and a sentence or two."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from platform_defs.contract.model.classified import HIDDEN, NOTHING, Classified, classified
from platform_defs.contract.model.contract import Contract
from platform_defs.errors.words import noun_for, plural

SAMPLES = 20
BAD = ("lost", "duplicated", "wrong", "uncovered")
_LONGEST = 80  # characters of a value that are shown


@dataclass(frozen=True)
class Sample:
    """One finding: what kind of fault it is, where, and what is wrong."""

    kind: str  # lost, duplicated, wrong or uncovered
    what: str
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class New:
    """What a check of what is new was about: batches after `after_batch`, up to `until_batch`, which are exact."""

    after_batch: int
    until_batch: int
    snapshots: int  # that were taken, one after another
    left: int  # messages that were read and not compared yet: the next check goes on with them
    began_again: str = ""  # why it began at the first message, although there had been a check before
    hint: str = ""  # what would make it cheaper


@dataclass(frozen=True)
class Report:
    """The counts are of messages (offsets), except `rows` (table rows that are right) and `keys` (accumulates)."""

    pipeline: str
    messages: int = 0  # delivered by the broker between start and next offset
    rows: int = 0
    dead_letters: int = 0
    filtered: int = 0  # the transform made no row of them, or they are of a record that the contract skips
    skipped: int = 0  # declared as skipped with `tidegate ack`
    gaps: int = 0  # never delivered by the broker: control records, aborted transactions, compaction
    compacted: int = 0  # removed by compaction since
    lost: int = 0  # neither row nor dead letter, or too few rows
    duplicated: int = 0  # more rows or dead letters than there should be, or committed twice
    wrong: int = 0  # a value that is not the message's, or a row instead of a dead letter, or the reverse
    uncovered: int = 0  # below the position, but read by no committed batch; or committed beyond the position
    unverifiable: int = 0  # the topic no longer holds the messages, or the transform takes only newer ones; or `partly`
    partly: int = 0  # compared, but not in each column of the contract in force
    keys: int = 0  # keys of accumulate tables that are right
    seconds: float = 0.0
    digest: str = ""  # of the tables' contents: the same however the messages were cut into batches
    samples: tuple[Sample, ...] = field(default=())
    not_compared: Mapping[str, int] = field(default_factory=dict[str, int])  # of those in `partly`: messages by column
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
            return f"{self.pipeline} has no batch that was not compared before."
        if not self.messages and self.ok and not self.unverifiable:
            return f"{self.pipeline} has nothing to verify: no message has been read yet."
        if self.ok:
            right = "nothing lost, duplicated or wrong"
            exact = "exact in what is new" if self.new else "exact"
            return f"{self.pipeline} is {exact}: {self._compared}: {self._made}; {right}.{self._doubt}"
        found = ", ".join(f"{getattr(self, name):,} {name}" for name in BAD if getattr(self, name))
        first = f" First: {self.samples[0].what}." if self.samples else ""
        return f"{self.pipeline} is NOT exact: {found} ({self._compared}).{first}{self._doubt}"

    def to_json(self) -> dict[str, Any]:
        """`ok`, every count, `seconds`, `digest`, `samples` (list of objects), `new` and `explanation`."""
        return {"ok": self.ok, **asdict(self), "explanation": self.explanation}

    @property
    def _compared(self) -> str:
        return f"{plural(self.messages, 'message')} compared one by one in {self.seconds:.1f} s"

    @property
    def _made(self) -> str:
        filtered = f", {self.filtered:,} filtered out" if self.filtered else ""
        return f"{plural(self.rows, 'row')}, {plural(self.dead_letters, 'dead letter')}{filtered}"

    @property
    def _doubt(self) -> str:
        gone, doubt = self.unverifiable - self.partly, ""
        if gone:
            doubt += (
                f" {plural(gone, 'more message')} can no longer be verified: "
                "they were read, but the topic no longer has them, or the transform no longer takes them."
            )
        for column, messages in self.not_compared.items():
            doubt += (
                f" {plural(messages, 'message')} {noun_for(messages, 'was', 'were')} not compared in column {column}."
            )
        if self.not_compared:
            doubt += (
                " Columns are not compared if they were dropped or renamed since, or if the current transform does not "
                "make them."
            )
        return doubt


@dataclass
class Findings:
    """Counts while they are being made."""

    pipeline: str
    row_table: str = ""
    hidden: Classified = NOTHING
    counts: dict[str, int] = field(default_factory=dict[str, int])
    samples: list[Sample] = field(default_factory=list[Sample])
    not_compared: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, contract: Contract) -> "Findings":
        """None yet, of a contract's pipeline; what it classifies is not shown."""
        return cls(contract.pipeline, contract.row_table.name, classified(contract))

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
        """Count a fault under one of BAD, and keep what and where it is. `offset` is the first of `number`."""
        self.count(name, number)
        if len(self.samples) < SAMPLES:
            place = f" (partition {partition}, offset {offset})" if offset is not None else ""
            self.samples.append(Sample(name, what + place, partition, offset))

    def unlike(self, table: str, columns: Sequence[str], there: Sequence[Any], wanted: Sequence[Any]) -> str:
        """In which columns of a table two rows differ: amount is 10.01, not 10.00; email is not what it should be."""
        pairs = zip(columns, there, wanted, strict=True)
        return ", ".join(self._unlike(table, name, one, other) for name, one, other in pairs if one != other)

    def _unlike(self, table: str, name: str, there: Any, wanted: Any) -> str:
        if self.hidden.hides(table, name):
            return f"{name} is not what it should be (classified, so not shown)"
        return f"{name} is {shown(there)}, not {shown(wanted)}"

    def shown(self, table: str, column: str, value: Any) -> str:
        """A value of a column as a sentence shows it, unless it is classified."""
        return HIDDEN if self.hidden.hides(table, column) else shown(value)

    def key(self, key: str) -> str:
        """A message key as a sentence shows it, unless values of the row table are classified."""
        return self.shown(self.row_table, "_key", key)

    @property
    def ok(self) -> bool:
        """True if nothing bad was found so far."""
        return not any(self.counts.get(name) for name in BAD)

    def report(self, seconds: float, digest: str, new: New | None = None) -> Report:
        """The counts and samples as they are now."""
        found, took = tuple(self.samples), round(seconds, 3)
        partly = dict(self.not_compared)
        return Report(
            self.pipeline,
            **self.counts,
            seconds=took,
            digest=digest,
            samples=found,
            not_compared=partly,
            new=new,
        )


def _of_new(new: New) -> str:
    """What a check of what is new was about, behind its result."""
    said = f" Compared: batches after {new.after_batch}, up to {new.until_batch}."
    if new.began_again:
        said += f" It began at the first message, since {new.began_again}."
    if new.left:
        said += (
            f" {plural(new.left, 'message')} in later batches {noun_for(new.left, 'is', 'are')} left to the next check."
        )
    return f"{said} {new.hint}".rstrip()


def shown(value: Any) -> str:
    """A value as a sentence shows it: texts in quotes, nothing longer than a line."""
    spelt = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return spelt if len(spelt) <= _LONGEST else f"{spelt[:_LONGEST]}..."


_COUNTS = {item.name for item in fields(Report) if item.type is int or item.type == "int"}
