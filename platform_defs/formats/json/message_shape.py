"""The parts of a message that a contract reads: the paths of its fields as a tree of the objects that are taken apart.

The root is the message itself. A key may lead to columns, into an object that is taken apart, or (a json column and
columns of values within it) to both.
"""

from dataclasses import dataclass, field
from functools import cached_property

from platform_defs.contract.model.column_types import JSON
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.message_path import MessagePath


@dataclass(frozen=True)
class ObjectShape:
    """An object that is taken apart, and the targets of its known keys."""

    path: MessagePath = ()  # of the object; empty: the message
    columns: dict[str, list[int]] = field(default_factory=dict)  # positions in contract.fields, by key
    objects: dict[str, "ObjectShape"] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)  # keys whose values are kept whole, in a json column

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys that the contract knows."""
        return frozenset(self.columns) | frozenset(self.objects)

    @cached_property
    def apart(self) -> tuple[tuple[str, "ObjectShape"], ...]:
        """The objects in which a key can be unknown: in a json column none is."""
        return tuple((key, shape) for key, shape in self.objects.items() if key not in self.whole)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """All columns here and below, in the order of the contract."""
        below = [position for shape in self.objects.values() for position in shape.positions]
        return tuple(sorted([*below, *(position for found in self.columns.values() for position in found)]))


def message_shape(contract: Contract) -> ObjectShape:
    """Return the tree of `contract`'s fields."""
    root = ObjectShape()
    for position, item in enumerate(contract.fields):
        shape = root
        for depth, key in enumerate(item.path[:-1], 1):
            shape = shape.objects.setdefault(key, ObjectShape(item.path[:depth]))
        shape.columns.setdefault(item.path[-1], []).append(position)
        if item.type == JSON:
            shape.whole.add(item.path[-1])
    return root
