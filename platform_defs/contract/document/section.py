"""A part of a contract and the keys that it may have, for the tables of contract/keys/contract_keys.py."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from platform_defs.contract.document.node import Node

REQUIRED = "required"
ANY_PLACE = ("id", "tags", "authoritativeDefinitions")  # keys that ODCS has for readers, at most parts
ELEMENT = (*ANY_PLACE, "businessName", "synonyms", "deprecated")


@dataclass(frozen=True)
class Kind:
    """The values that a key takes."""

    text: str  # describes them, in the reference and in a mistake
    read: Callable[[Node[Any], str], Any]  # from the node and the key's name; raises BadInput for any other value
    write: Callable[[Any], Any] = lambda value: value  # as YAML has it: the inverse of `read`


@dataclass(frozen=True)
class Key:
    """One key. `default` is the default: `required`, a value, or a sentence; empty if there is none."""

    name: str
    meaning: str
    values: str | Kind  # a text: the reader has a function for this key
    default: str = ""
    example: str = ""
    named: str = ""  # in the model; empty: as here, in snake case

    @cached_property
    def attribute(self) -> str:
        """The attribute of the model."""
        return self.named or re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", self.name)

    def read(self, node: Node[Any]) -> Any:
        """Return the value at `node`. Raises BadInput, at its line, for one that the key does not take."""
        assert isinstance(self.values, Kind)  # noqa: S101
        return self.values.read(node, self.name)


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
        return frozenset({*self.names(), *self.shown_only})

    def refuse_others(self, node: Node[Any]) -> None:
        """Raise BadInput for a key at `node` that Tidegate neither reads nor shows: accepting it would promise what
        nothing enforces.
        """
        reported = {mistake.field for mistake in node.text.mistakes}
        for key in node.written_keys():
            if key not in self.known and node.child(key).name not in reported:
                hint = self.hints.get(key, "Tidegate does not enforce it")
                raise node.child(key).refused(f"{key} is not supported here: {hint}")

    def __getitem__(self, name: str) -> Key:
        return next(key for key in self.keys if key.name == name)

    def names(self) -> list[str]:
        return [key.name for key in self.keys]


def read_values(keys: Iterable[Key], given: Mapping[str, Node[Any]]) -> dict[str, Any]:
    """Return the values of the keys that are given, by the model's attribute. Raises BadInput for the first mistake."""
    return {key.attribute: key.read(given[key.name]) for key in keys if key.name in given}


def properties(keys: Iterable[Key], of: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the custom properties whose values are not the default, as YAML has them: the inverse of `read_values`."""
    found = list[dict[str, Any]]()
    for key in keys:
        value = of.get(key.attribute)
        if value not in (None, "", defaults.get(key.attribute)):
            found.append(
                {"property": key.name, "value": key.values.write(value) if isinstance(key.values, Kind) else value}
            )
    return found
