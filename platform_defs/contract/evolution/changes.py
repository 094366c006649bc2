"""The changes of a contract, and their classes: the effects on rows, readers and producers. The contract's version must
reflect how much has changed: https://semver.org.
"""

import re
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


_NUMBERS = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?")
Numbers = tuple[int, int, int]
_BY_PLACE = (Bump.MAJOR, Bump.MINOR, Bump.PATCH)  # of a version's number


def version_mistake(old: str, new: str, needed: Bump) -> str | None:
    """Return why a contract that was `old` cannot be `new` now; None if it can.

    If a version is not one, two or three numbers, the new one must only differ.
    """
    before, after = _numbers(old), _numbers(new)
    if before is not None and after is not None and after < before:
        return (
            f"its version is {new}, but {old} has already been applied: this is an older file. To go back to it, "
            f"give it a higher version: {_next(old, needed)}"
        )
    if needed is Bump.NONE:
        return None
    if old == new:
        return f"it has changed, but its version is still {new}. Write version: {_next(old, needed)}"
    if before is None or after is None:
        return None
    differs = (bump for bump, one, other in zip(_BY_PLACE, before, after, strict=True) if one != other)
    if ORDER.index(next(differs, Bump.NONE)) < ORDER.index(_needed(before, needed)):
        less = f"these changes require a {needed} version bump, and {old} -> {new} is less"
        return f"{less}. Write version: {_next(old, needed)}"
    return None


def _numbers(version: str) -> Numbers | None:
    found = _NUMBERS.fullmatch(version.strip())
    return None if found is None else (int(found[1]), int(found[2] or 0), int(found[3] or 0))


def _needed(before: Numbers, needed: Bump) -> Bump:
    """Return the bump that is needed: before 1.0.0 a minor version may break (https://semver.org/#spec-item-4)."""
    return Bump.MINOR if needed is Bump.MAJOR and before[0] == 0 else needed


def _next(old: str, needed: Bump) -> str:
    numbers = _numbers(old)
    if numbers is None:
        return "another one"
    major, minor, patch = numbers
    match _needed(numbers, needed):
        case Bump.MAJOR:
            return f"{major + 1}.0.0"
        case Bump.MINOR:
            return f"{major}.{minor + 1}.0"
        case _:
            return f"{major}.{minor}.{patch + 1}"
