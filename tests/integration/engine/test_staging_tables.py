"""The staging tables: reused, with one attempt at a time; and what an attempt leaves in them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from platform_defs.contract.model.column_types import INTEGER
from platform_defs.contract.model.contract import Column
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import RunContext, plan_batch, run_batch
from platform_defs.engine.staging import staging_tables
from platform_defs.postgres.connection import queries
from tests.chaos.moments import Intruder
from tests.support.fault_wrappers import Meddled, kept_alive
from tests.support.world import World, transfers


@pytest.mark.longest
def test_batches_are_staged_in_one_table_which_is_empty_between_them(world: World) -> None:
    pipeline = world.new_pipeline(batch_messages=10)
    world.send(pipeline, transfers(40))
    tables: set[str] = set()
    with world.open_run(pipeline) as context:
        ledger = Meddled(context.ledger, lambda staging_id: tables.add(world.staging_table(staging_id)))
        for _ in range(4):
            assert run_batch(pipeline, replace(context, ledger=ledger)) is not None
    (table,) = tables
    (kept,) = world.rows("select table_id from tidegate.staging_table where pipeline = %s", pipeline.name)
    assert table == f"tidegate_staging.rows_{kept['table_id']}"
    assert world.rows(f"select * from {table}") == []
    forgotten = (
        "select * from tidegate_staging.winner where staging_id not in (select staging_id from tidegate.staging)"
    )
    assert world.rows(forgotten) == []


@pytest.mark.slow
def test_leftovers_of_a_crash_are_swept_by_the_next_run(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as context:
        table = _staged_and_left(world, pipeline, context)
    world.drain(pipeline)
    assert world.rows(f"select * from {table}") == []
    assert world.rows("select * from tidegate.staging where pipeline = %s", pipeline.name) == []


@pytest.mark.slow
@pytest.mark.parametrize("small", [-1, 1_000_000])  # the table is truncated, which needs it alone; or rows are deleted
def test_a_locked_leftover_waits_for_a_later_sweep_and_stops_no_run(
    world: World, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging_tables, "SMALL", small)
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as context:
        table = _staged_and_left(world, pipeline, context)
    with world.session() as zombie, zombie.transaction():
        zombie.execute(f"lock table {table} in row exclusive mode")
        assert len(world.drain(pipeline)) == 1
        left = world.rows("select * from tidegate.staging where pipeline = %s", pipeline.name)
        assert len(left) == (1 if small < 0 else 0)
    world.drain(pipeline)
    assert world.rows("select * from tidegate.staging where pipeline = %s", pipeline.name) == []
    assert world.rows(f"select * from {table}") == []


@pytest.mark.slow
def test_what_a_late_task_of_an_earlier_try_stages_is_neither_judged_nor_published(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    stray = "insert into {} (_partition, _offset, _attempt) values (0, 0, gen_random_uuid())"
    late = Intruder("before_stage", lambda number: world.rows(stray.format(world.staging_table(number))))
    (batch,) = late.drain(world, pipeline)
    assert (batch.rows, batch.dead_letters, [c.name for c in batch.checks if not c.passed]) == (80, 0, [])
    assert len(world.table(pipeline)) == 80


@pytest.mark.slow
def test_what_a_late_task_records_for_a_try_that_is_forgotten_is_deleted_by_a_later_batch(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, [*transfers(8), b"not json"])
    copied: list[int] = []

    def record(staging_id: int) -> None:
        for name in ("dead_letter", "winner"):
            table = f"tidegate_staging.{name}"
            row = f"jsonb_populate_record(null::{table}, to_jsonb(t) || '{{\"staging_id\": 0}}')"
            found = f"select ({row}).* from {table} as t where staging_id = {staging_id}"
            into = f"insert into {table} {found} returning staging_id"
            copied.append(len(world.rows(into)))

    Intruder("before_publish", record).drain(world, pipeline)
    assert min(copied) > 0
    for name in ("dead_letter", "winner"):
        assert world.rows(f"select * from tidegate_staging.{name} where staging_id = 0") == []


@pytest.mark.slow
def test_a_fenced_run_empties_no_table_that_its_successor_has_taken(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(40))
    with world.open_run(pipeline) as first:
        table = _staged_and_left(world, pipeline, first)
        with kept_alive(world, first), world.open_run(pipeline) as second:

            def succeed() -> None:
                second.ledger.sweep()
                assert _staged_and_left(world, pipeline, second) == table

            held: Any = first.ledger
            held.connection = _Interrupting(held.connection, "stale_staging", succeed)
            held.sweep()
            assert len(world.rows(f"select * from {table}")) == 1


@pytest.mark.longest
def test_a_changed_contract_is_staged_in_another_table_and_the_old_one_is_dropped(world: World) -> None:
    pipeline = world.caught_up()
    (old,) = world.rows("select table_id from tidegate.staging_table where pipeline = %s", pipeline.name)
    more = replace(
        pipeline.contract.row_table,
        columns=(*pipeline.contract.row_table.columns, Column("x", INTEGER, required=False)),
    )
    changed = replace(pipeline.contract, tables=(more, *pipeline.contract.accumulates))
    with world.open_run(pipeline) as run:  # staging tables belong to its role
        held: Any = run.ledger
        session = held.connection
        new_id, unused = (session.execute(queries()["next_staging_id"]).fetchone()[0] for _ in range(2))
        assert staging_tables.take(session, pipeline.contract, pipeline.name, new_id) == old["table_id"]
        assert staging_tables.take(session, changed, pipeline.name, new_id) == new_id
        assert staging_tables.take(session, changed, pipeline.name, unused) == new_id
        asked = "select to_regclass('tidegate_staging.rows_' || %s)"
        assert session.execute(asked, [old["table_id"]]).fetchone() == (None,)


def _staged_and_left(world: World, pipeline: Pipeline, context: RunContext) -> str:
    """Stage one row of the next batch and stop there; return its staging table."""
    pending = plan_batch(pipeline.contract, context)
    assert pending is not None
    table = world.staging_table(context.ledger.open_staging(pending).staging_id)
    world.rows(f"insert into {table} (_partition) values (0)")
    return table


class _Interrupting:
    """A connection that calls `act` after this query."""

    def __init__(self, connection: psycopg.Connection, query: str, act: Callable[[], None]) -> None:
        self._connection, self._query, self._act = connection, query, act

    def __getattr__(self, name: str):
        return getattr(self._connection, name)

    def execute(self, query, *parameters):
        answer = self._connection.execute(query, *parameters)
        if query == queries()[self._query]:
            self._act()
        return answer
