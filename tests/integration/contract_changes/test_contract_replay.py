"""Contracts that require a rebuild, and the outcome for the latest messages."""

from dataclasses import replace

import pytest

from platform_defs.contract.evolution.statements import Given
from platform_defs.contract.model.column_types import INTEGER, STRING, column_type
from platform_defs.contract.model.contract import Aggregate, Column, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract_changes import evolve
from platform_defs.contract_changes.preview import decode_both
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import BadInput
from tests.integration.contract_changes.test_contract_apply import (
    apply,
    changed,
    columns,
    exact,
    versions,
    views,
    with_field,
)
from tests.integration.verify.test_verify import customer, view
from tests.support.replays import counts, execute, nothing_left, shown
from tests.support.world import World


def retyped(pipeline: Pipeline, name: str, kind: str, version: str = "2.0.0") -> Pipeline:
    """Return the pipeline with another type for a field and its column, and without the field's rules."""
    old, of = pipeline.contract, column_type(kind)
    made = tuple(replace(f, type=of, rules=(), examples=()) if f.name == name else f for f in old.fields)
    kept = tuple(replace(c, type=of) if c.name == name else c for c in old.row_table.columns)
    return changed(pipeline, version, fields=made, columns=kept)


@pytest.mark.slow
def test_another_type_is_put_in_place_by_a_replay_with_the_contract(world: World) -> None:
    before = views(world)
    after = retyped(before, "duration_ms", "decimal(20,3)")
    with pytest.raises(BadInput, match="requires a full rebuild from the topic"):
        apply(world, after)
    with pytest.raises(BadInput, match="tidegate contract diff"):
        world.drain(after)
    differing = counts(shown(world, after))
    assert differing["page_views"] == (8, 8, 8, 8)
    assert columns(world, before.contract.row_table)["duration_ms"] == ("bigint", False)  # shown, and nothing more
    execute(world, after)
    assert columns(world, after.contract.row_table)["duration_ms"] == ("numeric(20,3)", False)
    assert versions(world, after) == [("1.0.0", False, False), ("2.0.0", False, True)]
    (batch,) = world.send_and_drain(after, [view(8, duration_ms="1.125")])
    assert batch.rows == 1
    exact(world, after)


@pytest.mark.slow
def test_a_replay_does_not_show_what_was_classified(world: World) -> None:
    before = views(world)
    first, *others = before.contract.fields
    world.drain(changed(before, "1.0.0", fields=(replace(first, classification="pii"), *others)))
    after = retyped(before, "duration_ms", "decimal(20,3)")
    refused = f"{first.name} is no longer classified.*tidegate contract apply {before.name} --allow declassify --yes"
    apart = r".*refuses changes that need a replay: leave those for the next version"
    with pytest.raises(BadInput, match=refused + apart):
        shown(world, after)
    assert nothing_left(world, before)
    with pytest.raises(BadInput, match=refused + apart):  # the contract in force may change while a replay is built
        acquire(world.ledger.url, after.contract, rebuilding=True)
    assert versions(world, before) == [("1.0.0", False, True)]
    with pytest.raises(BadInput, match="requires a full rebuild from the topic"):
        apply(world, after, Given(declassify=True))
    apply(world, changed(before, "2.0.0"), Given(declassify=True))
    execute(world, changed(after, "3.0.0"))
    assert columns(world, after.contract.row_table)["duration_ms"] == ("numeric(20,3)", False)
    exact(world, changed(after, "3.0.0"))


@pytest.mark.slow
def test_a_required_column_without_a_value_for_old_rows_is_filled_by_a_replay(world: World) -> None:
    before = views(world, count=2)
    world.send_and_drain(before, [view(2, channel="web")])
    after = with_field(before, version="2.0.0", required=True)
    execute(world, after)
    assert columns(world, after.contract.row_table)["channel"] == ("text", True)
    assert len(world.table(after)) == 1
    assert {letter["error_class"] for letter in world.dead_letters(after)} == {"channel_required"}
    exact(world, after)


