"""Locks that `contract apply` waits for, and its report of their owners: a reader, a pooler, a restricted role."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from platform_defs.contract.evolution.statements import Given
from platform_defs.contract_changes import evolve
from platform_defs.engine.lease import table_claims
from platform_defs.errors import LedgerAway
from platform_defs.ledger.contract_ledger import SHORT_WAIT
from tests.integration.contract_changes.test_contract_apply import apply, exact, versions, views, with_field
from tests.integration.verify.test_verify import view
from tests.support.postgres.restricted_roles import clerk_of
from tests.support.world import World


@contextmanager
def reader(world: World, table: str) -> Iterator[None]:
    """Open a transaction that has read the table."""
    with world.session() as session:
        session.execute("set application_name = 'a report'")
        session.execute("begin")
        session.execute(f"select count(*) from {table}".encode())
        yield
        session.execute("rollback")


def test_a_lock_is_given_up_within_a_quarter_of_a_minute() -> None:
    pauses = (evolve.TRIES - 1) * evolve.PAUSE[1]
    assert SHORT_WAIT == "2s"
    assert evolve.TRIES * 2 + pauses <= 15


@pytest.mark.slow
def test_a_reader_that_holds_the_table_is_named_and_nothing_is_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evolve, "SHORT_WAIT", "50ms")
    monkeypatch.setattr(evolve, "PAUSE", (0.01, 0.02))
    before = views(world)
    after = with_field(before)
    with reader(world, before.contract.row_table.name), pytest.raises(LedgerAway, match="a report"):
        apply(world, after)
    assert versions(world, before) == [("1.0.0", False, True)]
    world.send(before, [view(8)])
    assert len(world.drain(before)) == 1  # nor is the pipeline delayed
    apply(world, after)
    exact(world, after)


@pytest.mark.slow
def test_a_run_that_may_apply_it_waits_for_no_reader_and_tries_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_claims, "SHORT_WAIT", "100ms")
    before = views(world, evolution="additive")
    after = with_field(before)
    with reader(world, before.contract.row_table.name), pytest.raises(LedgerAway):
        world.drain(after)
    (state,) = world.rows("select owner, batch_failures from tidegate.pipeline where name = %s", before.name)
    assert state == {"owner": None, "batch_failures": 0}
    world.send(after, [view(8, channel="web")])
    assert len(world.drain(after)) == 1
    exact(world, after)


def test_a_role_that_may_not_see_other_sessions_is_told_who_holds_the_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evolve, "SHORT_WAIT", "50ms")
    monkeypatch.setattr(evolve, "PAUSE", (0.01, 0.02))
    before = views(world)
    table, url = before.contract.row_table.name, clerk_of(world, before)
    world.rows(f"alter table {table} owner to {before.name}_clerk")
    with reader(world, table), pytest.raises(LedgerAway, match="pg_read_all_stats") as refused:
        evolve.apply(url, with_field(before).contract, Given(), "tester")
    assert "None" not in str(refused.value)
