"""Tables rebuilt from the log: what is shown, and what is swapped in."""

from dataclasses import replace
from datetime import UTC
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from pyspark.sql import functions as F

from platform_defs.contract.model.column_types import INTEGER, STRING
from platform_defs.contract.model.contract import Column, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine import batch
from platform_defs.engine.batch import drain, plan_batch
from platform_defs.engine.lease import lease
from platform_defs.engine.lease.pauses import Pause
from platform_defs.errors import Fenced, LedgerAway, MessagesSuspected
from platform_defs.lineage.events import outbox
from platform_defs.postgres.connection import queries
from platform_defs.replay import cli as replay_command
from platform_defs.replay import replay
from platform_defs.replay.replay import Replay
from platform_defs.replay.row_replacement import Pair
from platform_defs.stack.endpoints import Endpoints
from platform_defs.verify.verify import verify
from tests.chaos.postgres.proxy import CommitCutter
from tests.chaos.postgres.verdicts import plain, single_entry
from tests.integration.contract_changes.test_contract_apply import apply, with_field
from tests.integration.verify.test_verify import customer, send_customers, view
from tests.support.replays import bank, counts, doubled, exact, execute, nothing_left, shown, views
from tests.support.world import World, transfer, transfers


@pytest.mark.slow
def test_what_has_not_changed_is_built_the_same_and_put_in_place_without_a_trace(world: World) -> None:
    pipeline = bank(world)
    before = exact(world, pipeline)
    found = execute(world, pipeline)
    assert counts(found) == {"postings": (160, 160, 0, 0), "balances": (94, 94, 0, 0), "dead letters": (2, 2, 0, 0)}
    assert exact(world, pipeline) == before
    assert nothing_left(world, pipeline)
    world.send(pipeline, transfers(40, 80))
    assert [batch.messages for batch in world.drain(pipeline)] == [40]
    exact(world, pipeline)


@pytest.mark.longest
def test_another_transform_is_shown_first_and_put_in_place_on_demand(world: World) -> None:
    pipeline = bank(world)
    before, position = world.table(pipeline), world.position(pipeline)
    changed = Pipeline(pipeline.contract, doubled)
    found = shown(world, changed)
    assert counts(found)["postings"] == (160, 80, 160, 80)
    assert world.table(pipeline) == before
    execute(world, changed)
    assert world.position(changed) == position
    assert len(world.table(changed)) == 80
    exact(world, changed)
    (kept,) = world.rows("select * from tidegate.replay where pipeline = %s", pipeline.name)
    assert (kept["reason"], kept["executed_by"], kept["differences"][0]["changed"]) == ("a test", "tester", 80)
    batches = world.rows("select replaced_by from tidegate.batch where pipeline = %s order by batch_id", pipeline.name)
    assert [row["replaced_by"] for row in batches] == [kept["replay_id"]] * 2 + [None] * (len(batches) - 2)


@pytest.mark.longest
def test_another_contract_makes_rows_of_dead_letters_and_dead_letters_of_rows(world: World) -> None:
    pipeline = bank(world)
    fields = tuple(
        replace(item, rules=tuple(rule for rule in item.rules if rule.kind != "maximum"))
        for item in pipeline.contract.fields
    )
    stricter = tuple(
        (
            replace(item, rules=tuple(replace(rule, argument=("CHF",)) for rule in item.rules if rule.kind == "enum"))
            if item.name == "currency"
            else item
        )
        for item in fields
    )
    changed = Pipeline(replace(pipeline.contract, fields=stricter), pipeline.transform)
    found = execute(world, changed)
    assert counts(found)["dead letters"] == (2, 82, 0, 80)
    assert world.table(changed) == []
    exact(world, changed)
    back = execute(world, pipeline)
    assert counts(back)["dead letters"] == (82, 2, 80, 0)
    exact(world, pipeline)


