"""A column's name comes again: for another column, after a rename, or after the one that had it was dropped."""

from dataclasses import replace

import pytest

from platform_defs.contract.column_types import INTEGER, STRING
from platform_defs.contract.model import Column, Field
from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput
from platform_defs.evolution.statements import Given
from platform_defs.verification.verify import verify
from tests.integration.test_contract_apply import apply, changed, exact, views, with_field
from tests.integration.test_verify import customer, view
from tests.replays import execute
from tests.world import World


def renamed(pipeline: Pipeline, old: str, new: str) -> Pipeline:
    """The field and its column under another name; messages have the old one."""
    contract = pipeline.contract
    fields = tuple(replace(f, name=new, physical_path=(old,)) if f.name == old else f for f in contract.fields)
    columns = tuple(replace(c, name=new, renamed_from=old) if c.name == old else c for c in contract.row_table.columns)
    return changed(pipeline, "2.0.0", fields=fields, columns=columns)


def without(pipeline: Pipeline, name: str) -> Pipeline:
    """The next version, without the field and its column."""
    contract = pipeline.contract
    fields = tuple(item for item in contract.fields if item.name != name)
    columns = tuple(column for column in contract.row_table.columns if column.name != name)
    return changed(pipeline, "2.0.0", fields=fields, columns=columns)


def upserted(world: World, pipeline: Pipeline, *messages: tuple[str, bytes]) -> list[tuple[str, str | None]]:
    """Send messages by key and run; of each row then, key and tier."""
    world.send(pipeline, [value for _, value in messages], keys=[key.encode() for key, _ in messages], partition=0)
    world.drain(pipeline)
    found = world.rows(f"select _key, tier from {pipeline.contract.row_table.name} order by 1")
    return [(row["_key"], row["tier"]) for row in found]


def test_what_an_upsert_no_longer_has_is_empty_in_the_rows_that_it_writes(world: World) -> None:
    first = world.new_pipeline("upsert")
    table = first.contract.row_table.name
    upserted(world, first, ("C1", customer(1)), ("C2", customer(2)))
    world.rows(f"alter table {table} add note text, add seen text default 'no'")  # a user's own
    world.rows(f"update {table} set note = 'calls often', seen = 'yes'")
    second = without(first, "tier")
    assert upserted(world, second, ("C1", customer(1, tier="basic"))) == [("C1", None), ("C2", "gold")]
    exact(world, second)
    third = changed(first, "3.0.0")
    assert apply(world, third).plan.statements == ()
    found = upserted(world, third, ("C3", customer(3)))
    assert found == [("C1", None), ("C2", "gold"), ("C3", "gold")]
    assert world.rows(f"select note, seen from {table} where _key = 'C1'") == [{"note": "calls often", "seen": "yes"}]
    exact(world, third)
    world.rows(f"update {table} set tier = 'gold' where _key = 'C1'")
    report = verify(third, world.endpoints, world.spark)
    assert (report.ok, report.wrong) == (False, 1)


def test_a_replay_empties_what_an_upsert_no_longer_has(world: World) -> None:
    first = world.new_pipeline("upsert")
    upserted(world, first, ("C1", customer(1)), ("C2", customer(2)))
    second = without(first, "tier")
    assert upserted(world, second, ("C1", customer(1, name="Grace"))) == [("C1", None), ("C2", "gold")]
    execute(world, second)
    assert upserted(world, second) == [("C1", None), ("C2", None)]
    exact(world, second)


def test_what_an_append_table_no_longer_demands_is_empty_in_new_rows(world: World) -> None:
    first = views(world)
    second = without(first, "visitor")
    apply(world, second)
    world.send(second, [view(8)])
    world.drain(second)
    third = changed(first, "3.0.0")
    with pytest.raises(BadInput, match=r"visitor is NULL in 1 row:"):
        apply(world, third)
    execute(world, third)
    assert world.rows(f"select count(visitor) as n from {first.contract.row_table.name}") == [{"n": 9}]
    exact(world, third)


@pytest.mark.slow
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


def test_a_new_column_gets_the_name_in_the_version_that_renames_the_one_that_had_it(world: World) -> None:
    first = with_field(views(world))
    apply(world, first)
    world.send(first, [view(8, channel="web")])
    world.drain(first)
    contract = first.contract
    others = tuple(item for item in contract.fields if item.name != "channel")
    fields = [
        Field(name, STRING, False, (), physical_path=(key,))
        for name, key in (("channel", "chan"), ("medium", "channel"))
    ]
    columns = tuple(column for column in contract.row_table.columns if column.name != "channel")
    made = (Column("channel", STRING, False), Column("medium", STRING, False, renamed_from="channel"))
    second = changed(first, "2.0.0", fields=(*others, *fields), columns=(*columns, *made))
    apply(world, second, Given(breaking=True))
    world.send(second, [view(9, channel="app", chan="new")])
    world.drain(second)
    found = world.rows(f"select medium, channel from {contract.row_table.name} where medium is not null order by 1")
    assert [(row["medium"], row["channel"]) for row in found] == [("app", "new"), ("web", None)]
    exact(world, second)


@pytest.mark.slow
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
