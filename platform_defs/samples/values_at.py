"""The values of a made-up message by where a writer's schema has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from json import loads
from typing import Any, cast

from platform_defs.contract.message_path import MessagePath
from platform_defs.contract.model import Field

MISSING = object()  # instead of a value: the contract has no such field


class CannotWriteError(ValueError):
    """A value that the schema has no way to write."""


@dataclass(frozen=True)
class ValuesAt:
    """A JSON document, whose values are found by the paths of its contract's fields."""

    document: Any
    fields: Mapping[MessagePath, Field]  # by path and aliases

    def at(self, path: MessagePath) -> Any:
        """The value of the contract's field there, None where the document has none; MISSING without such a field."""
        item = self.fields.get(path)
        return MISSING if item is None or self.has_below(path) else self.of(item)

    def of(self, item: Field) -> Any:
        """The value of a field."""
        here = self.document
        for key in item.path:
            here = cast("Mapping[str, Any]", here).get(key) if isinstance(here, dict) else None
        return here

    def has_below(self, path: MessagePath) -> bool:
        """Whether the document has a value of a field within the record there."""
        depth = len(path)
        below = (item for found, item in self.fields.items() if len(found) > depth and found[:depth] == path)
        return any(self.of(item) is not None for item in below)

    def is_json(self, path: MessagePath) -> bool:
        """Whether the field there takes any value."""
        return path in self.fields and self.fields[path].type.kind == "json"


def by_place(fields: Sequence[Field]) -> dict[MessagePath, Field]:
    """The fields by each of their names; of two that claim a name, the one that it is the path of."""
    found = {alias: item for item in fields for alias in item.aliases}
    return found | {item.path: item for item in fields}


def parsed(text: bytes) -> Any:
    """The document; numbers with a point as decimals. Raises ValueError."""
    return loads(text, parse_float=Decimal)