@pytest.mark.longest
@pytest.mark.parametrize(
    "start", ["batch", *(pytest.param(start, marks=pytest.mark.slow) for start in ("offsets", "time"))]
)
def test_an_append_table_is_replayed_from_a_batch_on(world: World, start: str) -> None:
    pipeline = views(world)
    ids = [
        row["batch_id"]
        for row in world.rows("select batch_id from tidegate.batch where pipeline = %s order by 1", pipeline.name)
    ]
    if start == "time":
        between = world.rows("select committed_at from tidegate.batch where batch_id = %s", ids[0])[0]["committed_at"]
        text = between.astimezone(UTC).isoformat()
    else:
        text = str(ids[1]) if start == "batch" else "0:3,2:2"  # offset 2 is the first of the second batch
    world.rows(f"delete from {pipeline.contract.row_table.name} where _offset in (1, 3)")
    found = execute(world, pipeline, text)
    assert found.history.from_batch == ids[1]
    assert counts(found)["page_views"] == (12, 16, 0, 4)
    report = verify(pipeline, world.endpoints, world.spark)
    assert (report.lost, report.duplicated) == (4, 0), "what lies before the replay stays as it was"
    execute(world, pipeline)
    exact(world, pipeline)


@pytest.mark.longest
def test_upserts_are_replayed_whole(world: World) -> None:
    pipeline = world.new_pipeline("upsert", transform=None, config={"cleanup.policy": "delete"})
    world.send_and_drain(pipeline, [customer(n) for n in range(8)], keys=[b"%d" % n for n in range(8)])
    world.send_and_drain(pipeline, [None] * 4, keys=[b"%d" % n for n in range(4)])
    before = exact(world, pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"delete from {table} where _key = '5'")
    world.rows(f"create table {pipeline.name}.notes (customer text references {table} (_key) on delete cascade)")
    world.rows(f"insert into {pipeline.name}.notes values ('6')")
    execute(world, pipeline)
    assert exact(world, pipeline) == before
    assert world.rows(f"select customer from {pipeline.name}.notes") == [{"customer": "6"}]


@pytest.mark.longest
def test_a_replay_removes_duplicated_rows(world: World) -> None:
    pipeline = bank(world, batches=1)
    table = pipeline.contract.row_table.name
    world.rows(f"insert into {table} select * from {table}")
    assert not verify(pipeline, world.endpoints, world.spark).ok
    execute(world, pipeline)
    exact(world, pipeline)


@pytest.mark.longest
def test_a_pipeline_that_runs_on_is_caught_up_with_and_its_run_is_fenced(world: World) -> None:
    pipeline = bank(world)
    shown(world, pipeline)
    world.send_and_drain(pipeline, transfers(40, 100))
    world.send(pipeline, transfers(40, 200))
    with world.open_run(pipeline) as context:
        found = execute(world, pipeline)
        assert found.history.messages == 122
        with pytest.raises(Fenced):
            list(drain(pipeline, context))
    world.drain(pipeline)
    exact(world, pipeline)


@pytest.mark.longest
def test_a_batch_that_waits_at_a_gate_keeps_its_offsets_and_gets_an_id_behind_the_replay(world: World) -> None:
    pipeline = bank(world)
    world.send(pipeline, transfers(40, 100))
    with world.open_run(pipeline) as context:
        pending = plan_batch(pipeline.contract, context)
    assert pending is not None
    execute(world, pipeline)
    (batch,) = world.drain(pipeline)
    assert batch.ranges == pending.ranges
    assert batch.batch_id > max(
        row["id"]
        for row in world.rows(
            "select max(batch_id) as id from tidegate.batch where pipeline = %s and batch_id <> %s",
            pipeline.name,
            batch.batch_id,
        )
    )
    execute(world, pipeline)
    exact(world, pipeline)


@pytest.mark.longest
@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.slow)])
def test_a_connection_cut_in_commit_is_decided_by_the_ledger(world: World, when: str) -> None:
    pipeline = bank(world)
    shown(world, Pipeline(pipeline.contract, doubled))
    changed, before = Pipeline(pipeline.contract, doubled), world.table(pipeline)
    with CommitCutter(world.endpoints.postgres_url, when) as cutter:  # pyright: ignore[reportArgumentType]
        through = replace(world, endpoints=replace(world.endpoints, postgres_url=cutter.url))
        if when == "before":
            with pytest.raises(LedgerAway):
                execute(through, changed)
            assert world.table(pipeline) == before
            execute(world, changed)
        else:
            execute(through, changed)
    assert cutter.fired
    exact(world, changed)
    assert nothing_left(world, changed)


