"""What a change of a contract is, and what class of change: what follows for rows, readers and producers."""

from dataclasses import dataclass
from enum import StrEnum


class ChangeClass(StrEnum):
    """What a change asks for. docs/how-to/change-a-contract.md explains each."""

    WORDS = "words"  # descriptions, limits: no message is judged by them
    FREE = "free"  # every message that was a row still is, and readers go on as they are
    CHECKED = "checked"  # existing rows are checked
    VALUE = "value"  # existing rows need a value that no message had
    KEEP = "keep"  # the column stays, and rows that are written from then on leave it empty
    REPLAY = "replay"  # existing rows must be made again
    DECLASSIFIES = "declassifies"  # values that were hidden are shown from then on
    BREAKS_READERS = "breaks readers"  # what reads the table must be changed at the same time
    BREAKS_PRODUCERS = "breaks producers"  # messages that were rows become dead letters
    NEW_PIPELINE = "new pipeline"  # the contract needs another id


class Bump(StrEnum):
    """How much higher the version of a contract has to be."""

    NONE = "none"
    PATCH = "patch"
    MINOR = "minor"
    MAJOR = "major"


_BUMPS = {ChangeClass.WORDS: Bump.PATCH, ChangeClass.FREE: Bump.MINOR}
ORDER = tuple(Bump)


@dataclass(frozen=True)
class Change:
    """One difference between two contracts."""

    sign: str  # + (added), - (gone) or ~ (other)
    what: str  # such as: channel text NULL
    kind: ChangeClass
    sentence: str  # what follows from it
    table: str | None = None  # schema.table; None for the message, or the contract as a whole
    column: str | None = None  # the column, or the message's field
    rule: str | None = None  # the row rule that is looser: open dead letters of this reason may pass now

    @property
    def bump(self) -> Bump:
        """How much higher the version must be because of it."""
        return _BUMPS.get(self.kind, Bump.MAJOR)
