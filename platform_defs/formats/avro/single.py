"""A reader of one message at a time: slower than a block, and exact about errors. Its result is authoritative.

A message is first walked from its first byte to its last: the first byte that Avro does not allow is the reason. Only
then are the values converted, in the contract's order: the first that does not fit the contract is the reason.
"""

from typing import Any

from platform_defs.errors.words import plural
from platform_defs.formats.avro.arrays import array_to, items
from platform_defs.formats.avro.documents import json_of
from platform_defs.formats.avro.resolve import Node, Plan, Target, targets_of
from platform_defs.formats.avro.schema import NULL, Array, Definite, Enum, Fixed, Primitive, Union, spelled
from platform_defs.formats.avro.values import Convert, convert_to
from platform_defs.formats.avro.walk import Walk
from platform_defs.formats.blocks.decoded import Row
from platform_defs.formats.blocks.reason import Reason, Wrong


class MessageReader:
    """Reads single messages of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fields = plan.contract.fields
        self._converts = {target.position: _convert(plan, target) for target in targets_of(plan.root)}

    def read(self, data: bytes) -> Row | Reason:
        """Return the row of the payload, its values as Arrow takes them; or the first reason why there is none."""
        found: list[Any] = [None] * len(self._fields)
        walk = Walk(self._plan.schema, data)
        try:
            self._message(walk, found)
            values = [self._converted(position, raw) for position, raw in enumerate(found)]
        except Wrong as wrong:
            return wrong.reason
        return Row(values, unknown=bool(self._plan.unknown))

    def _message(self, walk: Walk, found: list[Any]) -> None:
        root = walk.schema.definite(self._plan.root.type)
        if isinstance(root, Union):
            index = walk.index(root)
            root = walk.schema.definite(root.branches[index])
            if index != self._plan.branch:
                raise Wrong("OtherRecord", f"the message is {spelled(root)}, not the record that the contract reads")
        self._value(walk, self._plan.root, root, found)
        walk.place, walk.field = "", None
        if left := len(walk.data) - walk.at:
            raise walk.wrong("TrailingBytes", f"the record has ended, with {plural(left, 'byte')} left", walk.at)

    def _node(self, walk: Walk, node: Node, found: list[Any]) -> None:
        """Read a field of a record that is split into fields."""
        walk.place = node.path
        walk.field = self._fields[node.targets[0].position].name if node.targets else None
        if not node.targets and node.fields is None:
            walk.skip(node.type)
            return
        of = walk.schema.definite(node.type)
        if isinstance(of, Union):
            of = walk.branch(of)
        if of == NULL:
            return
        start = walk.at
        raw = self._value(walk, node, of, found)
        for target in node.targets:
            whole = target.conversion.kind == "json"
            found[target.position] = (of, walk.data[start : walk.at]) if whole else raw

    def _value(self, walk: Walk, node: Node, of: Definite, found: list[Any]) -> Any:
        """Return the value of a scalar, or the items of an array column; pass anything else and return None."""
        if node.fields is not None:
            walk.deeper()
            for item in node.fields:
                self._node(walk, item, found)
            walk.depth -= 1
            return None
        match of:
            case Primitive() | Fixed() | Enum():
                return walk.scalar(of)
            case Array() if any(target.conversion.items for target in node.targets):
                return list(items(walk, of))
            case _:
                return walk.skip(of)

    def _converted(self, position: int, raw: Any) -> Any:
        if raw is None:
            return None
        try:
            return self._converts[position](raw)
        except Wrong as wrong:
            item = self._fields[position]
            raise Wrong(wrong.reason.error_class, f"{item.place} {wrong.reason.message}", item.name) from None


def _convert(plan: Plan, target: Target) -> Convert:
    if target.conversion.kind == "json":
        return lambda raw: json_of(plan.schema, *raw)
    if target.conversion.items:
        return array_to(plan.contract.fields[target.position].type, target.conversion)
    return convert_to(plan.contract.fields[target.position].type, target.conversion)
