"""One batch, whole or not at all: the promises of docs/explanation/guarantees.md, one by one."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from platform_defs.contract.column_types import INTEGER
from platform_defs.contract.model import BatchRule, Column
from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine import same_install
from platform_defs.engine.batch import Budget, Outside, plan_batch, run_batch
from platform_defs.errors import BadInput, Fenced, LedgerAway, OtherInstall, StagingLost
from platform_defs.samples.samples import Samples
from resources.postgres import staging_tables
from resources.postgres.connection import queries
from tests.chaos.moments import Intruder
from tests.world import World, transfers


def test_a_transfer_its_postings_its_balances_and_its_offset_arrive_together(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(1_000))
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.rows, batch.dead_letters) == (1_000, 2_000, 0)
    assert world.position(pipeline) == {0: 250, 1: 250, 2: 250, 3: 250}
    assert len(world.table(pipeline)) == 2_000
    balances = pipeline.contract.tables[1].name
    assert world.rows(f"select sum(balance) as sum, sum(postings) as n from {balances}") == [{"sum": 0, "n": 2_000}]
    assert world.rows("select pending from tidegate.pipeline where name = %s", pipeline.name) == [{"pending": None}]


def test_what_was_read_is_not_read_again(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    assert len(world.drain(pipeline)) == 1
    assert world.drain(pipeline) == []
    world.send(pipeline, transfers(40, start=40))
    assert [batch.messages for batch in world.drain(pipeline)] == [40]
    assert len(world.table(pipeline)) == 160


def test_a_run_drains_many_batches_and_stops_at_its_budget(world: World) -> None:
    pipeline = world.new_pipeline(batch_messages=100)
    world.send(pipeline, transfers(400))
    assert [b.messages for b in world.drain(pipeline, Budget(batches=3))] == [100, 100, 100]
    assert [b.messages for b in world.drain(pipeline)] == [100]


def test_a_stale_epoch_commits_nothing(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as first:
        pending = plan_batch(pipeline.contract, first)
        assert pending is not None
        with _kept_alive(world, first), world.open_run(pipeline) as second:
            with pytest.raises(Fenced):
                run_batch(pipeline, first)
            assert world.table(pipeline) == []
            assert run_batch(pipeline, second) is not None
    assert len(world.table(pipeline)) == 80


def test_the_sessions_of_a_fenced_run_are_ended(world: World) -> None:
    pipeline = world.new_pipeline()
    with world.open_run(pipeline) as first, world.open_run(pipeline), pytest.raises((LedgerAway, Fenced)):
        first.ledger.positions()


@pytest.mark.parametrize("disposition", ["append", "upsert"])
def test_a_staged_row_from_outside_the_planned_ranges_is_not_published(world: World, disposition: str) -> None:
    pipeline = world.new_pipeline(disposition)
    sent = list(Samples(pipeline.contract, seed=1).good(8))
    world.send(pipeline, [item.value for item in sent], keys=[item.key for item in sent])
    stray = "update {} set _offset = 2 where (_partition, _offset) = (0, 1)"
    stray_row = Intruder("before_publish", lambda number: world.rows(stray.format(world.staging_table(number))))
    with pytest.raises(StagingLost, match="the tasks staged 8 rows, staging holds 7 of them"):
        stray_row.drain(world, pipeline)
    assert world.table(pipeline) == []
    assert [batch.rows for batch in world.drain(pipeline)] == [8]


@pytest.mark.slow
def test_a_task_with_another_installation_than_the_run_reads_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = world.caught_up()
    world.send(pipeline, transfers(8, start=8))
    monkeypatch.setattr(same_install, "here", lambda: "9.9.9 (code ffffffff)")  # in the run; its tasks know better
    with pytest.raises(OtherInstall, match=r"the run has Tidegate 9.9.9 \(code ffffffff\). Nothing was read"):
        world.drain(pipeline)
    assert len(world.table(pipeline)) == 16
    monkeypatch.undo()
    assert [batch.messages for batch in world.drain(pipeline)] == [8]


def test_a_batch_that_is_pending_keeps_its_offsets_whatever_arrives_meanwhile(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as outside:
        planned = plan_batch(pipeline.contract, outside)
    world.send(pipeline, transfers(400, start=40))
    with world.open_run(pipeline) as outside:
        again = plan_batch(pipeline.contract, outside)
        assert again == planned
    first, second = world.drain(pipeline)
    assert (first.messages, second.messages) == (40, 400)


def test_a_position_that_moved_meanwhile_lets_the_batch_commit_nothing(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as outside:
        plan_batch(pipeline.contract, outside)
        world.rows(
            "update tidegate.source_position set next_offset = 5 where pipeline = %s and partition = 1", pipeline.name
        )
        with pytest.raises(Fenced, match="1 of 4 positions"):
            run_batch(pipeline, outside)
    assert world.table(pipeline) == []
    assert world.position(pipeline) == {0: 0, 1: 5, 2: 0, 3: 0}


def test_rows_that_vanish_between_stage_and_publish_are_noticed(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as outside:
        ledger = _Meddled(
            outside.ledger, lambda staging_id: world.rows(f"delete from {world.staging_table(staging_id)}")
        )
        with pytest.raises(StagingLost, match="80 rows, staging holds 0"):
            run_batch(_without_rules(pipeline), replace(outside, ledger=ledger))
    assert world.table(pipeline) == []
    assert len(world.drain(pipeline)) == 1
    assert len(world.table(pipeline)) == 80


def test_coverage_that_vanishes_between_stage_and_publish_is_noticed(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as outside:
        ledger = _Meddled(
            outside.ledger,
            lambda staging_id: world.rows("delete from tidegate_staging.coverage where staging_id = %s", staging_id),
        )
        with pytest.raises(StagingLost, match="coverage"):
            run_batch(pipeline, replace(outside, ledger=ledger))
    assert world.table(pipeline) == []


def test_a_connection_that_dies_before_commit_leaves_nothing_and_the_next_run_goes_on(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    kill = (
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s and state = 'idle in"
        " transaction'"
    )
    with world.open_run(pipeline) as outside:
        ledger = _Meddled(outside.ledger, lambda _: world.rows(kill, _name(outside)), when="in_publication")
        with pytest.raises(LedgerAway):
            run_batch(pipeline, replace(outside, ledger=ledger))
    assert world.table(pipeline) == []
    assert len(world.drain(pipeline)) == 1


def test_what_an_interrupt_leaves_open_is_rolled_back_when_the_run_closes(world: World) -> None:
    pipeline = world.caught_up()
    held = world.ledger.acquire(pipeline.contract)
    held.connection.execute("BEGIN")
    held.connection.execute("UPDATE tidegate.source_position SET next_offset = 99 WHERE pipeline = %s", [pipeline.name])
    held.close()
    assert set(world.position(pipeline).values()) == {2}


def test_a_commit_whose_answer_is_lost_is_found_in_the_ledger_and_not_repeated(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as outside:
        held = outside.ledger
        real = held.connection  # pyright: ignore[reportAttributeAccessIssue]
        held.connection = _DeafToCommit(real)  # pyright: ignore[reportAttributeAccessIssue]
        assert run_batch(pipeline, outside) is not None
    assert len(world.table(pipeline)) == 80
    assert world.drain(pipeline) == []


def test_a_table_dropped_behind_our_back_is_refused(world: World) -> None:
    pipeline = world.new_pipeline("append")
    world.drain(pipeline)
    world.rows(f"drop table {pipeline.contract.row_table.name}")
    with pytest.raises(BadInput, match=r"no longer exists.*tidegate adopt"):
        world.drain(pipeline)


def test_a_table_that_is_new_to_a_running_pipeline_is_refused_since_it_would_lack_the_past(world: World) -> None:
    pipeline = world.new_pipeline()
    rows_alone = replace(pipeline, contract=replace(pipeline.contract, tables=pipeline.contract.tables[:1]))
    world.send(pipeline, transfers(4))
    world.drain(rows_alone)
    with pytest.raises(BadInput, match="has published batches already"):
        world.drain(pipeline)


def test_a_table_with_rows_of_somebody_else_is_refused(world: World) -> None:
    pipeline = world.new_pipeline("append")
    schema, _, name = pipeline.contract.row_table.name.partition(".")
    world.rows(f"create schema {schema}")
    columns = ", ".join(f"{c.name} {c.type.postgres}" for c in pipeline.contract.row_table.columns)
    world.rows(f"create table {schema}.{name} ({columns}, _batch_id bigint, _partition int, _offset bigint)")
    world.rows(f"insert into {schema}.{name} (event_id) values ('mine')")
    with pytest.raises(BadInput, match="holds rows that"):
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


def test_batches_are_staged_in_one_table_which_is_empty_between_them(world: World) -> None:
    pipeline = world.new_pipeline(batch_messages=10)
    world.send(pipeline, transfers(40))
    tables: set[str] = set()
    with world.open_run(pipeline) as outside:
        ledger = _Meddled(outside.ledger, lambda staging_id: tables.add(world.staging_table(staging_id)))
        for _ in range(4):
            assert run_batch(pipeline, replace(outside, ledger=ledger)) is not None
    (table,) = tables
    (kept,) = world.rows("select table_id from tidegate.staging_table where pipeline = %s", pipeline.name)
    assert table == f"tidegate_staging.rows_{kept['table_id']}"
    assert world.rows(f"select * from {table}") == []
    forgotten = (
        "select * from tidegate_staging.winner where staging_id not in (select staging_id from tidegate.staging)"
    )
    assert world.rows(forgotten) == []


def test_leftovers_of_a_crash_are_swept_by_the_next_run(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as outside:
        table = _staged_and_left(world, pipeline, outside)
    world.drain(pipeline)
    assert world.rows(f"select * from {table}") == []
    assert world.rows("select * from tidegate.staging where pipeline = %s", pipeline.name) == []


@pytest.mark.parametrize("small", [-1, 1_000_000])  # the table is truncated, which needs it alone; or rows are deleted
def test_a_locked_leftover_waits_for_a_later_sweep_and_stops_no_run(
    world: World, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_tables, "SMALL", small)
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as outside:
        table = _staged_and_left(world, pipeline, outside)
    with world.session() as zombie, zombie.transaction():
        zombie.execute(f"lock table {table} in row exclusive mode")
        assert len(world.drain(pipeline)) == 1
        left = world.rows("select * from tidegate.staging where pipeline = %s", pipeline.name)
        assert len(left) == (1 if small < 0 else 0)
    world.drain(pipeline)
    assert world.rows("select * from tidegate.staging where pipeline = %s", pipeline.name) == []
    assert world.rows(f"select * from {table}") == []


def test_what_a_late_task_of_an_earlier_try_stages_is_neither_judged_nor_published(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    stray = "insert into {} (_partition, _offset, _attempt) values (0, 0, gen_random_uuid())"
    late = Intruder("before_stage", lambda number: world.rows(stray.format(world.staging_table(number))))
    (batch,) = late.drain(world, pipeline)
    assert (batch.rows, batch.dead_letters, [c.name for c in batch.checks if not c.passed]) == (80, 0, [])
    assert len(world.table(pipeline)) == 80


def test_what_a_late_task_records_for_a_try_that_is_forgotten_is_deleted_by_a_later_batch(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, [*transfers(8), b"not json"])
    copied: list[int] = []

    def record(staging_id: int) -> None:
        for name in ("dead_letter", "winner"):
            found = f"(select * from tidegate_staging.{name} where staging_id = {staging_id}) as t"
            as_of_0 = "(jsonb_populate_record(t, '{\"staging_id\": 0}')).*"
            into = f"insert into tidegate_staging.{name} select {as_of_0} from {found} returning staging_id"
            copied.append(len(world.rows(into)))

    Intruder("before_publish", record).drain(world, pipeline)
    assert min(copied) > 0
    for name in ("dead_letter", "winner"):
        assert world.rows(f"select * from tidegate_staging.{name} where staging_id = 0") == []


def test_a_fenced_run_empties_no_table_that_its_successor_has_taken(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as first:
        table = _staged_and_left(world, pipeline, first)
        with _kept_alive(world, first), world.open_run(pipeline) as second:

            def succeed() -> None:
                second.ledger.sweep()
                assert _staged_and_left(world, pipeline, second) == table

            held: Any = first.ledger
            held.connection = _Interrupting(held.connection, "stale_staging", succeed)
            held.sweep()
            assert len(world.rows(f"select * from {table}")) == 1


def test_a_changed_contract_is_staged_in_another_table_and_the_old_one_is_dropped(world: World) -> None:
    pipeline = world.caught_up()
    (old,) = world.rows("select table_id from tidegate.staging_table where pipeline = %s", pipeline.name)
    more = replace(
        pipeline.contract.row_table,
        columns=(*pipeline.contract.row_table.columns, Column("x", INTEGER, required=False)),
    )
    changed = replace(pipeline.contract, tables=(more, *pipeline.contract.accumulates))
    with world.session() as session, session.transaction():
        new_id = 2**40
        assert staging_tables.take(session, pipeline.contract, pipeline.name, new_id) == old["table_id"]
        assert staging_tables.take(session, changed, pipeline.name, new_id) == new_id
        assert staging_tables.take(session, changed, pipeline.name, new_id + 1) == new_id
        asked = "select to_regclass('tidegate_staging.rows_' || %s)"
        assert session.execute(asked, [old["table_id"]]).fetchone() == (None,)


def test_check_results_lineage_and_dead_letters_exist_if_and_only_if_their_batch_committed(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, [*transfers(8), b"not json"])
    (batch,) = world.drain(pipeline)
    assert len(world.rows("select * from tidegate.check_result where batch_id = %s", batch.batch_id)) == len(
        batch.checks
    )
    (event,) = world.rows("select event from tidegate.lineage_event where batch_id = %s", batch.batch_id)
    assert [out["name"] for out in event["event"]["outputs"]] == [t.name for t in pipeline.contract.tables]
    assert world.dead_letters(pipeline)[0]["batch_id"] == batch.batch_id


def _staged_and_left(world: World, pipeline: Pipeline, outside: Outside) -> str:
    """A try at the next batch that came no further than a row; the table that it is in."""
    pending = plan_batch(pipeline.contract, outside)
    assert pending is not None
    table = world.staging_table(outside.ledger.open_staging(pending).staging_id)
    world.rows(f"insert into {table} (_partition) values (0)")
    return table


def _without_rules(pipeline: Pipeline) -> Pipeline:
    tables = (replace(pipeline.contract.row_table, batch_rules=()), *pipeline.contract.accumulates)
    return replace(pipeline, contract=replace(pipeline.contract, tables=tables))


def _name(outside) -> str:
    from resources.postgres.connection import application_name

    return application_name(outside.ledger.holder.pipeline, outside.ledger.holder.owner)


@contextmanager
def _kept_alive(world: World, outside):
    """As if the first run's session could not be ended: it reconnects, and only the epoch is left to stop it."""
    from resources.postgres.connection import connect

    held = outside.ledger
    held.connection.close()
    held.connection = connect(world.endpoints.postgres_url, "a zombie under another name")
    yield


class _Meddled:
    """A run's hold on the ledger with somebody's hand in it, at the moment named."""

    def __init__(self, ledger, meddle, when: str = "before_publication") -> None:
        self._ledger, self._meddle, self._when = ledger, meddle, when

    def __getattr__(self, name: str):
        return getattr(self._ledger, name)

    @contextmanager
    def publication(self, staged, **how):
        if self._when == "before_publication":
            self._meddle(staged.staging_id)
        with self._ledger.publication(staged, **how) as transaction:
            if self._when == "in_publication":
                self._meddle(staged.staging_id)
            yield transaction


class _DeafToCommit:
    """A connection that dies after COMMIT reached the server and before its answer came."""

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


class _Interrupting:
    """A connection, with something that happens once, after this query."""

    def __init__(self, connection: psycopg.Connection, query: str, act: Callable[[], None]) -> None:
        self._connection, self._query, self._act = connection, query, act

    def __getattr__(self, name: str):
        return getattr(self._connection, name)

    def execute(self, query, *parameters):
        answer = self._connection.execute(query, *parameters)
        if query == queries()[self._query]:
            self._act()
        return answer
