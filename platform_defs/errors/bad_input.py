"""A user's contract, transform, setting or argument, or a system of theirs, that cannot be used as it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from platform_defs.errors.root import TidegateError


@dataclass(frozen=True)
class Mistake:
    """A mistake (`problem`) and its place: a file, a line counted from 1, a field."""

    problem: str
    file: str | None = None
    line: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        place = " ".join(part for part in (where, f"({self.field})" if self.field else "") if part)
        return f"{place}: {self.problem}" if place else self.problem


class BadInput(TidegateError):
    """Something a user wrote cannot be used. Names the place, the mistake, and what would be right.

    `problem` is the message without the place, which is `file`, `line` and `field`.
    """

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        self.problem, self.file, self.line, self.field = message, file, line, field
        super().__init__(str(Mistake(message, file, line, field)))

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """The mistake; for SeveralMistakes, all of them."""
        return (Mistake(self.problem, self.file, self.line, self.field),)


class SeveralMistakes(BadInput):
    """A file has more than one mistake. Its place is that of the first; `mistakes` has all of them, by line."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        found = sorted(mistakes, key=lambda one: one.line or 0)
        super().__init__(found[0].problem, file=found[0].file, line=found[0].line, field=found[0].field)
        self.args = ("\n".join(map(str, found)),)
        self.several: list[dict[str, Any]] = [vars(one) for one in found]  # as JSON

    @property
    @override
    def mistakes(self) -> tuple[Mistake, ...]:
        return tuple(Mistake(**one) for one in self.several)


class AccessDenied(BadInput):
    """A system rejects this user's login, or denies it a right. Tried again until access is granted."""


class TopicMissing(BadInput):
    """Kafka has no topic of this name, or none that this user may see."""

    @classmethod
    def named(cls, topic: str) -> "TopicMissing":
        return cls(
            f"topic {topic} does not exist, or this user may not see it (ACL Describe). To create it: tidegate "
            "topics apply, if a contract reads it or topics.yaml lists it. Otherwise, grant the right "
            "(docs/how-to/kafka-rights.md), or start the Kafka cluster that has it",
            field=topic,
        )


class OtherCluster(BadInput):
    """A task reached another cluster than the one that the batch was planned on, as behind another DNS."""


class OtherInstall(BadInput):
    """A task runs on a machine whose installation of Tidegate is not that of the run: it may decode by other rules."""


class LedgerMissing(BadInput):
    """The database has no ledger yet: the schema `tidegate` is not there, or not Tidegate's."""


class LedgerOutdated(BadInput):
    """The ledger is older than this version of Tidegate."""


class LedgerTooNew(BadInput):
    """The ledger is newer than this version of Tidegate, which could misread it."""