@pytest.mark.longest
def test_a_reader_in_a_snapshot_sees_the_old_rows_to_its_end_and_others_the_new_ones_at_once(world: World) -> None:
    pipeline = bank(world)
    count = f"select count(*) from {pipeline.contract.row_table.name}"
    with world.session() as repeatable, world.session() as committed:
        repeatable.execute("begin isolation level repeatable read")
        repeatable.execute("select 1 from tidegate.pipeline")  # its snapshot is taken; the table was not read yet
        committed.execute("begin isolation level read committed")
        assert committed.execute(count).fetchone() == (160,)
        execute(world, Pipeline(pipeline.contract, doubled))
        assert repeatable.execute(count).fetchone() == (160,)
        assert committed.execute(count).fetchone() == (80,)
        repeatable.execute("rollback")
        committed.execute("rollback")


@pytest.mark.longest
def test_what_was_built_is_dropped_without_a_trace(world: World) -> None:
    pipeline = bank(world)
    shown(world, pipeline)
    assert not nothing_left(world, pipeline)
    assert Replay(pipeline, world.endpoints, world.spark).discard()
    assert nothing_left(world, pipeline)
    assert not Replay(pipeline, world.endpoints, world.spark).discard()
    exact(world, pipeline)


@pytest.mark.longest
def test_lineage_of_a_replay_leaves_when_it_is_in_place(world: World) -> None:
    pipeline = bank(world)
    waiting = (
        "select count(*) as n from tidegate.lineage_event join tidegate.batch as b using (batch_id)"
        " where b.pipeline = %s"
    )
    shown(world, pipeline)
    with outbox(world.endpoints.postgres_url, pipeline.name) as own:
        assert own
        sequences = {item.sequence for item in own.waiting(100)}
    built = world.rows(
        "select sequence from tidegate.lineage_event join tidegate.batch as b using (batch_id) where b.pipeline = %s",
        f"{pipeline.name}~replay",
    )
    assert built
    assert not {row["sequence"] for row in built} & sequences
    before = world.rows(waiting, pipeline.name)[0]["n"]
    execute(world, pipeline)
    assert world.rows(waiting, pipeline.name)[0]["n"] == before + len(built)


@pytest.mark.longest
def test_a_row_that_is_the_same_stays_with_all_that_hangs_on_it(world: World) -> None:
    pipeline = views(world)
    table = pipeline.contract.row_table.name
    world.rows(
        f"alter table {table} add column id bigint generated always as identity unique, add column reviewed boolean"
    )
    world.rows(f"create table {pipeline.name}.notes (row bigint references {table} (id) on delete cascade)")
    world.rows(f"update {table} set reviewed = true")
    world.rows(f"insert into {pipeline.name}.notes select id from {table}")
    world.rows(f"update {table} set visitor = 'somebody' where _offset = 5")
    assert counts(execute(world, pipeline))["page_views"] == (24, 24, 4, 4)
    assert len(world.rows(f"select 1 from {pipeline.name}.notes")) == 20
    assert len(world.rows(f"select 1 from {table} where reviewed")) == 20
    exact(world, pipeline)


@pytest.mark.longest
def test_a_message_that_the_transform_fails_on_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.spark()  # a UDF is made of one
    parse = F.udf(lambda memo: str(int(memo)), "string")
    pipeline = single_entry(world, lambda messages: plain(messages.withColumn("currency", parse("memo"))))
    world.send(pipeline, [transfer(n, memo="seven" if n == 5 else "756") for n in range(8)])
    with pytest.raises(MessagesSuspected):
        world.drain(pipeline)
    world.suspected_long_ago(pipeline)
    world.drain(pipeline)
    for module in (batch, replay):
        monkeypatch.setattr(module, "SUSPECTED", Pause(0.2, 1.0))
    found = execute(world, pipeline)
    assert counts(found) == {"postings": (7, 7, 0, 0), "dead letters": (1, 1, 0, 0)}


@pytest.mark.slow
def test_what_was_built_before_a_table_was_altered_is_built_again(world: World) -> None:
    pipeline = views(world, batches=1)
    table = pipeline.contract.row_table.name
    world.rows(f"alter table {table} add constraint short check (duration_ms < 4) not valid")
    assert counts(shown(world, pipeline))["page_views"] == (8, 4, 4, 0)
    world.rows(f"alter table {table} drop constraint short")
    assert counts(execute(world, pipeline))["page_views"] == (8, 8, 0, 0)


