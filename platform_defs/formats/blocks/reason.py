"""The reason why a message is not a row, as the single readers of all formats return it."""

from dataclasses import dataclass
from typing import TypeVar

Read = TypeVar("Read")


@dataclass(frozen=True)
class Reason:
    """The reason why a message, or a field of it, could not be read."""

    error_class: str
    message: str
    field: str | None = None


class Wrong(Exception):
    """The message cannot be read; carries the reason."""

    def __init__(self, error_class: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.reason = Reason(error_class, message, field)


def unless_wrong(found: Read | Reason) -> Read:
    """Return what a reader returned. Raises Wrong for a Reason."""
    if isinstance(found, Reason):
        raise Wrong(found.error_class, found.message, found.field)
    return found


MISSING_KEY = ("MissingKey", "the message has no key; an upsert table needs one, since the key decides the row")
