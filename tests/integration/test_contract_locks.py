"""What `contract apply` waits for, and what it says of who holds it, where less is allowed than usual."""

import time

import pytest

from platform_defs.errors import LedgerAway
from platform_defs.evolution.statements import Given
from platform_defs.operations import evolve
from resources.postgres import connection
from tests.integration.test_contract_apply import apply, reader, views, with_field
from tests.world import World


def test_locks_are_given_up_behind_a_pooler_that_drops_the_startup_options(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evolve, "SHORT_WAIT", "50ms")
    monkeypatch.setattr(evolve, "PAUSE", (0.01, 0.02))
    before = views(world)
    monkeypatch.setattr(connection, "session_url", lambda url, *_: connection.limited(url))
    with reader(world, before.contract.row_table.name):
        started = time.monotonic()
        with pytest.raises(LedgerAway, match="a report"):
            apply(world, with_field(before))
    assert time.monotonic() - started < 5


def test_a_role_that_may_not_see_other_sessions_is_told_who_holds_the_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evolve, "SHORT_WAIT", "50ms")
    monkeypatch.setattr(evolve, "PAUSE", (0.01, 0.02))
    before = views(world)
    table, clerk = before.contract.row_table.name, f"{before.name}_clerk"
    world.rows(f"create role {clerk} login password 'x'")
    world.rows(f"grant all on schema {before.name}, tidegate to {clerk}")
    world.rows(f"grant all on all tables in schema {before.name}, tidegate to {clerk}")
    world.rows(f"alter table {table} owner to {clerk}")
    scheme, _, rest = world.endpoints.postgres_url.partition("://")
    url = f"{scheme}://{clerk}:x@{rest.rpartition('@')[2]}"
    with reader(world, table), pytest.raises(LedgerAway, match="pg_read_all_stats") as refused:
        evolve.apply(url, with_field(before).contract, Given(), "tester")
    assert "None" not in str(refused.value)