@pytest.mark.slow
def test_a_foreign_key_refuses_the_same_messages_again(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=None)
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    visitors = f"{pipeline.name}.visitors"  # partitioned: Postgres keeps a constraint for each partition as well
    world.rows(f"create table {visitors} (name text primary key) partition by hash (name)")
    for number in range(2):
        part = f"partition of {visitors} for values with (modulus 2, remainder {number})"
        world.rows(f"create table {visitors}_{number} {part}")
    world.rows(f"insert into {visitors} values ('ada'), ('bob')")
    world.rows(f"alter table {table} add foreign key (visitor) references {pipeline.name}.visitors (name)")
    names = ["ada", "bob", "ada", "bob", "nobody"]
    world.send_and_drain(pipeline, [view(n, visitor=name) for n, name in enumerate(names)])
    found = counts(execute(world, pipeline))
    assert (found["page_views"], found["dead letters"]) == ((4, 4, 0, 0), (1, 1, 0, 0))
    (letter,) = world.dead_letters(pipeline)
    assert letter["error_message"].startswith(f"{table} rejects this row")
    exact(world, pipeline)


@pytest.mark.longest
def test_rows_that_refer_to_each_other_are_built_from_nothing_beside_the_live_ones(world: World) -> None:
    """C2 and C3 belong to C1, until they move and C1 is deleted. `strict` refuses C4, and then no longer."""
    pipeline = world.new_pipeline("upsert", partitions=1)
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"alter table {table} add foreign key (name) references {table}")
    world.rows(f"alter table {table} add constraint strict check (_key <> 'C4')")

    def read(*messages: tuple[str, str | None]) -> None:
        send_customers(
            world, pipeline, [(key, customer(int(key[1:]), name) if name else None) for key, name in messages]
        )
        world.drain(pipeline)

    def rows() -> list[tuple[str, str]]:
        return [(row["_key"], row["name"]) for row in world.rows(f"select _key, name from {table} order by _key")]

    read(("C1", "C1"), ("C2", "C1"), ("C3", "C1"), ("C4", "C4"))
    world.rows(f"delete from {table}")
    assert counts(shown(world, pipeline))["customers"] == (0, 3, 0, 3)
    execute(world, pipeline)
    assert rows() == [("C1", "C1"), ("C2", "C1"), ("C3", "C1")]
    shown(world, pipeline)  # the rebuilt table refers to nothing that is live
    read(("C2", "C2"), ("C3", "C2"), ("C1", None))
    assert [letter["offset"] for letter in world.dead_letters(pipeline)] == [3]
    world.rows(f"alter table {table} drop constraint strict")
    columns = "customer_id, tier, signed_up, _partition, _offset, _batch_id"
    world.rows(
        f"insert into {table} ({columns}, _key, name) select {columns}, 'C9', 'C9' from {table} where _key = 'C2'"
    )
    world.rows(f"update {table} set name = 'C9' where _key = 'C3'")
    limits = replace(pipeline.contract.limits, batch_messages=2)
    execute(world, replace(pipeline, contract=replace(pipeline.contract, limits=limits)))
    assert rows() == [("C2", "C2"), ("C3", "C2"), ("C4", "C4")]
    exact(world, pipeline)


@pytest.mark.longest
def test_dagster_hears_of_a_replay_under_the_names_of_the_live_tables(world: World) -> None:
    pipeline = bank(world)
    execute(world, pipeline)
    reported = world.ledger.unreported(pipeline.contract)
    assert {check.table for batch in reported for check in batch.checks} == {pipeline.contract.row_table.name}
    assert sum(batch.messages for batch in reported) == 82


