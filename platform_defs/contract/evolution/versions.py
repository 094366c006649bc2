"""Checks that the version of a contract reflects how much has changed: https://semver.org."""

import re

from platform_defs.contract.evolution.changes import ORDER, Bump

_NUMBERS = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?")
Numbers = tuple[int, int, int]


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
    if ORDER.index(_bump(before, after)) < ORDER.index(_needed(before, needed)):
        less = f"these changes require a {needed} version bump, and {old} -> {new} is less"
        return f"{less}. Write version: {_next(old, needed)}"
    return None


def _numbers(version: str) -> Numbers | None:
    found = _NUMBERS.fullmatch(version.strip())
    return None if found is None else (int(found[1]), int(found[2] or 0), int(found[3] or 0))


def _needed(before: Numbers, needed: Bump) -> Bump:
    """Return the bump that is needed: before 1.0.0 a minor version may break (https://semver.org/#spec-item-4)."""
    return Bump.MINOR if needed is Bump.MAJOR and before[0] == 0 else needed


def _bump(before: Numbers, after: Numbers) -> Bump:
    """Return which of the numbers is the first that differs."""
    for bump, one, other in zip((Bump.MAJOR, Bump.MINOR, Bump.PATCH), before, after, strict=True):
        if one != other:
            return bump
    return Bump.NONE


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
