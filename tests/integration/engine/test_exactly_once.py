"""One batch, whole or not at all: the promises of docs/explanation/guarantees.md, one by one."""

from dataclasses import replace

import psycopg
import pytest

from platform_defs.contract.model.contract import BatchRule
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import Budget, plan_batch, run_batch
from platform_defs.engine.lease.lease import acquire
from platform_defs.engine.task import same_install
from platform_defs.errors import BadInput, Fenced, LedgerAway, OtherInstall, StagingLost
from platform_defs.samples.samples import Samples
from tests.chaos.moments import Intruder
from tests.support.fault_wrappers import Meddled, kept_alive
from tests.support.world import World, transfers


@pytest.mark.slow
def test_a_transfer_its_postings_its_balances_and_its_offset_arrive_together(world: World) -> None:
    pipeline = world.new_pipeline()
    (batch,) = world.send_and_drain(pipeline, transfers(1_000))
    assert (batch.messages, batch.rows, batch.dead_letters) == (1_000, 2_000, 0)
    assert world.position(pipeline) == {0: 250, 1: 250, 2: 250, 3: 250}
    assert len(world.table(pipeline)) == 2_000
    balances = pipeline.contract.tables[1].name
    assert world.rows(f"select sum(balance) as sum, sum(postings) as n from {balances}") == [{"sum": 0, "n": 2_000}]
    assert world.rows("select pending from tidegate.pipeline where name = %s", pipeline.name) == [{"pending": None}]


