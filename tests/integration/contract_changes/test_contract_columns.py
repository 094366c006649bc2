"""A column's name is reused: for another column, after a rename, or after its column was dropped."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from platform_defs.contract.evolution.statements import NOT_NULL, Given, Statement
from platform_defs.contract.model.column_types import INTEGER, STRING
from platform_defs.contract.model.contract import Column, Field
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.odcs_writer import contract_digest
from platform_defs.contract_changes import evolve
from platform_defs.errors import BadInput, LedgerAway
from platform_defs.ledger.contract_ledger import ContractLedger, run
from platform_defs.postgres import connection as postgres
from platform_defs.postgres.connection import Connection
from platform_defs.verify.verify import verify
from tests.integration.contract_changes.test_contract_apply import apply, changed, columns, exact, views, with_field
from tests.integration.verify.test_verify import customer, view
from tests.support.replays import execute
from tests.support.world import World


def renamed(pipeline: Pipeline, old: str, new: str) -> Pipeline:
    """Return the pipeline with the field and its column renamed; messages have the old name."""
    contract = pipeline.contract
    fields = tuple(
        replace(f, name=new, physical_path=(old,), rules=tuple(replace(rule, field=new) for rule in f.rules))
        if f.name == old
        else f
        for f in contract.fields
    )
    columns = tuple(replace(c, name=new, renamed_from=old) if c.name == old else c for c in contract.row_table.columns)
    return changed(pipeline, "2.0.0", fields=fields, columns=columns)


def without(pipeline: Pipeline, name: str) -> Pipeline:
    """Return the next version, without the field and its column."""
    contract = pipeline.contract
    fields = tuple(item for item in contract.fields if item.name != name)
    columns = tuple(column for column in contract.row_table.columns if column.name != name)
    return changed(pipeline, "2.0.0", fields=fields, columns=columns)


def optional_tier(pipeline: Pipeline, version: str) -> Pipeline:
    """Return the pipeline of customers with a table whose column tier may be NULL."""
    columns = pipeline.contract.row_table.columns
    optional = tuple(replace(column, required=column.required and column.name != "tier") for column in columns)
    return changed(pipeline, version, columns=optional)


def upserted(world: World, pipeline: Pipeline, *messages: tuple[str, bytes]) -> list[tuple[str, str | None]]:
    """Send messages by key and run; return key and tier of each row."""
    world.send(pipeline, [value for _, value in messages], keys=[key.encode() for key, _ in messages], partition=0)
    world.drain(pipeline)
    return world.by_key(pipeline, "tier")


@pytest.mark.longest
def test_what_an_upsert_no_longer_has_is_empty_in_the_rows_that_it_writes(world: World) -> None:
    first = optional_tier(world.new_pipeline("upsert"), "1.0.0")
    table = first.contract.row_table.name
    upserted(world, first, ("C1", customer(1)), ("C2", customer(2)))
    world.rows(f"alter table {table} add note text, add seen text default 'no'")  # a user's own
    world.rows(f"update {table} set note = 'calls often', seen = 'yes'")
    second = without(first, "tier")
    assert upserted(world, second, ("C1", customer(1, tier="basic"))) == [("C1", None), ("C2", "gold")]
    exact(world, second)
    third = changed(first, "3.0.0")
    assert apply(world, third).plan.statements == ()
    found = upserted(world, third, ("C3", customer(3)))
    assert found == [("C1", None), ("C2", "gold"), ("C3", "gold")]
    assert world.rows(f"select note, seen from {table} where _key = 'C1'") == [{"note": "calls often", "seen": "yes"}]
    exact(world, third)
    world.rows(f"update {table} set tier = 'gold' where _key = 'C1'")
    report = verify(third, world.endpoints, world.spark)
    assert (report.ok, report.wrong) == (False, 1)


@pytest.mark.longest
def test_a_replay_empties_what_an_upsert_no_longer_has(world: World) -> None:
    first = world.new_pipeline("upsert")
    upserted(world, first, ("C1", customer(1)), ("C2", customer(2)))
    second = without(first, "tier")
    apply(world, second)  # the column is NOT NULL
    assert upserted(world, second, ("C1", customer(1, name="Grace"))) == [("C1", None), ("C2", "gold")]
    execute(world, second)
    assert upserted(world, second) == [("C1", None), ("C2", None)]
    exact(world, second)


def test_the_required_columns_of_an_upsert_are_not_null(world: World) -> None:
    pipeline = world.new_pipeline("upsert")
    table = pipeline.contract.row_table
    assert upserted(world, pipeline, ("C1", customer(1)), ("C2", customer(2))) == [("C1", "gold"), ("C2", "gold")]
    required = {column.name: column.required for column in table.columns}
    assert {name: demanded for name, (_, demanded) in columns(world, table).items()} == required
    world.send_and_drain(pipeline, [None, customer(2, tier="silver")], keys=[b"C1", b"C2"], partition=0)
    assert upserted(world, pipeline) == [("C2", "silver")]
    exact(world, pipeline)


@pytest.mark.slow
def test_a_table_of_an_older_version_gets_not_null_while_it_is_read_and_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = world.new_pipeline("upsert")
    table, url = pipeline.contract.row_table, world.endpoints.postgres_url
    upserted(world, pipeline, ("C1", customer(1)))
    made = columns(world, table)
    world.rows(f"alter table {table.name} alter name drop not null, alter tier drop not null")
    world.rows(f"update {table.name} set tier = null")
    found = evolve.propose(url, pipeline.contract, Given())
    assert (found.nullable, found.plan.empty) == ((f"{table.name}.name", f"{table.name}.tier"), True)
    with pytest.raises(BadInput, match=rf"{table.name}.tier is NULL in 1 row.*tidegate replay"):
        evolve.set_not_null(url, pipeline.contract)
    left = "select 1 from pg_constraint where conname = %s and conrelid = %s::regclass"
    assert world.rows(left, NOT_NULL, table.name) == []
    world.rows(f"update {table.name} set tier = 'gold'")
    with world.session() as reader, reader.transaction():
        reader.execute(f"select * from {table.name}")  # keeps its lock until the end
        monkeypatch.setattr(evolve, "TRIES", 1)
        with pytest.raises(LedgerAway, match=f"session {reader.info.backend_pid} "):
            evolve.set_not_null(url, pipeline.contract)
    monkeypatch.undo()
    notices = list[str]()
    monkeypatch.setattr(evolve, "connect", noting(notices))
    assert evolve.set_not_null(url, pipeline.contract) == found.nullable
    assert [name for name in ("name", "tier") if any(f'.{name}" are sufficient to prove' in n for n in notices)] == [
        *("name", "tier")
    ], notices
    assert columns(world, table) == made
    assert evolve.set_not_null(url, pipeline.contract) == ()
    with pytest.raises(BadInput, match="tidegate contract apply"):
        evolve.set_not_null(url, changed(pipeline, "2.0.0").contract)


def noting(notices: list[str]) -> Callable[..., Connection]:
    """Connect as usual, and record Postgres' notices while it alters tables."""

    def connect(*given: Any) -> Connection:
        connection = postgres.connect(*given)
        connection.execute("set client_min_messages = debug1")
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        return connection

    return connect


