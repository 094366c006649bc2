"""A part of a contract and the keys that it may have, for the tables of contract/keys/keys.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

REQUIRED = "required"
ANY_PLACE = ("id", "tags", "authoritativeDefinitions")  # keys that ODCS has for readers, at most parts
ELEMENT = (*ANY_PLACE, "businessName", "synonyms", "deprecated")


@dataclass(frozen=True)
class Key:
    """One key. `default` is the default: `required`, a value, or a sentence; empty if there is none."""

    name: str
    meaning: str
    values: str
    default: str = ""
    example: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the file, and the keys that it may have."""

    title: str
    path: str  # such as schema[physicalType: topic].properties[]
    meaning: str
    keys: tuple[Key, ...]
    shown_only: tuple[str, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict[str, str])  # for keys that belong elsewhere
    # Keys that earlier versions had, with what to do instead: contracts in the ledger may still have them.
    removed: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def known(self) -> frozenset[str]:
        return frozenset({*(key.name for key in self.keys), *self.shown_only})

    def instead(self, key: str) -> str:
        """Return what to write instead of a key that is not known here."""
        return self.hints.get(key, "Tidegate does not enforce it")

    def __getitem__(self, name: str) -> Key:
        return next(key for key in self.keys if key.name == name)

    def names(self) -> list[str]:
        return [key.name for key in self.keys]
