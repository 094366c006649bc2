"""Tables built anew from the log: what is shown, what is put in place, and what is refused since it would lie."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.engine.batch import drain, plan
from platform_defs.engine.errors import BadInput, Fenced, Halt, LedgerAway, Retryable
from platform_defs.engine.ports import Pipeline
from platform_defs.engine.replay import From
from platform_defs.verification.verify import verify
from resources import ledger
from resources.postgres import queries
from resources.replay import Replay, Shown
from tests.chaos.proxy import CommitCutter
from tests.integration.test_verify import customer, view
from tests.world import World, transfers


def doubled(messages: DataFrame) -> DataFrame:
    """Not what the shipped transform does: postings of twice the amount, and none for every other transfer."""
    twice = (F.col("amount") * 2).cast("decimal(18,2)")
    sides = [F.struct(F.col(f"{side}_account").alias("account"), amount.alias("amount"))
             for side, amount in (("debit", -twice), ("credit", twice))]  # fmt: skip
    kept = messages.where(F.col("_offset") % 2 == 0)
    return kept.select("transfer_id", F.inline(F.array(*sides)), "currency", "occurred_at", "_partition", "_offset")


def bank(world: World, count: int = 40, batches: int = 2) -> Pipeline:
    """Read in so many batches, with a message that is no row in each."""
    pipeline = world.new_pipeline()
    for number in range(batches):
        world.send(pipeline, [*transfers(count, number * count), b"not json"])
        world.drain(pipeline)
    return pipeline


def views(world: World, batches: int = 3) -> Pipeline:
    """An append table alone."""
    pipeline = world.new_pipeline("append", transform=None)
    for number in range(batches):
        world.send(pipeline, [view(number * 8 + n) for n in range(8)])
        world.drain(pipeline)
    return pipeline


def shown(world: World, pipeline: Pipeline, start: str = "earliest") -> Shown:
    found = Replay(pipeline, world.endpoints, world.spark)
    return found.show(found.first_batch(From.parse(start)), print)


def execute(world: World, pipeline: Pipeline, start: str = "earliest") -> Shown:
    return Replay(pipeline, world.endpoints, world.spark).execute(From.parse(start), "a test", "tester", print)


def counts(found: Shown) -> dict[str, tuple[int, int, int, int]]:
    return {item.name.partition(".")[2] or item.name: (item.live, item.anew, item.only_live, item.only_anew)
            for item in found.differences}  # fmt: skip


def exact(world: World, pipeline: Pipeline) -> str:
    """verify's digest of tables that are as they must be."""
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report.explanation
    return report.digest


def nothing_left(world: World, pipeline: Pipeline) -> bool:
    """Whether nothing of a building pipeline is left."""
    name = f"{pipeline.name}~replay"
    schemas = world.rows("select 1 from pg_namespace where nspname = %s", f"{pipeline.name}__replay")
    return not schemas and not world.rows("select 1 from tidegate.pipeline where name = %s", name)


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
    assert (kept["reason"], kept["executed_by"], kept["differences"][0]["only_anew"]) == ("a test", "tester", 80)
    batches = world.rows("select replaced_by from tidegate.batch where pipeline = %s order by batch_id", pipeline.name)
    assert [row["replaced_by"] for row in batches] == [kept["replay_id"]] * 2 + [None] * (len(batches) - 2)


def test_another_contract_makes_rows_of_dead_letters_and_dead_letters_of_rows(world: World) -> None:
    pipeline = bank(world)
    fields = tuple(replace(item, rules=tuple(rule for rule in item.rules if rule.kind != "maximum")) for item in
                   pipeline.contract.fields)  # fmt: skip
    stricter = tuple(
        replace(item, rules=tuple(replace(rule, argument=("CHF",)) for rule in item.rules if rule.kind == "enum"))
        if item.name == "currency" else item for item in fields
    )  # fmt: skip
    changed = Pipeline(replace(pipeline.contract, fields=stricter), pipeline.transform)
    found = execute(world, changed)
    assert counts(found)["dead letters"] == (2, 82, 0, 80)
    assert world.table(changed) == []
    exact(world, changed)
    back = execute(world, pipeline)
    assert counts(back)["dead letters"] == (82, 2, 80, 0)
    exact(world, pipeline)


@pytest.mark.parametrize("start", ["batch", "offsets", "time"])
def test_an_append_table_is_replayed_from_a_batch_on(world: World, start: str) -> None:
    pipeline = views(world)
    ids = [row["batch_id"] for row in world.rows(
        "select batch_id from tidegate.batch where pipeline = %s order by 1", pipeline.name)]  # fmt: skip
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


