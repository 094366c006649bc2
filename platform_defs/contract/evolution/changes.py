"""The changes of a contract, and their classes: the effects on rows, readers and producers."""

from dataclasses import dataclass
from enum import StrEnum


class ChangeClass(StrEnum):
    """The class of a change: the action it requires. docs/how-to/change-a-contract.md explains each."""

    WORDS = "words"  # descriptions, limits: they affect no message
    FREE = "free"  # every message that was a row still is, and readers are unaffected
    CHECKED = "checked"  # existing rows are checked
    VALUE = "value"  # existing rows need a value that no message had
    KEEP = "keep"  # the column stays, and later rows leave it empty
    REPLAY = "replay"  # existing rows must be rebuilt
    DECLASSIFIES = "declassifies"  # values that were hidden are shown from then on
    BREAKS_READERS = "breaks readers"  # readers of the table must be changed at the same time
    BREAKS_PRODUCERS = "breaks producers"  # messages that were rows become dead letters
    NEW_PIPELINE = "new pipeline"  # the contract needs another id


class Bump(StrEnum):
    """The increase of the contract's version that a change requires."""

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
    sentence: str  # its effect
    table: str | None = None  # schema.table; None for the message, or the contract as a whole
    column: str | None = None  # the column, or the message's field
    rule: str | None = None  # the row rule that is looser: open dead letters of this reason may pass now

    @property
    def bump(self) -> Bump:
        """The increase of the version that this change requires."""
        return _BUMPS.get(self.kind, Bump.MAJOR)