def test_contracts_that_take_turns_add_no_applications(world: World) -> None:
    first = views(world)
    second = changed(first, "1.0.1")
    with world.session() as session:
        ledger = ContractLedger(session, first.name)
        counts = [len(ledger.applications()) for _ in range(10) if _take_turns(ledger, first, second)]
        last = ledger.applications()[-1]
    assert max(counts) <= 4, counts
    assert last[1] == contract_digest(first.contract)


def _take_turns(ledger: ContractLedger, first: Pipeline, second: Pipeline) -> bool:
    return all(ledger.record(item.contract, "a run", by_command=False) for item in (second, first))


@pytest.mark.slow
def test_an_upsert_empties_a_column_that_an_older_contract_had_brought_back(world: World) -> None:
    first = optional_tier(world.new_pipeline("upsert"), "r1")
    second = changed(without(first, "tier"), "r2")
    upserted(world, first, ("C1", customer(1)), ("C2", customer(2)))
    apply(world, second, Given(drop=frozenset({"tier"})))
    apply(world, first)
    assert upserted(world, first, ("C1", customer(1))) == [("C1", "gold"), ("C2", None)]
    apply(world, second)
    upserted(world, second, ("C1", customer(1)), ("C3", customer(3)))
    found = world.rows(f"select tier from {second.contract.row_table.name}")
    assert [row["tier"] for row in found] == [None] * 3
    exact(world, second)


@pytest.mark.longest
def test_a_rename_that_comes_again_says_what_to_do_with_the_two_columns(world: World) -> None:
    first = changed(with_field(views(world)), "r1")
    second = changed(renamed(first, "channel", "medium"), "r2")
    table = first.contract.row_table.name
    for contract, given, number in ((first, None, 8), (second, Given(breaking=True), 9), (first, None, 10)):
        apply(world, contract, given)
        world.send_and_drain(contract, [view(number, channel=f"of {number}")])
    exact(world, first)
    with pytest.raises(BadInput, match=r'has both channel and medium.*SET "medium" = "channel".*tidegate replay'):
        apply(world, second, Given(breaking=True))
    world.rows(f"update {table} set medium = channel where channel is not null")
    world.rows(f"alter table {table} drop channel")
    apply(world, second, Given(breaking=True))
    world.send_and_drain(second, [view(11, channel="of 11")])
    found = world.rows(f"select medium from {table} where medium is not null order by event_id")
    assert sorted(row["medium"] for row in found) == ["of 10", "of 11", "of 8", "of 9"]
    exact(world, second)