def test_upserts_are_replayed_whole(world: World) -> None:
    pipeline = world.new_pipeline("upsert", transform=None, config={"cleanup.policy": "delete"})
    world.send(pipeline, [customer(n) for n in range(8)], keys=[b"%d" % n for n in range(8)])
    world.drain(pipeline)
    world.send(pipeline, [None] * 4, keys=[b"%d" % n for n in range(4)])
    world.drain(pipeline)
    before = exact(world, pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"delete from {table} where _key = '5'")
    world.rows(f"create table {pipeline.name}.notes (customer text references {table} (_key) on delete cascade)")
    world.rows(f"insert into {pipeline.name}.notes values ('6')")
    execute(world, pipeline)
    assert exact(world, pipeline) == before
    assert world.rows(f"select customer from {pipeline.name}.notes") == [{"customer": "6"}]


def test_what_at_least_once_wrote_twice_a_replay_mends(world: World) -> None:
    pipeline = bank(world, batches=1)
    table = pipeline.contract.row_table.name
    world.rows(f"insert into {table} select * from {table}")
    assert not verify(pipeline, world.endpoints, world.spark).ok
    execute(world, Pipeline(replace(pipeline.contract, delivery="at_least_once"), pipeline.transform))
    exact(world, pipeline)


def test_a_pipeline_that_runs_on_is_caught_up_with_and_its_run_is_fenced(world: World) -> None:
    pipeline = bank(world)
    shown(world, pipeline)
    world.send(pipeline, transfers(40, 100))
    world.drain(pipeline)
    world.send(pipeline, transfers(40, 200))
    with world.hold(pipeline) as outside:
        found = execute(world, pipeline)
        assert found.history.messages == 122
        with pytest.raises(Fenced):
            list(drain(pipeline, outside))
    world.drain(pipeline)
    exact(world, pipeline)


def test_a_batch_that_waits_at_a_gate_keeps_its_offsets_and_gets_an_id_behind_the_replay(world: World) -> None:
    pipeline = bank(world)
    world.send(pipeline, transfers(40, 100))
    with world.hold(pipeline) as outside:
        pending = plan(pipeline.contract, outside)
    assert pending is not None
    execute(world, pipeline)
    (batch,) = world.drain(pipeline)
    assert batch.ranges == pending.ranges
    assert batch.batch_id > max(row["id"] for row in world.rows(
        "select max(batch_id) as id from tidegate.batch where pipeline = %s and batch_id <> %s", pipeline.name, batch.batch_id
    ))  # fmt: skip
    execute(world, pipeline)
    exact(world, pipeline)


@pytest.mark.parametrize("when", ["before", "after"])
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


def test_a_reader_in_a_snapshot_sees_the_old_rows_to_its_end_and_others_the_new_ones_at_once(world: World) -> None:
    pipeline = bank(world)
    count = f"select count(*) from {pipeline.contract.row_table.name}"
    with world.session() as repeatable, world.session() as committed:
        repeatable.execute("begin isolation level repeatable read")
        repeatable.execute("select 1 from tidegate.pipeline")  # its snapshot is taken; the table was not looked at yet
        committed.execute("begin isolation level read committed")
        assert committed.execute(count).fetchone() == (160,)
        execute(world, Pipeline(pipeline.contract, doubled))
        assert repeatable.execute(count).fetchone() == (160,)
        assert committed.execute(count).fetchone() == (80,)
        repeatable.execute("rollback")
        committed.execute("rollback")


def test_what_was_built_is_dropped_without_a_trace(world: World) -> None:
    pipeline = bank(world)
    shown(world, pipeline)
    assert not nothing_left(world, pipeline)
    assert Replay(pipeline, world.endpoints, world.spark).discard()
    assert nothing_left(world, pipeline)
    assert not Replay(pipeline, world.endpoints, world.spark).discard()
    exact(world, pipeline)


def test_lineage_of_a_replay_leaves_when_it_is_in_place(world: World) -> None:
    pipeline = bank(world)
    waiting = (
        "select count(*) as n from tidegate.lineage_event join tidegate.batch using (batch_id) where pipeline = %s"
    )
    shown(world, pipeline)
    sequences = {row["sequence"] for row in world.ledger.rows("waiting_events")}
    built = world.rows("select sequence from tidegate.lineage_event join tidegate.batch using (batch_id) where pipeline = %s",
                       f"{pipeline.name}~replay")  # fmt: skip
    assert built
    assert not {row["sequence"] for row in built} & sequences
    before = world.rows(waiting, pipeline.name)[0]["n"]
    execute(world, pipeline)
    assert world.rows(waiting, pipeline.name)[0]["n"] == before + len(built)


