"""What verify found: counts, up to twenty places, and a sentence."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

SAMPLES = 20
BAD = ("lost", "duplicated", "wrong", "uncovered")


@dataclass(frozen=True)
class Report:
    """The counts are of messages (offsets), except `rows` (table rows that are right) and `keys` (accumulates)."""

    pipeline: str
    messages: int = 0  # delivered by the broker between start and next offset
    rows: int = 0
    dead_letters: int = 0
    filtered: int = 0  # the transform made no row of them
    skipped: int = 0  # a person gave them up
    gaps: int = 0  # the broker never delivered them: control records, compaction
    compacted: int = 0  # a compacted topic held them once
    lost: int = 0  # neither row nor dead letter, or too few rows
    duplicated: int = 0  # more rows or dead letters than there may be, or committed twice
    wrong: int = 0  # another value than the message's, or a row where a dead letter belongs, or the other way round
    uncovered: int = 0  # offsets of a position that no committed batch accounts for, or committed beyond it
    unverifiable: int = 0  # the log no longer holds what it would take to say
    keys: int = 0  # of accumulate tables, that are right
    seconds: float = 0.0
    digest: str = ""  # of the tables' contents, however batches were cut
    samples: tuple[dict[str, Any], ...] = field(default=())

    @property
    def ok(self) -> bool:
        return not any(getattr(self, name) for name in BAD)

    @property
    def explanation(self) -> str:
        """What it comes to, in a sentence or two."""
        if not self.messages and self.ok and not self.unverifiable:
            return f"{self.pipeline}: no message has been read yet, and the tables are empty."
        found = ", ".join(f"{getattr(self, name)} {name}" for name in BAD if getattr(self, name))
        total = f"{self.messages} messages checked one by one in {self.seconds:.1f} s"
        doubt = (
            f" {self.unverifiable} can no longer be judged: the log does not hold them any more."
            if self.unverifiable
            else ""
        )
        if self.ok:
            made = f"{self.rows} rows, {self.dead_letters} dead letters" + (
                f", {self.filtered} filtered" if self.filtered else ""
            )
            return f"{self.pipeline} is exact: {total}; {made}; none lost, none duplicated.{doubt}"
        first = f" First: {self.samples[0]['what']}." if self.samples else ""
        return f"{self.pipeline} is NOT exact: {found}; {total}.{first}{doubt}"

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self), "samples": list(self.samples), "explanation": self.explanation}


@dataclass
class Findings:
    """Counts while they are being made."""

    pipeline: str
    counts: dict[str, int] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)

    def count(self, name: str, number: int = 1) -> None:
        if name not in _COUNTS:
            raise AssertionError(f"no count is called {name}")
        self.counts[name] = self.counts.get(name, 0) + number

    def bad(
        self, name: str, what: str, partition: int | None = None, offset: int | None = None, number: int = 1
    ) -> None:
        """Count something that should not be, and keep where it is."""
        self.count(name, number)
        if len(self.samples) < SAMPLES:
            place = f" (partition {partition}, offset {offset})" if offset is not None else ""
            self.samples.append({"partition": partition, "offset": offset, "kind": name, "what": what + place})

    def report(self, seconds: float, digest: str) -> Report:
        return Report(
            self.pipeline, **self.counts, seconds=round(seconds, 3), digest=digest, samples=tuple(self.samples)
        )


_COUNTS = {item.name for item in fields(Report) if item.type is int or item.type == "int"}
