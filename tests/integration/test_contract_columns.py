"""A column's name comes again: for another column, after a rename, or after the one that had it was dropped."""

from dataclasses import replace

import pytest

from platform_defs.contract.column_types import INTEGER, STRING
from platform_defs.contract.model import Column, Field
from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput
from platform_defs.evolution.statements import Given
from tests.integration.test_contract_apply import apply, changed, exact, views, with_field
from tests.integration.test_verify import view
from tests.world import World


def renamed(pipeline: Pipeline, old: str, new: str) -> Pipeline:
    """The field and its column under another name; messages have the old one."""
    contract = pipeline.contract
    fields = tuple(replace(f, name=new, physical_path=(old,)) if f.name == old else f for f in contract.fields)
    columns = tuple(replace(c, name=new, renamed_from=old) if c.name == old else c for c in contract.row_table.columns)
    return changed(pipeline, "2.0.0", fields=fields, columns=columns)


def test_a_new_column_gets_the_name_that_a_renamed_one_had(world: World) -> None:
    first = with_field(views(world))
    apply(world, first)
    world.send(first, [view(8, channel="web")])
    world.drain(first)
    second = renamed(first, "channel", "medium")
    apply(world, second, Given(breaking=True))
    world.send(second, [view(9, channel="app")])
    world.drain(second)
    contract = second.contract
    columns = (*contract.row_table.columns, Column("channel", STRING, False))
    made = Field("channel", STRING, False, (), physical_path=("chan",))
    third = changed(second, "2.1.0", fields=(*contract.fields, made), columns=columns)
    apply(world, third)
    world.send(third, [view(10, channel="tv", chan="second")])
    world.drain(third)
    found = world.rows(f"select medium, channel from {contract.row_table.name} where medium is not null order by 1")
    assert [(row["medium"], row["channel"]) for row in found] == [("app", None), ("tv", "second"), ("web", None)]
    exact(world, third)


def test_a_column_that_was_dropped_comes_back_empty_and_is_not_missed(world: World) -> None:
    before = views(world)
    first = with_field(before)
    apply(world, first)
    world.send(first, [view(8, channel="web")])
    world.drain(first)
    old = before.contract
    second = changed(first, "2.0.0", fields=old.fields, columns=old.row_table.columns)
    apply(world, second, Given(drop=frozenset({"channel"})))
    third = with_field(second, version="2.1.0")
    apply(world, third)
    world.send(third, [view(9, channel="app")])
    world.drain(third)
    found = world.rows(f"select channel from {old.row_table.name} where channel is not null")
    assert found == [{"channel": "app"}]
    exact(world, third)


def test_a_column_that_stayed_and_comes_back_with_another_type_names_the_replay(world: World) -> None:
    before = views(world)
    first = with_field(before)
    apply(world, first)
    old = before.contract
    second = changed(first, "2.0.0", fields=old.fields, columns=old.row_table.columns)
    apply(world, second)
    made, column = Field("channel", INTEGER, False, ()), Column("channel", INTEGER, False)
    third = changed(second, "2.1.0", fields=(*old.fields, made), columns=(*old.row_table.columns, column))
    with pytest.raises(BadInput, match=f"channel holds text.*tidegate replay {before.name} --execute"):
        apply(world, third)
