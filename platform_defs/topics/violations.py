"""A rule's violation by a declared topic, with the place in the file that declares it."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["refuse", "warn"]


@dataclass(frozen=True)
class Place:
    """The file, line and field of a declaration."""

    file: str
    line: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where} ({self.field})" if self.field else where


@dataclass(frozen=True)
class Violation:
    """A violation of a rule. `refuse`: nothing of the plan is applied. `message`: the problem and the remedy."""

    severity: Severity
    rule: str
    topic: str
    message: str
    place: Place | None = None

    def __str__(self) -> str:
        word = "refused" if self.severity == "refuse" else "warning"
        return f"{f'{self.place}: ' if self.place else ''}{word} by {self.rule}: {self.message}"
