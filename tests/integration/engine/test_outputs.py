"""A table has every batch of its pipeline, computed in one way, or the run is refused until it is rebuilt."""

from contextlib import closing
from dataclasses import replace
from typing import Any, Literal, cast

import pytest
from psycopg import sql

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Aggregate
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.commit.publish_statements import PostgresPublication
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import BadInput
from platform_defs.postgres.tables import create_target, identifier
from tests.chaos.moments import Intruder
from tests.integration.verify.test_verify import customer, view
from tests.support.replays import bank, counts, exact, execute
from tests.support.world import World, transfers


def with_balance(pipeline: Pipeline, function: Literal["sum", "max"]) -> Pipeline:
    """Return the pipeline with this aggregate of amounts as its balance, in their type, which fits both."""
    balances = pipeline.contract.accumulates[0]
    aggregates = tuple(
        Aggregate("balance", function, "amount") if item.column == "balance" else item for item in balances.aggregates
    )
    of = column_type("decimal(18,2)")
    columns = tuple(replace(item, type=of) if item.name == "balance" else item for item in balances.columns)
    made = replace(balances, aggregates=aggregates, columns=columns)
    return replace(pipeline, contract=replace(pipeline.contract, tables=(pipeline.contract.row_table, made)))


def with_largest(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with max(amount) instead of sum(amount)."""
    return with_balance(pipeline, "max")


def summed(world: World) -> Pipeline:
    """Return a pipeline with sum(amount) that has read a batch."""
    pipeline = with_balance(world.new_pipeline(), "sum")
    world.send_and_drain(pipeline, [*transfers(40), b"not json"])
    return pipeline


@pytest.mark.longest
def test_an_accumulate_that_is_made_in_another_way_is_refused_until_it_is_rebuilt(world: World) -> None:
    pipeline = summed(world)
    redefined = with_largest(pipeline)
    before = world.table(pipeline, 1)
    message = r"filled as balance = sum\(amount\).*now says balance = max\(amount\).*tidegate replay"
    world.send(pipeline, transfers(8, 100))
    with pytest.raises(BadInput, match=message):
        world.drain(redefined)
    assert world.table(pipeline, 1) == before
    assert counts(execute(world, redefined))["balances"][2] > 0
    world.drain(redefined)
    exact(world, redefined)
    with pytest.raises(BadInput, match=r"now says balance = sum\(amount\)"):
        world.drain(pipeline)
    execute(world, pipeline)
    world.drain(pipeline)
    exact(world, pipeline)


@pytest.mark.slow
def test_what_an_earlier_version_claimed_is_taken_as_it_is_filled_now(world: World) -> None:
    pipeline = summed(world)
    world.rows("update tidegate.output set definition = null where pipeline = %s", pipeline.name)
    with closing(acquire(world.ledger.url, pipeline.contract)):
        pass
    with pytest.raises(BadInput, match="was filled as"):
        acquire(world.ledger.url, with_largest(pipeline).contract)


@pytest.mark.slow
@pytest.mark.parametrize("disposition", ["append", "upsert", "accumulate"])
def test_rows_that_a_table_swallows_without_an_error_are_counted(
    world: World, disposition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows lost in any way not refused up front are counted: here by a trigger, with its refusal switched off."""
    pipeline = world.new_pipeline(disposition, config={"cleanup.policy": "delete"})
    world.drain(pipeline)
    keys = [b"%d" % number for number in range(8)]
    values = {"append": [view(n) for n in range(8)], "upsert": [customer(n) for n in range(8)]}
    world.send(pipeline, values.get(disposition, transfers(8)), keys=keys if disposition == "upsert" else None)
    table = pipeline.contract.tables[-1].name
    world.rows(
        f"create function {pipeline.name}.nothing() returns trigger language plpgsql as 'begin return null; end'"
    )
    world.rows(f"create trigger quiet before insert on {table} for each row execute function {pipeline.name}.nothing()")
    monkeypatch.setattr("platform_defs.postgres.live_table._interference", lambda *_: iter(()))
    with pytest.raises(BadInput, match=rf"{table} accepted 0 of \d+ rows and reported no error"):
        world.drain(pipeline)
    assert set(world.position(pipeline).values()) == {0}
    world.rows(f"drop trigger quiet on {table}")
    world.drain(pipeline)
    exact(world, pipeline)


@pytest.mark.longest
def test_a_table_that_is_swapped_under_a_run_is_refused_before_anything_is_written(world: World) -> None:
    pipeline = bank(world, batches=1)
    table, before = pipeline.contract.row_table.name, world.table(pipeline)
    world.send(pipeline, transfers(8, 100))

    def swap(_: int) -> None:
        world.rows(f"alter table {table} rename to original")
        world.rows(f"create table {table} (like {pipeline.name}.original including all)")

    with pytest.raises(BadInput, match=r"is not the one that .* filled"):
        Intruder("before_publish", swap).drain(world, pipeline)
    assert world.table(pipeline) == []
    world.rows(f"drop table {table}")
    world.rows(f"alter table {pipeline.name}.original rename to postings")
    assert world.table(pipeline) == before
    world.drain(pipeline)
    exact(world, pipeline)


@pytest.mark.slow
def test_a_deleted_keys_value_may_be_taken_over_in_the_same_batch(world: World) -> None:
    pipeline = world.new_pipeline("upsert", config={"cleanup.policy": "delete"})
    world.send_and_drain(pipeline, [customer(1, "Ada")], keys=[b"1"])
    world.rows(f"alter table {pipeline.contract.row_table.name} add unique (name)")
    world.send_and_drain(pipeline, [customer(2, "Ada"), None], keys=[b"2", b"1"], partition=0)
    exact(world, pipeline)


def test_statements_of_no_rows_are_no_round_trip(world: World) -> None:
    """For a batch without checks, or without registry schemas, even a closed session is not queried."""
    with world.session() as session:
        publication = PostgresPublication(session, *cast("Any", (None, None, None)))
    publication._record_checks([])


def test_an_accumulate_has_room_for_its_updates(world: World) -> None:
    """Then most updates leave its index alone, though each batch updates every row."""
    accumulate = world.new_pipeline().contract.accumulates[0]
    table = replace(accumulate, name=f"{accumulate.name}_of_all")
    counted = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relid = %s::regclass"
    with world.session() as session:
        assert create_target(session, table)
        named = identifier(table.name)
        session.execute(
            sql.SQL("insert into {} select 'A' || n, 0, 0 from generate_series(1, 10000) as n").format(named)
        )
        for _ in range(5):
            session.execute(sql.SQL("update {} set balance = balance + 1").format(named))
        session.execute("select pg_stat_force_next_flush()")
        updates, in_place = session.execute(counted, [table.name]).fetchone() or (0, 0)
    assert updates == 50_000
    assert in_place > updates // 2