@pytest.mark.longest
def test_what_an_append_table_no_longer_demands_is_empty_in_new_rows(world: World) -> None:
    first = views(world)
    second = without(first, "visitor")
    apply(world, second)
    world.send_and_drain(second, [view(8)])
    third = changed(first, "3.0.0")
    with pytest.raises(BadInput, match=r"visitor is NULL in 1 row:"):
        apply(world, third)
    execute(world, third)
    assert world.rows(f"select count(visitor) as n from {first.contract.row_table.name}") == [{"n": 9}]
    exact(world, third)


@pytest.mark.slow
def test_a_new_column_gets_the_name_that_a_renamed_one_had(world: World) -> None:
    first = with_field(views(world))
    apply(world, first)
    world.send_and_drain(first, [view(8, channel="web")])
    second = renamed(first, "channel", "medium")
    apply(world, second, Given(breaking=True))
    world.send_and_drain(second, [view(9, channel="app")])
    contract = second.contract
    columns = (*contract.row_table.columns, Column("channel", STRING, False))
    made = Field("channel", STRING, False, (), physical_path=("chan",))
    third = changed(second, "2.1.0", fields=(*contract.fields, made), columns=columns)
    apply(world, third)
    world.send_and_drain(third, [view(10, channel="tv", chan="second")])
    found = world.rows(f"select medium, channel from {contract.row_table.name} where medium is not null order by 1")
    assert [(row["medium"], row["channel"]) for row in found] == [("app", None), ("tv", "second"), ("web", None)]
    exact(world, third)


@pytest.mark.slow
def test_a_new_column_gets_the_name_in_the_version_that_renames_the_one_that_had_it(world: World) -> None:
    first = with_field(views(world))
    apply(world, first)
    world.send_and_drain(first, [view(8, channel="web")])
    contract = first.contract
    others = tuple(item for item in contract.fields if item.name != "channel")
    fields = [
        Field(name, STRING, False, (), physical_path=(key,))
        for name, key in (("channel", "chan"), ("medium", "channel"))
    ]
    columns = tuple(column for column in contract.row_table.columns if column.name != "channel")
    made = (Column("channel", STRING, False), Column("medium", STRING, False, renamed_from="channel"))
    second = changed(first, "2.0.0", fields=(*others, *fields), columns=(*columns, *made))
    apply(world, second, Given(breaking=True))
    world.send_and_drain(second, [view(9, channel="app", chan="new")])
    found = world.rows(f"select medium, channel from {contract.row_table.name} where medium is not null order by 1")
    assert [(row["medium"], row["channel"]) for row in found] == [("app", "new"), ("web", None)]
    exact(world, second)


@pytest.mark.longest
def test_a_column_that_was_dropped_comes_back_empty_and_is_not_missed(world: World) -> None:
    before = views(world)
    first = with_field(before)
    apply(world, first)
    world.send_and_drain(first, [view(8, channel="web")])
    old = before.contract
    second = changed(first, "2.0.0", fields=old.fields, columns=old.row_table.columns)
    apply(world, second, Given(drop=frozenset({"channel"})))
    third = with_field(second, version="2.1.0")
    apply(world, third)
    world.send_and_drain(third, [view(9, channel="app")])
    found = world.rows(f"select channel from {old.row_table.name} where channel is not null")
    assert found == [{"channel": "app"}]
    exact(world, third)


def test_a_column_that_stayed_and_comes_back_with_another_type_names_the_replay(world: World) -> None:
    before = views(world)
    first = with_field(before)
    apply(world, first)
    old = before.contract
    second = changed(first, "2.0.0", fields=old.fields, columns=old.row_table.columns)
    apply(world, second)
    made, column = Field("channel", INTEGER, False, ()), Column("channel", INTEGER, False)
    third = changed(second, "2.1.0", fields=(*old.fields, made), columns=(*old.row_table.columns, column))
    with pytest.raises(BadInput, match=f"channel is text.*tidegate replay {before.name} --execute"):
        apply(world, third)


def test_a_table_without_room_for_another_column_is_no_bug(world: World) -> None:
    """Columns that were dropped still count, as in a table whose contract has changed often."""
    schema = world.new_pipeline("append", transform=None).name
    world.rows(f"create schema {schema} create table full_of_columns ({', '.join(f'c{n} int' for n in range(1_600))})")
    world.rows(f"alter table {schema}.full_of_columns drop column c0")
    added = Statement("add", f"{schema}.full_of_columns", "channel", "ADD COLUMN channel text")
    with world.session() as session, pytest.raises(BadInput, match=r"ADD COLUMN channel.*at most 1600 columns"):
        list(run(session, [added]))
