"""Replays whose result would be wrong, or that cannot be swapped in, are refused with the reason; nothing changes."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.plan.replay_plan import ReplayStart
from platform_defs.errors import BadInput, Halt, Retryable
from platform_defs.replay.replay import Replay
from tests.chaos.halts import halted, resolve_halt
from tests.integration.verify.test_verify import customer, send_customers, view
from tests.support.kafka.logs import add_partitions, delete_records
from tests.support.replays import bank, counts, execute, nothing_left, shown, views
from tests.support.world import World, transfers


@pytest.mark.longest
def test_a_partial_replay_of_what_accumulates_is_refused(world: World) -> None:
    pipeline = bank(world)
    last = world.rows("select max(batch_id) as id from tidegate.batch where pipeline = %s", pipeline.name)[0]["id"]
    with pytest.raises(BadInput, match=r"balances \(accumulate\) cannot be replayed from batch"):
        shown(world, pipeline, str(last))


@pytest.mark.slow
def test_a_replay_of_what_retention_took_is_refused_with_the_ranges(world: World) -> None:
    pipeline = bank(world)
    delete_records(world, pipeline, {1: 5})
    with pytest.raises(BadInput, match=r"no longer has partition 1 \[0, 5\)"):
        shown(world, pipeline)


@pytest.mark.slow
@pytest.mark.parametrize("begun", [True, False])
def test_a_replay_of_an_upsert_whose_topic_grew_is_refused(world: World, begun: bool) -> None:
    pipeline = world.new_pipeline("upsert", transform=None)
    if begun:
        world.send(pipeline, [customer(1)], keys=[b"k"])
    world.drain(pipeline)
    add_partitions(world, pipeline, 6)
    world.send_and_drain(pipeline, [customer(2)], keys=[b"k"], partition=5)
    with pytest.raises(BadInput, match="partitions were added"):
        shown(world, pipeline)


@pytest.mark.slow
def test_a_halted_pipeline_is_settled_before_it_is_replayed(world: World) -> None:
    pipeline = world.new_pipeline(dead_letter_minimum=1, dead_letter_share=0.1)
    world.send_and_drain(pipeline, transfers(4))
    world.send(pipeline, [b"not json"] * 4)
    with pytest.raises(Halt):
        world.drain(pipeline)
    with pytest.raises(BadInput, match="resolve the halt first: tidegate resolve"):
        shown(world, pipeline)


def test_a_pipeline_that_never_ran_has_nothing_to_replay(world: World) -> None:
    with pytest.raises(BadInput, match="nothing to replay"):
        shown(world, world.new_pipeline())


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", ReplayStart()),
        ("12", ReplayStart(batch=12)),
        ("0:100,1:250", ReplayStart(offsets={0: 100, 1: 250})),
        ("2026-11-21T10:00:00Z", ReplayStart(timestamp=datetime(2026, 11, 21, 10, tzinfo=UTC))),
    ],
)
def test_where_a_replay_begins_is_read_in_four_forms(text: str, start: ReplayStart) -> None:
    assert ReplayStart.parse(text) == start


@pytest.mark.parametrize("text", ["yesterday", "2026-11-21T10:00:00", "0:1:2", "0:x", "-1", ""])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        ReplayStart.parse(text)


@pytest.mark.longest
def test_rows_that_compaction_took_for_good_are_not_replaced_by_nothing(world: World) -> None:
    pipeline = world.new_pipeline("upsert", transform=None, config={"cleanup.policy": "delete"})
    world.send_and_drain(pipeline, [customer(1), b"not json", customer(2)], keys=[b"1", b"1", b"2"], partition=0)
    found = Replay(pipeline, world.endpoints, world.spark)
    first = found.first_batch(ReplayStart())
    assert counts(found.show(first, print))["customers"] == (2, 2, 0, 0)
    # As built if the cleaner has left only the last message of each key.
    world.rows(f"delete from {pipeline.name}__replay.customers where _key = '1'")
    world.rows("update tidegate.batch_range set gaps = '{[0,1)}' where topic = %s", pipeline.contract.topic)
    with pytest.raises(BadInput, match="compaction removed the messages of 1 key of"):
        found.show(first, print)


@pytest.mark.longest
def test_batches_of_another_topic_cannot_be_built_again(world: World) -> None:
    pipeline = views(world, batches=1)
    other = world.new_pipeline("append", transform=None)
    moved = Pipeline(replace(pipeline.contract, topic=other.contract.topic))
    world.send(moved, [view(n) for n in range(8)])
    halted(world, moved, "topic_changed", partial(world.drain, moved))
    resolve_halt(world, moved, "beginning")
    world.drain(moved)
    with pytest.raises(BadInput, match="the log that the batches up to"):
        shown(world, moved)
    last = world.rows("select max(batch_id) as id from tidegate.batch where pipeline = %s", pipeline.name)[0]["id"]
    assert counts(execute(world, moved, str(last)))["page_views"] == (8, 8, 0, 0)


@pytest.mark.longest
def test_two_replays_of_one_pipeline_do_not_meet(world: World) -> None:
    pipeline = bank(world)
    found = Replay(pipeline, world.endpoints, world.spark)
    alone = found._replacement.alone(world.endpoints.postgres_url)
    with alone, pytest.raises(Retryable, match="another session is replaying it"):
        found.discard()


@pytest.mark.longest
def test_somebody_elses_schema_of_that_name_is_left_alone(world: World) -> None:
    pipeline = bank(world)
    world.rows(f"create schema {pipeline.name}__replay")
    with pytest.raises(BadInput, match="is not a replay's"):
        shown(world, pipeline)
    world.rows(f"comment on schema {pipeline.name}__replay is 'other~replay'")
    with pytest.raises(BadInput, match=r"contains the replay of other.* tidegate replay other --discard"):
        shown(world, pipeline)
    world.rows(f"drop schema {pipeline.name}__replay")
    shown(world, pipeline)


@pytest.mark.slow
def test_a_partitioned_table_is_refused_before_anything_is_built(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=None)
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"create table {pipeline.name}.child () inherits ({table})")
    world.send_and_drain(pipeline, [view(n) for n in range(4)])
    with pytest.raises(BadInput, match="ordinary tables only"):
        shown(world, pipeline)
    assert nothing_left(world, pipeline)


@pytest.mark.longest
def test_a_table_that_takes_deleted_rows_back_is_noticed_and_nothing_is_changed(world: World) -> None:
    pipeline = views(world, batches=1)
    table, name = pipeline.contract.row_table.name, pipeline.name
    world.rows(f"update {table} set visitor = 'somebody' where _offset = 1")
    before = world.table(pipeline)
    back = f"begin insert into {table} select old.*; return null; end"
    world.rows(f"create function {name}.back() returns trigger language plpgsql as '{back}'")
    world.rows(f"create trigger back after delete on {table} for each row execute function {name}.back()")
    with pytest.raises(BadInput, match=r"4 rows to delete"):
        execute(world, pipeline)
    assert world.table(pipeline) == before


@pytest.mark.longest
def test_a_batch_that_a_replay_has_replaced_is_no_place_to_begin(world: World) -> None:
    pipeline = views(world, batches=2)
    first = world.rows("select min(batch_id) as id from tidegate.batch where pipeline = %s", pipeline.name)[0]["id"]
    execute(world, pipeline)
    with pytest.raises(BadInput, match="was replaced by replay"):
        shown(world, pipeline, str(first))


@pytest.mark.longest
def test_an_append_table_that_is_replicated_and_cannot_be_deleted_from_is_named(world: World) -> None:
    pipeline = views(world, batches=1)
    table = pipeline.contract.row_table.name
    world.rows(f"update {table} set visitor = 'somebody' where _offset = 1")
    world.rows(f"create publication {pipeline.name} for table {table}")
    with pytest.raises(BadInput, match="REPLICA IDENTITY FULL"):
        shown(world, pipeline)
    assert nothing_left(world, pipeline)
    world.rows(f"alter table {table} replica identity full")
    execute(world, pipeline)
    world.rows(f"drop publication {pipeline.name}")


@pytest.mark.longest
def test_the_tables_of_a_replay_are_identified_like_the_live_ones(world: World) -> None:
    """Under a publication FOR ALL TABLES, which replicates them too."""
    pipeline = world.new_pipeline("upsert", transform=None)
    world.send_and_drain(pipeline, [customer(1), customer(2)], keys=[b"1", b"1"], partition=0)
    table = pipeline.contract.row_table.name
    world.rows(f"alter table {table} drop constraint customers_pkey")
    world.rows(f"create unique index on {table} (_key)")
    world.rows(f"alter table {table} replica identity full")
    world.rows(f"create publication {pipeline.name} for all tables")
    try:
        assert counts(execute(world, pipeline))["customers"] == (1, 1, 0, 0)
    finally:
        world.rows(f"drop publication {pipeline.name}")


@pytest.mark.longest
def test_rows_that_exchange_a_unique_value_need_a_constraint_that_can_be_deferred(world: World) -> None:
    """After a constraint is dropped, its dead letters become rows, and two rows swap their unique values."""
    pipeline = world.new_pipeline("upsert", partitions=1)
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"alter table {table} add constraint once unique (customer_id), add constraint old check (name <> 'b')")
    sent = [("K", 1, "a"), ("J", 2, "a"), ("K", 3, "b"), ("J", 1, "a"), ("K", 2, "a")]
    send_customers(world, pipeline, [(key, customer(number, name)) for key, number, name in sent])
    world.drain(pipeline)
    assert [letter["offset"] for letter in world.dead_letters(pipeline)] == [2, 3, 4]
    world.rows(f"alter table {table} drop constraint old")
    with pytest.raises(BadInput, match=r"(?s)rejects rebuilt rows: .*\"once\".*recreate it as DEFERRABLE"):
        execute(world, pipeline)
    world.rows(f"alter table {table} drop constraint once, add constraint once unique (customer_id) deferrable")
    execute(world, pipeline)
    assert world.dead_letters(pipeline) == []
    rows = world.rows(f"select _key, customer_id from {table} order by _key")
    assert [(row["_key"], row["customer_id"]) for row in rows] == [("J", "C1"), ("K", "C2")]