def test_a_partial_replay_of_what_accumulates_is_refused(world: World) -> None:
    pipeline = bank(world)
    last = world.rows("select max(batch_id) as id from tidegate.batch where pipeline = %s", pipeline.name)[0]["id"]
    with pytest.raises(BadInput, match=r"balances \(accumulate\) cannot be replayed from batch"):
        shown(world, pipeline, str(last))


def test_a_replay_of_what_retention_took_is_refused_with_the_ranges(world: World) -> None:
    pipeline = bank(world)
    admin = world.admin()  # kept: a future is cancelled when its client is collected
    for future in admin.delete_records([TopicPartition(pipeline.contract.topic, 1, 5)]).values():
        future.result(20)
    with pytest.raises(BadInput, match=r"does not hold partition 1 \[0, 5\) any more"):
        shown(world, pipeline)


def test_a_replay_of_an_upsert_whose_topic_grew_is_refused(world: World) -> None:
    pipeline = world.new_pipeline("upsert", transform=None)
    world.send(pipeline, [customer(1)], keys=[b"k"])
    world.drain(pipeline)
    admin = world.admin()
    admin.create_partitions([NewPartitions(pipeline.contract.topic, 6)])[pipeline.contract.topic].result(20)
    world.send(pipeline, [customer(2)], keys=[b"k"], partition=5)
    world.drain(pipeline)
    with pytest.raises(BadInput, match="partitions were added"):
        shown(world, pipeline)


def test_a_halted_pipeline_is_settled_before_it_is_replayed(world: World) -> None:
    pipeline = world.new_pipeline(dead_letter_minimum=1, dead_letter_share=0.1)
    world.send(pipeline, transfers(4))
    world.drain(pipeline)
    world.send(pipeline, [b"not json"] * 4)
    with pytest.raises(Halt):
        world.drain(pipeline)
    with pytest.raises(BadInput, match="settle that first: tidegate ack"):
        shown(world, pipeline)


def test_a_pipeline_that_never_ran_has_nothing_to_replay(world: World) -> None:
    with pytest.raises(BadInput, match="nothing to replay"):
        shown(world, world.new_pipeline())


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", From()),
        ("12", From(batch=12)),
        ("0:100,1:250", From(offsets={0: 100, 1: 250})),
        ("2026-11-21T10:00:00Z", From(timestamp=datetime(2026, 11, 21, 10, tzinfo=UTC))),
    ],
)
def test_where_a_replay_begins_is_read_in_four_forms(text: str, start: From) -> None:
    assert From.parse(text) == start


@pytest.mark.parametrize("text", ["yesterday", "2026-11-21T10:00:00", "0:1:2", "0:x", "-1", ""])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        From.parse(text)


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


def test_rows_that_compaction_took_for_good_are_not_replaced_by_nothing(world: World) -> None:
    pipeline = world.new_pipeline("upsert", transform=None, config={"cleanup.policy": "delete"})
    world.send(pipeline, [customer(1), b"not json", customer(2)], keys=[b"1", b"1", b"2"], partition=0)
    world.drain(pipeline)
    found = Replay(pipeline, world.endpoints, world.spark)
    first = found.first_batch(From())
    assert counts(found.show(first, print))["customers"] == (2, 2, 0, 0)
    # As it is built where the cleaner has left only the last message of each key, whatever became of it.
    world.rows(f"delete from {pipeline.name}__replay.customers where _key = '1'")
    world.rows("update tidegate.batch_range set gaps = '{[0,1)}' where topic = %s", pipeline.contract.topic)
    with pytest.raises(BadInput, match="compaction took the messages of 1 keys"):
        found.show(first, print)


def test_an_upsert_whose_topic_grew_before_its_first_batch_is_refused_as_well(world: World) -> None:
    pipeline = world.new_pipeline("upsert", transform=None)
    world.drain(pipeline)
    admin = world.admin()
    admin.create_partitions([NewPartitions(pipeline.contract.topic, 6)])[pipeline.contract.topic].result(20)
    world.send(pipeline, [customer(1)], keys=[b"k"], partition=5)
    world.drain(pipeline)
    with pytest.raises(BadInput, match="partitions were added"):
        shown(world, pipeline)


