"""Schemas and tables that another session creates at the same time are used, in either order."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from platform_defs.contract.model.contract import Contract
from platform_defs.dagster.storage import create_missing_tables
from platform_defs.engine.lease.table_claims import create_unclaimed
from platform_defs.engine.plan.replay_plan import ReplayStart
from platform_defs.errors import BadInput
from platform_defs.ledger.ledger import Ledger
from platform_defs.postgres.connection import Connection
from platform_defs.postgres.tables import create_schema, create_target
from platform_defs.replay.replay import Replay
from tests.support.claims import claim
from tests.support.postgres.databases import new_database
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfers


def meanwhile(url: str, create: Callable[[Connection], object], action: Callable[[], object]) -> None:
    """Run `action` while another session has created something and not committed; that commits when `action` waits."""
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as other:
        create(other)
        done = pool.submit(action)
        blocked = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        with psycopg.connect(url, autocommit=True) as third:
            wait_for(lambda: done.done() or third.execute(blocked, [other.info.backend_pid]).fetchone())
        other.commit()
        done.result(BOUND)


@pytest.mark.slow
def test_what_another_session_creates_at_the_same_time_is_used(
    world: World, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ledger.migrate()
    url = world.endpoints.postgres_url
    with subtests.test("a schema, by a run"):
        contract = world.new_pipeline().contract
        meanwhile(url, lambda other: create_schema(other, contract.pipeline), lambda: claim(world.ledger, contract))
    with subtests.test("a table, by a run"):
        contract = world.new_pipeline().contract
        table = contract.row_table
        meanwhile(url, lambda other: create_target(other, table), lambda: claim(world.ledger, contract))
        assert len(world.rows("select indexname from pg_indexes where schemaname = %s", contract.pipeline)) == 2
    with subtests.test("a table, by migrate --tables"):
        contract = world.new_pipeline().contract
        balances = contract.accumulates[0]
        meanwhile(url, lambda other: create_target(other, balances), lambda: create_unclaimed(url, [contract]))
    with new_database(url) as empty:
        with subtests.test("the ledger's schema"):
            meanwhile(empty, lambda other: create_schema(other, "tidegate"), Ledger(empty).migrate)
        monkeypatch.setenv("TIDEGATE_DAGSTER_URL", empty)
        with subtests.test("Dagster's schema"):
            meanwhile(empty, lambda other: create_schema(other, "dagster"), create_missing_tables)


def test_pipelines_whose_tables_share_new_schemas_claim_them_at_once(world: World) -> None:
    """And `migrate --tables` creates them at the same time, which deadlocks with none of them."""
    world.ledger.migrate()
    names = [f"{world.new_pipeline().name}_{side}" for side in "ab"]
    contracts = [in_schemas(world.new_pipeline().contract, *order) for order in (names, names[::-1]) for _ in "123"]
    with ThreadPoolExecutor(len(contracts) + 1) as pool:
        claims = [pool.submit(claim, world.ledger, contract) for contract in contracts]
        created = pool.submit(create_unclaimed, world.endpoints.postgres_url, reversed(contracts))
        for done in (*claims, created):
            done.result(BOUND)
    assert all(status.has_run for status in (world.ledger.status(contract.pipeline) for contract in contracts))


def in_schemas(contract: Contract, *schemas: str) -> Contract:
    """Return the contract with a table in each of the schemas, with the pipeline in its name."""
    return replace(
        contract,
        tables=tuple(
            replace(table, name=f"{schema}.{contract.pipeline}_{number}", batch_rules=())
            for number, (schema, table) in enumerate(zip(schemas, contract.tables, strict=True))
        ),
    )


@pytest.mark.longest
def test_a_schema_that_another_replay_creates_at_the_same_time_is_refused(world: World) -> None:
    first, second = world.caught_up(), world.new_pipeline()
    shared = replace(second, contract=in_schemas(second.contract, first.name, first.name))
    world.send_and_drain(shared, transfers(8))
    begun = [Replay(pipeline, world.endpoints, world.spark) for pipeline in (first, shared)]

    def create(other: Connection) -> None:
        schema = sql.Identifier(f"{first.name}__replay")
        other.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
        other.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(schema, begun[0].live.name + "~replay"))

    with pytest.raises(BadInput, match=f"contains the replay of {first.name}"):
        meanwhile(
            world.endpoints.postgres_url, create, lambda: begun[1].show(begun[1].first_batch(ReplayStart()), print)
        )
