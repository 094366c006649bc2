"""The reason why a message is not a row, as the single readers of all formats return it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """The reason why a message, or a field of it, could not be read."""

    error_class: str
    message: str
    field: str | None = None


MISSING_KEY = ("MissingKey", "the message has no key; an upsert table needs one, since the key decides the row")