def test_batches_of_another_topic_cannot_be_built_again(world: World) -> None:
    pipeline = views(world, batches=1)
    other = world.new_pipeline("append", transform=None)
    moved = Pipeline(replace(pipeline.contract, topic=other.contract.topic))
    world.send(moved, [view(n) for n in range(8)])
    world.drain(moved)
    with pytest.raises(BadInput, match="is not the topic of now"):
        shown(world, moved)
    last = world.rows("select max(batch_id) as id from tidegate.batch where pipeline = %s", pipeline.name)[0]["id"]
    assert counts(execute(world, moved, str(last)))["page_views"] == (8, 8, 0, 0)


def test_what_was_built_before_a_table_was_altered_is_built_again(world: World) -> None:
    pipeline = views(world, batches=1)
    table = pipeline.contract.row_table.name
    world.rows(f"alter table {table} add constraint short check (duration_ms < 4) not valid")
    assert counts(shown(world, pipeline))["page_views"] == (8, 4, 4, 0)
    world.rows(f"alter table {table} drop constraint short")
    assert counts(execute(world, pipeline))["page_views"] == (8, 8, 0, 0)


def test_a_foreign_key_refuses_the_same_messages_again(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=None)
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"create table {pipeline.name}.visitors (name text primary key)")
    world.rows(f"insert into {pipeline.name}.visitors values ('ada')")
    world.rows(f"alter table {table} add foreign key (visitor) references {pipeline.name}.visitors (name)")
    world.send(pipeline, [*(view(n) for n in range(4)), view(4, visitor="nobody")])
    world.drain(pipeline)
    found = counts(execute(world, pipeline))
    assert (found["page_views"], found["dead letters"]) == ((4, 4, 0, 0), (1, 1, 0, 0))
    (letter,) = world.dead_letters(pipeline)
    assert letter["error_message"].startswith(f"{table} refuses this row")
    exact(world, pipeline)


def test_dagster_hears_of_a_replay_under_the_names_of_the_live_tables(world: World) -> None:
    pipeline = bank(world)
    execute(world, pipeline)
    told = world.ledger.untold(pipeline.contract)
    assert {check.table for batch in told for check in batch.checks} == {pipeline.contract.row_table.name}
    assert sum(batch.messages for batch in told) == 82


def test_two_replays_of_one_pipeline_do_not_meet(world: World) -> None:
    pipeline = bank(world)
    found = Replay(pipeline, world.endpoints, world.spark)
    with found._replacement.alone(world.endpoints.postgres_url), pytest.raises(Retryable, match="by somebody else"):
        found.discard()


def test_somebody_elses_schema_of_that_name_is_left_alone(world: World) -> None:
    pipeline = bank(world)
    world.rows(f"create schema {pipeline.name}__replay")
    with pytest.raises(BadInput, match="is not a replay's"):
        shown(world, pipeline)
    world.rows(f"drop schema {pipeline.name}__replay")
    shown(world, pipeline)


def test_a_partitioned_table_is_refused_before_anything_is_built(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=None)
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"create table {pipeline.name}.child () inherits ({table})")
    world.send(pipeline, [view(n) for n in range(4)])
    world.drain(pipeline)
    with pytest.raises(BadInput, match="plain tables only"):
        shown(world, pipeline)
    assert nothing_left(world, pipeline)


def test_a_table_that_swallows_deletions_is_noticed_and_nothing_is_changed(world: World) -> None:
    pipeline = views(world, batches=1)
    table = pipeline.contract.row_table.name
    world.rows(f"update {table} set visitor = 'somebody' where _offset = 1")
    before = world.table(pipeline)
    world.rows(f"create rule kept as on delete to {table} do instead nothing")
    with pytest.raises(BadInput, match=r"4 rows .* stayed"):
        execute(world, pipeline)
    assert world.table(pipeline) == before


def test_a_run_that_starts_while_a_replay_is_put_in_place_waits_and_ends_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = bank(world)
    monkeypatch.setattr(ledger, "LOCK_WAIT", "1s")
    with world.session() as replaying:
        replaying.execute("begin")
        replaying.execute(queries()["replace_now"], {"pipeline": pipeline.name})
        replaying.execute("select 1 from tidegate.pipeline where name = %s for update", [pipeline.name])
        with pytest.raises(LedgerAway, match=r"a replay of .* is being put in place"):
            world.drain(pipeline)
        replaying.execute("rollback")
    world.drain(pipeline)


def test_a_batch_that_a_replay_has_replaced_is_no_place_to_begin(world: World) -> None:
    pipeline = views(world, batches=2)
    first = world.rows("select min(batch_id) as id from tidegate.batch where pipeline = %s", pipeline.name)[0]["id"]
    execute(world, pipeline)
    with pytest.raises(BadInput, match="was replaced by replay"):
        shown(world, pipeline, str(first))