@pytest.mark.slow
def test_where_columns_change_only_everything_is_replayed_and_nothing_may_refer_to_the_rows(world: World) -> None:
    before = views(world)
    world.send_and_drain(before, [view(8)])
    after = retyped(before, "duration_ms", "string")
    second = world.rows("select max(batch_id) as id from tidegate.batch where pipeline = %s", before.name)[0]["id"]
    with pytest.raises(BadInput, match="--from earliest"):
        shown(world, after, str(second))
    table = before.contract.row_table.name
    world.rows(f"alter table {table} add unique (event_id)")
    world.rows(f"create table {before.name}.notes (event_id text references {table} (event_id))")
    with pytest.raises(BadInput, match=r"notes refers to them"):
        shown(world, after)


@pytest.mark.longest
def test_an_accumulate_that_is_added_is_created_empty_and_then_filled(world: World) -> None:
    before = views(world)
    made = (Column("visitor", STRING, True), Column("seen", INTEGER, True))
    counted = Table(
        f"{before.name}.visitors",
        "accumulate",
        made,
        group_by=("visitor",),
        aggregates=(Aggregate("seen", "count", None),),
    )
    tables = (before.contract.row_table, counted)
    after = replace(before, contract=replace(before.contract, version="2.0.0", tables=tables))
    with pytest.raises(BadInput, match="tidegate contract apply"):
        world.drain(after)
    with pytest.raises(BadInput, match=r"not been created yet\. Run tidegate contract apply"):
        shown(world, after)
    done = apply(world, after)
    assert [table.name for table in done.tables] == [counted.name]
    assert apply(world, after).empty
    with pytest.raises(BadInput, match="tidegate replay"):
        world.drain(after)
    execute(world, after)
    assert world.rows(f"select visitor, seen from {counted.name}") == [{"visitor": "ada", "seen": 8}]
    world.send_and_drain(after, [view(8)])
    exact(world, after)


@pytest.mark.slow
def test_an_upsert_is_judged_by_the_contract_of_each_row(world: World) -> None:
    before = world.new_pipeline("upsert")
    world.send_and_drain(before, [customer(n) for n in range(6)], keys=[f"C{n}".encode() for n in range(6)])
    after = with_field(before)
    apply(world, after)
    world.send(after, [customer(n, channel="web") for n in range(3)], keys=[f"C{n}".encode() for n in range(3)])
    world.drain(after)
    found = world.rows(f"select channel, count(*) as n from {after.contract.row_table.name} group by 1 order by 1")
    assert found == [{"channel": "web", "n": 3}, {"channel": None, "n": 3}]
    exact(world, after)


def test_a_pipeline_that_has_never_run_has_nothing_to_apply(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=None)
    world.ledger.migrate()
    with pytest.raises(BadInput, match="its first run creates the tables"):
        apply(world, pipeline)


@pytest.mark.slow
def test_a_pipeline_from_before_contracts_were_kept_is_judged_by_its_first(world: World) -> None:
    before = views(world)
    for statement in (
        "update tidegate.pipeline set contract_digest = null where name = %s",
        "update tidegate.batch set contract_digest = null where pipeline = %s",
        "delete from tidegate.contract_application where pipeline = %s",
        "delete from tidegate.contract where pipeline = %s",
    ):
        world.rows(statement, before.name)
    exact(world, before)
    assert world.drain(before) == []  # which records it
    after = with_field(before)
    apply(world, after)
    world.send_and_drain(after, [view(8, channel="web")])
    exact(world, after)
    assert versions(world, after) == [("1.0.0", False, False), ("1.1.0", True, True)]


def test_the_latest_messages_are_judged_by_both_contracts_and_nothing_is_written(world: World) -> None:
    before = views(world, count=40)
    limit = tuple(
        replace(f, rules=tuple(replace(r, argument=9) if r.kind == "maximum" else r for r in f.rules))
        if f.name == "duration_ms"
        else f
        for f in before.contract.fields
    )
    after = changed(before, "2.0.0", fields=limit)
    world.send(before, [b"not json"])
    seen = decode_both(before.contract, after.contract, world.endpoints, 5, print)
    assert seen.messages == 20
    assert (seen.before.rows, dict(seen.before.dead_letters)) == (19, {"InvalidJson": 1})
    assert (seen.after.rows, dict(seen.after.dead_letters)) == (0, {"InvalidJson": 1, "duration_ms_maximum": 19})
    assert world.dead_letters(before) == []
    assert evolve.propose(world.endpoints.postgres_url, after.contract, evolve.Given()).plan.statements == ()