@pytest.mark.slow
def test_what_was_read_is_not_read_again(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    assert len(world.drain(pipeline)) == 1
    assert world.drain(pipeline) == []
    world.send(pipeline, transfers(40, start=40))
    assert [batch.messages for batch in world.drain(pipeline)] == [40]
    assert len(world.table(pipeline)) == 160


@pytest.mark.slow
def test_a_run_drains_many_batches_and_stops_at_its_budget(world: World) -> None:
    pipeline = world.new_pipeline(batch_messages=100)
    world.send(pipeline, transfers(400))
    assert [b.messages for b in world.drain(pipeline, Budget(batches=3))] == [100, 100, 100]
    assert [b.messages for b in world.drain(pipeline)] == [100]


@pytest.mark.slow
def test_a_stale_epoch_commits_nothing(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as first:
        pending = plan_batch(pipeline.contract, first)
        assert pending is not None
        with kept_alive(world, first), world.open_run(pipeline) as second:
            with pytest.raises(Fenced):
                run_batch(pipeline, first)
            assert world.table(pipeline) == []
            assert run_batch(pipeline, second) is not None
    assert len(world.table(pipeline)) == 80


def test_the_sessions_of_a_fenced_run_are_ended(world: World) -> None:
    pipeline = world.new_pipeline()
    with world.open_run(pipeline) as first, world.open_run(pipeline), pytest.raises((LedgerAway, Fenced)):
        first.ledger.positions()


@pytest.mark.slow
@pytest.mark.parametrize("disposition", ["append", "upsert"])
def test_a_staged_row_from_outside_the_planned_ranges_is_not_published(world: World, disposition: str) -> None:
    pipeline = world.new_pipeline(disposition)
    sent = list(Samples(pipeline.contract, seed=1).good(8))
    world.send(pipeline, [item.value for item in sent], keys=[item.key for item in sent])
    stray = "update {} set _offset = 2 where (_partition, _offset) = (0, 1)"
    stray_row = Intruder("before_publish", lambda number: world.rows(stray.format(world.staging_table(number))))
    with pytest.raises(StagingLost, match="the tasks staged 8 rows, but staging has 7"):
        stray_row.drain(world, pipeline)
    assert world.table(pipeline) == []
    assert [batch.rows for batch in world.drain(pipeline)] == [8]


@pytest.mark.longest
def test_a_task_with_another_installation_than_the_run_reads_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = world.caught_up()
    world.send(pipeline, transfers(8, start=8))
    monkeypatch.setattr(same_install, "here", lambda: "9.9.9 (code ffffffff)")  # in the run; not in its tasks
    with pytest.raises(OtherInstall, match=r"the run uses Tidegate 9.9.9 \(code ffffffff\). Nothing was read"):
        world.drain(pipeline)
    assert len(world.table(pipeline)) == 16
    monkeypatch.undo()
    assert [batch.messages for batch in world.drain(pipeline)] == [8]


@pytest.mark.slow
def test_a_batch_that_is_pending_keeps_its_offsets_whatever_arrives_meanwhile(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as context:
        planned = plan_batch(pipeline.contract, context)
    world.send(pipeline, transfers(400, start=40))
    with world.open_run(pipeline) as context:
        again = plan_batch(pipeline.contract, context)
        assert again == planned
    first, second = world.drain(pipeline)
    assert (first.messages, second.messages) == (40, 400)


@pytest.mark.slow
def test_a_position_that_moved_meanwhile_lets_the_batch_commit_nothing(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as context:
        plan_batch(pipeline.contract, context)
        world.rows(
            "update tidegate.source_position set next_offset = 5 where pipeline = %s and partition = 1", pipeline.name
        )
        with pytest.raises(Fenced, match="1 of 4 positions"):
            run_batch(pipeline, context)
    assert world.table(pipeline) == []
    assert world.position(pipeline) == {0: 0, 1: 5, 2: 0, 3: 0}


@pytest.mark.slow
def test_rows_that_vanish_between_stage_and_publish_are_noticed(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as context:
        ledger = Meddled(
            context.ledger, lambda staging_id: world.rows(f"delete from {world.staging_table(staging_id)}")
        )
        with pytest.raises(StagingLost, match="80 rows, but staging has 0"):
            run_batch(_without_rules(pipeline), replace(context, ledger=ledger))
    assert world.table(pipeline) == []
    assert len(world.drain(pipeline)) == 1
    assert len(world.table(pipeline)) == 80


@pytest.mark.slow
def test_coverage_that_vanishes_between_stage_and_publish_is_noticed(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as context:
        ledger = Meddled(
            context.ledger,
            lambda staging_id: world.rows("delete from tidegate_staging.coverage where staging_id = %s", staging_id),
        )
        with pytest.raises(StagingLost, match="coverage"):
            run_batch(pipeline, replace(context, ledger=ledger))
    assert world.table(pipeline) == []


@pytest.mark.slow
def test_a_connection_that_dies_before_commit_leaves_nothing_and_the_next_run_goes_on(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    kill = (
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s and state = 'idle in"
        " transaction'"
    )
    with world.open_run(pipeline) as context:
        ledger = Meddled(context.ledger, lambda _: world.rows(kill, _name(context)), when="in_publication")
        with pytest.raises(LedgerAway):
            run_batch(pipeline, replace(context, ledger=ledger))
    assert world.table(pipeline) == []
    assert len(world.drain(pipeline)) == 1


@pytest.mark.slow
def test_what_an_interrupt_leaves_open_is_rolled_back_when_the_run_closes(world: World) -> None:
    pipeline = world.caught_up()
    held = acquire(world.ledger.url, pipeline.contract)
    held.connection.execute("BEGIN")
    held.connection.execute("UPDATE tidegate.source_position SET next_offset = 99 WHERE pipeline = %s", [pipeline.name])
    held.close()
    assert set(world.position(pipeline).values()) == {2}


@pytest.mark.slow
def test_a_commit_whose_answer_is_lost_is_found_in_the_ledger_and_not_repeated(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as context:
        held = context.ledger
        real = held.connection  # pyright: ignore[reportAttributeAccessIssue]
        held.connection = _DeafToCommit(real)  # pyright: ignore[reportAttributeAccessIssue]
        assert run_batch(pipeline, context) is not None
    assert len(world.table(pipeline)) == 80
    assert world.drain(pipeline) == []


def test_a_table_dropped_behind_our_back_is_refused(world: World) -> None:
    pipeline = world.new_pipeline("append")
    world.drain(pipeline)
    world.rows(f"drop table {pipeline.contract.row_table.name}")
    with pytest.raises(BadInput, match=r"no longer exists.*tidegate adopt"):
        world.drain(pipeline)


@pytest.mark.slow
def test_a_table_that_is_new_to_a_running_pipeline_is_refused_since_it_would_lack_the_past(world: World) -> None:
    pipeline = world.new_pipeline()
    rows_alone = replace(pipeline, contract=replace(pipeline.contract, tables=pipeline.contract.tables[:1]))
    world.send(pipeline, transfers(4))
    world.drain(rows_alone)
    with pytest.raises(BadInput, match="has already published batches"):
        world.drain(pipeline)


def test_a_table_with_rows_of_somebody_else_is_refused(world: World) -> None:
    pipeline = world.new_pipeline("append")
    schema, _, name = pipeline.contract.row_table.name.partition(".")
    world.rows(f"create schema {schema}")
    columns = ", ".join(f"{c.name} {c.type.postgres}" for c in pipeline.contract.row_table.columns)
    world.rows(f"create table {schema}.{name} ({columns}, _batch_id bigint, _partition int, _offset bigint)")
    world.rows(f"insert into {schema}.{name} (event_id) values ('mine')")
    with pytest.raises(BadInput, match="has rows that"):
        world.drain(pipeline)


def test_an_upserts_batch_is_judged_by_what_it_would_publish(world: World) -> None:
    pipeline = world.new_pipeline("upsert")
    unique = BatchRule(
        "one_row_each",
        pipeline.contract.row_table.name,
        "ExpectColumnValuesToBeUnique",
        {"column": "customer_id"},
        "blocking",
        "a customer is one row",
    )
    tables = (replace(pipeline.contract.row_table, batch_rules=(unique,)),)
    pipeline = replace(pipeline, contract=replace(pipeline.contract, tables=tables))
    customer = b'{"customer_id":"C1","name":"Ada","tier":"%s","signed_up":"2026-11-01"}'
    world.send(pipeline, [customer % b"bronze", customer % b"gold", None], keys=[b"C1", b"C1", b"C2"], partition=0)
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.dead_letters) == (3, 0)
    assert [row["tier"] for row in world.rows(f"select tier from {tables[0].name}")] == ["gold"]


@pytest.mark.longest
def test_check_results_lineage_and_dead_letters_exist_if_and_only_if_their_batch_committed(world: World) -> None:
    pipeline = world.new_pipeline()
    (batch,) = world.send_and_drain(pipeline, [*transfers(8), b"not json"])
    assert len(world.rows("select * from tidegate.check_result where batch_id = %s", batch.batch_id)) == len(
        batch.checks
    )
    (event,) = world.rows("select event from tidegate.lineage_event where batch_id = %s", batch.batch_id)
    assert [out["name"] for out in event["event"]["outputs"]] == [t.name for t in pipeline.contract.tables]
    assert world.dead_letters(pipeline)[0]["batch_id"] == batch.batch_id


def _without_rules(pipeline: Pipeline) -> Pipeline:
    tables = (replace(pipeline.contract.row_table, batch_rules=()), *pipeline.contract.accumulates)
    return replace(pipeline, contract=replace(pipeline.contract, tables=tables))


def _name(context) -> str:
    from platform_defs.postgres.connection import application_name

    return application_name(context.ledger.holder.pipeline, context.ledger.holder.owner)


class _DeafToCommit:
    """A connection that dies after COMMIT reached the server and before its response came."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str):
        return getattr(self._connection, name)

    def execute(self, query, *parameters):
        answer = self._connection.execute(query, *parameters)
        if query == "COMMIT":
            self._connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return answer
