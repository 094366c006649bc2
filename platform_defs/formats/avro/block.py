"""A reader of many messages at once: one cursor per message, each field read for all of them by numpy.

Values beyond doubt become columns. A message that breaks a rule, or has a rare shape, is doubtful and goes to the
single reader. So a row never depends on the path that its message took.
"""

import numpy as np

from platform_defs.contract.model.column_types import ColumnType
from platform_defs.formats.avro.columns import array_column, column, json_column, lists
from platform_defs.formats.avro.conversions import Conversion
from platform_defs.formats.avro.resolve import Node, Plan
from platform_defs.formats.avro.schema import Array, Definite, Enum, Fixed, Primitive, Union
from platform_defs.formats.avro.value_cursors import Passing, Scalar, Spans, integers, scalar
from platform_defs.formats.blocks.array_columns import SIZE_OF_ITEM
from platform_defs.formats.blocks.arrow import Column, nulls
from platform_defs.formats.blocks.budget import Budget
from platform_defs.formats.blocks.buffer import Integers, Mask, buffer_of
from platform_defs.formats.wire.cursors import Cursors


def read_block(
    plan: Plan, data: object, starts: Integers, stops: Integers, budget: Budget
) -> tuple[list[Column], Mask]:
    """Return the messages data[starts[i]:stops[i]], at least one, as columns in the contract's order and types, and a
    mask of the messages for the single reader, whose rows mean nothing. Both ascend. Raises BlockTooLarge.
    """
    doubtful = np.zeros(len(starts), np.bool_)
    block = _Block(plan, Cursors(buffer_of(data, int(stops[-1])), starts, stops, doubtful, None), budget)
    block.message()
    return block.columns, doubtful


class _Block:
    """A block that is being read into columns."""

    def __init__(self, plan: Plan, cursors: Cursors, budget: Budget) -> None:
        self.plan, self.schema, self.all, self.budget = plan, plan.schema, cursors, budget
        self.passing = Passing(plan.schema, int(cursors.left.sum()))
        self.columns: list[Column] = [nulls(item.type.arrow, len(cursors)) for item in plan.contract.fields]

    def message(self) -> None:
        """Read all messages, from the first byte to the last."""
        if isinstance(self.schema.definite(self.plan.root.type), Union):
            self.all.doubt(integers(self.all) != self.plan.branch)
        self._fields(self.plan.root, self.all, 0)
        self.all.finish()

    def _fields(self, node: Node, cursors: Cursors, level: int) -> None:
        for item in node.fields or ():
            self._node(item, cursors, level + 1)

    def _node(self, node: Node, cursors: Cursors, level: int) -> None:
        """Read a field of a record that is split into fields."""
        of = self.schema.definite(node.type)
        kinds = {target.conversion.kind for target in node.targets}
        if node.fields is None and (kinds <= {"json"} or kinds == {"json", "array"}):
            self._whole(node, of, cursors, level)
        elif isinstance(of, Union):
            self.passing.union(of, cursors, lambda branch, some: self._value(node, branch, some, level))
        else:
            self._value(node, of, cursors, level)

    def _whole(self, node: Node, of: Definite, cursors: Cursors, level: int) -> None:
        """Pass a value; its json columns get it whole."""
        starts = cursors.at
        self.passing.skip(of, cursors, level)
        self._into_columns(node, of, Spans(starts, cursors.at - starts), None, cursors)

    def _value(self, node: Node, of: Definite, cursors: Cursors, level: int) -> None:
        """Read a value that is not null: a record that is split into fields, an array or a scalar."""
        starts, held = cursors.at, None
        if node.fields is not None:
            self._fields(node, cursors, level)
        elif isinstance(of, Array):
            self._arrays(node, of, cursors, level)
            return
        else:
            assert isinstance(of, Primitive | Fixed | Enum)  # noqa: S101  # resolve lets nothing else into a column
            held = scalar(of, cursors)
            if isinstance(of, Enum):
                self.budget.spend(len(cursors) * of.longest * len(node.targets))
        self._into_columns(node, of, Spans(starts, cursors.at - starts), held, cursors)

    def _arrays(self, node: Node, of: Array, cursors: Cursors, level: int) -> None:
        """Read an array that is not null: each item as if it were a message."""
        inner = self.passing.items(of, cursors, level)
        self.budget.spend(len(inner) * SIZE_OF_ITEM * len(node.targets))
        for target in node.targets:
            items, conversion = self.plan.contract.fields[target.position].type.item, target.conversion.items
            assert items  # noqa: S101  # resolve has found both
            assert conversion  # noqa: S101
            alone = Cursors(inner.buffer, inner.at, inner.stops, np.zeros(len(inner), np.bool_), None)
            found = self._items(of, items, conversion, alone)
            self.columns[target.position] = lists(found, alone.doubtful, inner, cursors)

    def _items(self, of: Array, to: ColumnType, conversion: Conversion, alone: Cursors) -> Column:
        item, found = self.schema.definite(of.items), [nulls(to.arrow, len(alone))]

        def read(branch: Definite, some: Cursors) -> None:
            assert isinstance(branch, Primitive | Fixed | Enum)  # noqa: S101  # resolve lets nothing else into a column
            if isinstance(branch, Enum):
                self.budget.spend(len(some) * branch.longest)
            found[0] = column(branch, to, conversion, scalar(branch, some), some)

        if isinstance(item, Union):
            self.passing.union(item, alone, read)
        else:
            read(item, alone)
        return found[0]

    def _into_columns(self, node: Node, of: Definite, spans: Spans, held: Scalar | None, cursors: Cursors) -> None:
        for target in node.targets:
            if target.conversion.items:
                to = self.plan.contract.fields[target.position].type
                found = array_column(self.schema, of, to, target.conversion, spans, cursors)
            elif target.conversion.kind == "json" or held is None:
                found = json_column(self.schema, of, spans, cursors, self.budget)
            else:
                found = column(of, self.plan.contract.fields[target.position].type, target.conversion, held, cursors)
            self.columns[target.position] = found
