"""Columns that take the names of others, and columns that come back."""

from dataclasses import replace

import pytest

from platform_defs.contract.evolution.changes import ChangeClass
from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.evolution.statements import ColumnShape, Given, shape_of
from platform_defs.contract.model.column_types import STRING
from platform_defs.contract.model.contract import Column
from tests.unit.evolution.test_evolution import good


def _renaming(*columns: tuple[str, str]) -> list[str]:
    """Return the actions that give a table of the columns a and z these, each with its earlier name."""
    old = good()
    made = tuple(Column(name, STRING, False, renamed_from=before) for name, before in columns)
    before, after = (
        replace(old, tables=(replace(old.row_table, columns=each),))
        for each in ((Column("a", STRING, False), Column("z", STRING, False)), made)
    )
    found = plan(before, after, given=Given(breaking=True))
    assert not any(item.refused for item in found.statements)
    kinds = [change.kind for change in found.changes if change.table]
    assert kinds.count(ChangeClass.BREAKS_READERS) == sum(item.kind == "rename" for item in found.statements)
    assert kinds.count(ChangeClass.FREE) == sum(item.kind == "add" for item in found.statements)
    return [item.action.replace('"', "").replace("COLUMN ", "") for item in found.statements]


@pytest.mark.parametrize("order", [1, -1])
def test_a_column_is_renamed_before_another_takes_its_name_in_whatever_order_they_are_written(order: int) -> None:
    renamed = ["RENAME a TO b", "ADD a text"]
    assert _renaming(*[("a", ""), ("b", "a"), ("z", "")][::order]) == renamed
    assert _renaming(*[("a", "z"), ("b", "a")][::order]) == ["RENAME a TO b", "RENAME z TO a"]
    assert _renaming(*[("a", "z"), ("b", "a"), ("z", "")][::order]) == [
        "RENAME a TO b",
        "RENAME z TO a",
        "ADD z text",
    ]
    assert _renaming(*[("a", ""), ("z", "a")][::order]) == []  # written long ago: the table has both


def test_a_required_column_that_comes_back_is_checked_and_needs_no_value() -> None:
    new = good()
    columns = tuple(column for column in new.row_table.columns if column.name != "order_id")
    old = replace(new, tables=(replace(new.row_table, columns=columns), *new.accumulates))
    left = {table.name: dict(shape_of(table)) for table in new.tables}
    left[new.row_table.name]["order_id"] = ColumnShape("text", not_null=False)
    found = plan(old, new, left)
    assert [change.kind for change in found.changes] == [ChangeClass.CHECKED]
    (statement,) = found.statements
    assert (statement.kind, statement.checks_rows, statement.refused) == ("demand", True, "")


@pytest.mark.parametrize("required", [True, False])
def test_a_check_that_not_null_left_goes_once_the_contract_no_longer_requires_its_column(*, required: bool) -> None:
    old = good()
    columns = tuple(
        replace(c, name="order", renamed_from="order_id", required=required) if c.name == "order_id" else c
        for c in old.row_table.columns
    )
    new = replace(old, tables=(replace(old.row_table, columns=columns),))
    left = {table.name: dict(shape_of(table)) for table in old.tables}
    left[old.row_table.name]["order_id"] = ColumnShape("text", not_null=False, checked=True)
    found = [item.action for item in plan(old, new, left, Given(breaking=True)).statements]
    dropped = [] if required else ["DROP CONSTRAINT IF EXISTS tidegate_not_null"]
    assert [item for item in found if "CONSTRAINT" in item] == dropped
    unchanged = plan(new, new, {new.row_table.name: {"order": left[old.row_table.name]["order_id"]}})
    assert ["uncheck" in item.kind for item in unchanged.statements if item.column == "order"] == [True] * len(dropped)
