"""The values of a generated message, by their place in a writer's schema."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from platform_defs.contract.model.contract import Field
from platform_defs.contract.model.message_path import MessagePath

MISSING = object()  # instead of a value: the contract has no such field


@dataclass(frozen=True)
class Places:
    """The possible places of a contract's fields in a writer's schema."""

    fields: Mapping[MessagePath, Field]  # by path and aliases
    records: Mapping[MessagePath, Sequence[Field]]  # of a record: the fields within it


@dataclass(frozen=True)
class ValuesAt:
    """A JSON document, whose values are found by the paths of its contract's fields."""

    document: Any
    places: Places

    def at(self, path: MessagePath) -> Any:
        """Return the value of the contract's field at `path`, None if the document has none; MISSING if there is no
        such field, or a value within it.
        """
        item = self.places.fields.get(path)
        return MISSING if item is None or self.has_below(path) else self.of(item)

    def of(self, item: Field) -> Any:
        """Return the value of a field; None if the document has none."""
        here = self.document
        for key in item.path:
            here = cast("Mapping[str, Any]", here).get(key) if isinstance(here, dict) else None
        return here

    def has_below(self, path: MessagePath) -> bool:
        """Return True if the document has a value of a field within the record there."""
        return any(self.of(item) is not None for item in self.places.records.get(path, ()))

    def is_json(self, path: MessagePath) -> bool:
        """Return True if the field there takes any value."""
        return path in self.places.fields and self.places.fields[path].type.kind == "json"


def places_of(fields: Sequence[Field]) -> Places:
    """Return the fields' places by all their names; a name goes to the field with that path, then to aliases."""
    found = {alias: item for item in fields for alias in item.aliases} | {item.path: item for item in fields}
    records = dict[MessagePath, list[Field]]()
    for path, item in found.items():
        for depth in range(1, len(path)):
            records.setdefault(path[:depth], []).append(item)
    return Places(found, records)
