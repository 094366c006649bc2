"""`contract apply --not-null` is stopped between its transactions, or meets a reader, another contract, or itself."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import psycopg
import pytest

from platform_defs.contract.evolution.statements import NOT_NULL, Given
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract_changes import evolve
from platform_defs.engine.interfaces import crash_points
from platform_defs.engine.interfaces.crash_points import NotNullPoint
from platform_defs.errors import BadInput, ChangedMeanwhile, LedgerAway
from platform_defs.ledger.contract_ledger import ContractLedger
from tests.integration.contract_changes.test_contract_apply import apply, changed, columns, exact
from tests.integration.contract_changes.test_contract_columns import optional_tier, upserted, without
from tests.integration.verify.test_verify import customer
from tests.support.postgres.restricted_roles import clerk_of
from tests.support.replays import execute
from tests.support.world import World

POINTS: tuple[NotNullPoint, ...] = get_args(NotNullPoint)


class Killed(BaseException):
    """The end of the process: nothing after it runs."""


def nullable_tier(world: World) -> Pipeline:
    """Return customers with one row, in whose table Postgres allows NULL in the required column tier."""
    pipeline = world.new_pipeline("upsert", partitions=1)
    upserted(world, pipeline, ("C1", customer(1)))
    world.rows(f"alter table {pipeline.contract.row_table.name} alter tier drop not null")
    return pipeline


def tier_is_optional(pipeline: Pipeline) -> Pipeline:
    """Return the next version, in which messages need no tier."""
    fields = tuple(
        replace(f, required=False, rules=tuple(rule for rule in f.rules if rule.kind != "required"))
        if f.name == "tier"
        else f
        for f in pipeline.contract.fields
    )
    return changed(optional_tier(pipeline, "1.1.0"), "1.1.0", fields=fields)


def at(monkeypatch: pytest.MonkeyPatch, point: NotNullPoint, event: Callable[[], object]) -> None:
    """Call `event` when the command reaches the point for the first time."""
    left = [point]

    def reach(reached: str) -> None:
        if reached in left:
            left.clear()
            event()

    monkeypatch.setattr(crash_points, "reach", reach)


def killed(world: World, pipeline: Pipeline, point: NotNullPoint) -> None:
    """Run the command up to the point at which its process ends without any clean-up."""

    def kill() -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        at(patched, point, kill)
        patched.setattr(evolve, "suppress", lambda *_: _raise(Killed))
        with pytest.raises(Killed):
            evolve.set_not_null(world.endpoints.postgres_url, pipeline.contract)
    assert check_of(world, pipeline) == ["CHECK ((tier IS NOT NULL))"]


def _raise(error: type[BaseException]) -> None:
    raise error


def check_of(world: World, pipeline: Pipeline) -> list[str]:
    query = "select pg_get_constraintdef(oid) as d from pg_constraint where conrelid = %s::regclass and conname = %s"
    found = world.rows(query, pipeline.contract.row_table.name, NOT_NULL)
    return [row["d"].removesuffix(" NOT VALID") for row in found]


def without_tier(number: int) -> bytes:
    return json.dumps({k: v for k, v in json.loads(customer(number)).items() if k != "tier"}).encode()


def takes_no_tier(world: World, pipeline: Pipeline) -> None:
    """Assert that a message without a tier becomes a row, and that nothing is a dead letter."""
    assert upserted(world, pipeline, ("C2", without_tier(2))) == [("C1", "gold"), ("C2", None)]
    assert world.dead_letters(pipeline) == []
    exact(world, pipeline)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_contract_applied_after_a_kill_drops_the_check(world: World, point: NotNullPoint) -> None:
    first = nullable_tier(world)
    killed(world, first, point)
    second = tier_is_optional(first)
    (statement,) = apply(world, second).plan.statements
    assert statement.sql.endswith("DROP CONSTRAINT IF EXISTS tidegate_not_null")
    assert check_of(world, second) == []
    takes_no_tier(world, second)


def test_a_contract_that_loses_the_column_drops_the_check(world: World) -> None:
    first = nullable_tier(world)
    killed(world, first, "not_null_added")
    second = without(first, "tier")
    apply(world, second)
    assert upserted(world, second, ("C2", customer(2))) == [("C1", "gold"), ("C2", None)]
    assert world.dead_letters(second) == []


@pytest.mark.slow
def test_a_check_that_is_left_does_not_stop_a_run_whose_contract_requires_the_column(world: World) -> None:
    first = nullable_tier(world)
    killed(world, first, "not_null_added")
    rule = replace(first.contract.fields[0], rules=())
    second = changed(first, "1.0.1", fields=(rule, *first.contract.fields[1:]))
    assert upserted(world, second, ("C2", customer(2))) == [("C1", "gold"), ("C2", "gold")]
    third = tier_is_optional(second)
    with pytest.raises(BadInput, match=rf"DROP CONSTRAINT.*tidegate contract apply {first.name} --yes"):
        world.drain(third)
    apply(world, third)
    assert upserted(world, third, ("C2", without_tier(2))) == [("C1", "gold"), ("C2", None)]


def test_a_run_that_may_alter_tables_drops_the_check(world: World) -> None:
    first = nullable_tier(world)
    killed(world, first, "not_null_added")
    second = tier_is_optional(first)
    second = replace(second, contract=replace(second.contract, evolution="additive"))
    world.drain(second)
    assert check_of(world, second) == []


@pytest.mark.slow
def test_a_replay_of_a_contract_that_makes_the_column_optional_drops_the_check(world: World) -> None:
    first = nullable_tier(world)
    killed(world, first, "not_null_validated")
    second = tier_is_optional(first)
    execute(world, second)
    assert check_of(world, second) == []
    takes_no_tier(world, second)


def test_the_command_continues_after_a_kill_and_drops_a_check_without_a_use(world: World) -> None:
    first = nullable_tier(world)
    table, url = first.contract.row_table, world.endpoints.postgres_url
    for point in POINTS:
        killed(world, first, point)
    assert evolve.propose(url, first.contract, Given()).nullable == (f"{table.name}.tier",)
    assert evolve.set_not_null(url, first.contract) == (f"{table.name}.tier",)
    assert (columns(world, table)["tier"], check_of(world, first)) == (("text", True), [])
    world.rows(f"alter table {table.name} add constraint tidegate_not_null check (tier is not null)")
    assert evolve.set_not_null(url, first.contract) == ()
    assert check_of(world, first) == []


@pytest.mark.slow
def test_a_reader_that_begins_meanwhile_is_named_with_the_check_and_the_command(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = nullable_tier(world)
    table, url = first.contract.row_table.name, world.endpoints.postgres_url
    with psycopg.connect(url) as report:
        pid = report.info.backend_pid
        at(monkeypatch, "not_null_validated", lambda: report.execute(f"select * from {table}".encode()))
        monkeypatch.setattr(evolve, "TRIES", 1)
        with pytest.raises(LedgerAway) as refused:
            evolve.set_not_null(url, first.contract)
    monkeypatch.undo()
    message = str(refused.value)
    assert f"session {pid} " in message
    assert f"tidegate contract apply {first.name} --not-null" in message
    assert "tidegate_not_null" in message
    assert "nothing was changed" not in message.lower()
    assert evolve.set_not_null(url, first.contract) == (f"{table}.tier",)
    assert check_of(world, first) == []


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_contract_applied_between_the_steps_is_not_overruled(
    world: World, monkeypatch: pytest.MonkeyPatch, point: NotNullPoint
) -> None:
    first = nullable_tier(world)
    second = tier_is_optional(first)
    at(monkeypatch, point, lambda: apply(world, second))
    with pytest.raises(BadInput, match="the contract has changed"):
        evolve.set_not_null(world.endpoints.postgres_url, first.contract)
    monkeypatch.undo()
    assert (columns(world, first.contract.row_table)["tier"], check_of(world, first)) == (("text", False), [])
    takes_no_tier(world, second)


@pytest.mark.slow
def test_no_contract_is_recorded_while_the_check_is_added(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contract that makes the column optional has seen no CHECK, and is recorded first, or sees it."""
    first = nullable_tier(world)
    url = world.endpoints.postgres_url
    second = tier_is_optional(first)
    monkeypatch.setattr(evolve, "TRIES", 1)
    with psycopg.connect(url) as other:
        ledger = ContractLedger(other, first.name)
        ledger.lock()
        with pytest.raises(LedgerAway):
            evolve.set_not_null(url, first.contract)
        ledger.record(second.contract, "another session", by_command=True)
    with pytest.raises(BadInput, match="the contract has changed"):
        evolve.set_not_null(url, first.contract)
    assert check_of(world, first) == []


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_of_two_at_once_both_end_with_not_null_and_without_a_check(
    world: World, monkeypatch: pytest.MonkeyPatch, point: NotNullPoint
) -> None:
    first = nullable_tier(world)
    table, url = first.contract.row_table, world.endpoints.postgres_url
    done = list[tuple[str, ...]]()
    at(monkeypatch, point, lambda: done.append(evolve.set_not_null(url, first.contract)))
    evolve.set_not_null(url, first.contract)
    assert done == [(f"{table.name}.tier",)]
    assert (columns(world, table)["tier"], check_of(world, first)) == (("text", True), [])


def test_a_check_that_another_session_drops_is_not_replaced_by_a_long_lock(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, SET NOT NULL reads the whole table while readers wait."""
    first = nullable_tier(world)
    table, url = first.contract.row_table, world.endpoints.postgres_url
    drop = f"alter table {table.name} drop constraint tidegate_not_null"
    at(monkeypatch, "not_null_validated", lambda: world.rows(drop))
    with pytest.raises(ChangedMeanwhile, match=f"tidegate contract apply {first.name} --not-null"):
        evolve.set_not_null(url, first.contract)
    assert columns(world, table)["tier"] == ("text", False)


def test_a_role_that_does_not_own_the_table_gets_the_command_and_leaves_no_check(world: World) -> None:
    first = nullable_tier(world)
    url = clerk_of(world, first)
    with pytest.raises(BadInput, match=r"Only a table's owner may change it.*tidegate contract apply"):
        evolve.set_not_null(url, first.contract)
    assert check_of(world, first) == []
    killed(world, first, "not_null_added")
    with pytest.raises(BadInput, match=r"Only a table's owner may change it.*tidegate contract apply"):
        evolve.apply(url, tier_is_optional(first).contract, Given(), "tester")