@pytest.mark.slow
def test_a_run_that_starts_while_a_replay_is_put_in_place_waits_and_ends_no_session(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = bank(world)
    monkeypatch.setattr(lease, "LOCK_WAIT", "1s")
    with world.session() as replaying:
        replaying.execute("begin")
        replaying.execute(queries()["replace_now"], {"pipeline": pipeline.name})
        replaying.execute("select 1 from tidegate.pipeline where name = %s for update", [pipeline.name])
        with pytest.raises(LedgerAway, match=r"a replay of .* is being put in place"):
            world.drain(pipeline)
        replaying.execute("rollback")
    world.drain(pipeline)


def test_rows_that_differ_are_paired_by_message_or_key(endpoints: Endpoints, subtests: pytest.Subtests) -> None:
    """Each case: live rows, rebuilt rows; changed, differing in the new column alone, only live, only rebuilt."""
    schema = f"t{uuid4().hex[:10]}"
    columns = (Column("name", STRING, False), Column("amount", INTEGER, False), Column("added", STRING, False))
    place, twice = (0, 7), [(0, 7), (0, 7)]
    cases: list[tuple[str, list[tuple[Any, ...]], list[tuple[Any, ...]], tuple[int, ...]]] = [
        ("the same", [("a", 1, None, *place)], [("a", 1, None, *place)], (0, 0, 0, 0)),
        ("a new column", [("a", 1, None, *place)], [("a", 1, "x", *place)], (0, 1, 0, 0)),
        ("another value in it", [("a", 1, "y", *place)], [("a", 1, "x", *place)], (1, 0, 0, 0)),
        ("one value", [("a", 1, None, *place)], [("a", 2, "x", *place)], (1, 0, 0, 0)),
        ("NULL and no NULL", [("a", None, None, *place)], [("a", 2, None, *place)], (1, 0, 0, 0)),
        ("other messages", [("a", 1, None, 0, 7)], [("a", 1, None, 0, 8)], (0, 0, 1, 1)),
        (
            "several rows of a message",
            [("a", 1, None, *place), ("b", 1, None, *place), ("c", 1, None, *place)],
            [("b", 1, "x", *place), ("c", 2, "x", *place), ("z", 1, "x", *place), ("z", 1, "x", *place)],
            (2, 1, 0, 1),
        ),
        ("a row twice", [("a", 1, None, *at) for at in twice], [("a", 1, None, *place)], (0, 0, 1, 0)),
    ]
    own, fill = "_partition int, _offset bigint, _batch_id bigint", ", ".join(["%s"] * 5)
    with psycopg.connect(endpoints.postgres_url) as connection:
        try:
            connection.execute(f"create schema {schema}".encode())
            for table in ("old", "new"):
                connection.execute(
                    f"create table {schema}.{table} (name text, amount bigint, added text, {own})".encode()
                )
            pair = Pair(
                old=Table(f"{schema}.old", "append", columns),
                new=Table(f"{schema}.new", "append", columns),
                from_batch=0,
                added={"added"},
            )
            for title, live, rebuilt, expected in cases:
                with subtests.test(title), connection.transaction(force_rollback=True):
                    for table, rows in (("old", live), ("new", rebuilt)):
                        statement = f"insert into {schema}.{table} values ({fill}, 1)".encode()
                        connection.cursor().executemany(statement, rows)
                    seen = pair.difference(connection)
                    assert (seen.live, seen.rebuilt) == (len(live), len(rebuilt))
                    assert (seen.changed, seen.new_columns, seen.only_live, seen.only_rebuilt) == expected
                    assert seen.is_empty == (sum(expected) == 0)
        finally:
            connection.rollback()


@pytest.mark.slow
def test_a_new_column_makes_no_row_look_changed_and_each_sample_is_of_one_message(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before = world.new_pipeline("append", transform=None)
    world.send_and_drain(before, [view(n, channel=f"c{n}") for n in range(4)])
    table = before.contract.row_table.name
    world.rows(f"update {table} set duration_ms = -1 where event_id = 'e1'")
    world.rows(f"delete from {table} where event_id = 'e2'")
    after = with_field(before)
    (live,) = world.rows(f"select _partition, _offset from {table} where event_id = 'e1'")
    for applied in (False, True):  # as a replay alters the table, and as it already has the column
        if applied:
            apply(world, after)
        found = shown(world, after)
        (difference, _) = found.differences
        assert (difference.changed, difference.new_columns) == (1, 2)
        assert (difference.only_live, difference.only_rebuilt) == (0, 1)
        sample = next(one for one in difference.samples if one["kind"] == "changed")
        assert sample == {
            "kind": "changed",
            "row": live,
            "live": {"duration_ms": -1, "channel": None},
            "rebuilt": {"duration_ms": 1, "channel": "c1"},
        }
        replay_command._show(found)
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        heads = ["live", "rebuilt", "changed", "new", "columns", "only", "live", "only", "rebuilt"]
        assert lines[lines.index(heads) + 1] == [table, "3", "4", "1", "2", "0", "1"]
        at = f"_partition {live['_partition']}, _offset {live['_offset']}".split()
        assert [table, *at, "duration_ms", "-1", "1"] in lines
        assert [table, *at, "channel", "-", "c1"] in lines
