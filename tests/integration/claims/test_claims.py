"""Tables that a pipeline cannot fill exactly are refused when a run begins, with the fix; nothing is written."""

from dataclasses import replace

import psycopg
import pytest

from platform_defs.contract.model.column_types import INTEGER, STRING
from platform_defs.contract.model.contract import Aggregate, Column, Disposition
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.staging.staging_tables import take
from platform_defs.errors import BadInput
from platform_defs.ledger.ledger import Ledger
from platform_defs.postgres.connection import Connection
from platform_defs.postgres.live_table import refuse_unfit
from platform_defs.postgres.tables import create_target
from tests.support.claims import claim, do, live_table
from tests.support.world import World
from tests.unit.contract.test_table_limits import MOST

NOTHING = "create function {schema}.nothing() returns trigger language plpgsql as 'begin return null; end'"


SWALLOWS = {
    "rule": ["create rule quiet as on insert to {table} do instead nothing"],
    "trigger": [
        NOTHING,
        "create trigger quiet before insert on {table} for each row execute function {schema}.nothing()",
    ],
}


POSTINGS = "transfer_id text, account text, amount numeric(18,2), currency text, occurred_at timestamptz"


OWN = "_batch_id bigint, _partition int, _offset bigint"


FOREIGN = [
    "create table {table} (" + POSTINGS + ", " + OWN + ") partition by list (_partition)",
    "create foreign data wrapper {schema}_w",
    "create server {schema}_s foreign data wrapper {schema}_w",
    "create foreign table {schema}.far partition of {table} default server {schema}_s",
]


NOT_A_TABLE = {
    "view": ["create view {table} as select p.* from (values (1)) v left join {schema}.plain p on false"],
    "unlogged": ["create unlogged table {table} (" + POSTINGS + ", " + OWN + ")"],
    "foreign partition": FOREIGN,
}


@pytest.mark.parametrize("kind", SWALLOWS)
def test_a_table_that_may_swallow_or_change_rows_is_refused(world: World, pipeline: Pipeline, kind: str) -> None:
    do(world, pipeline, *SWALLOWS[kind])
    with pytest.raises(BadInput, match=rf"{kind} quiet.*drop {kind} quiet on {pipeline.contract.row_table.name}"):
        claim(world.ledger, pipeline.contract)


def test_what_runs_after_a_row_or_for_a_whole_statement_or_is_switched_off_is_the_users_own(
    world: World, pipeline: Pipeline
) -> None:
    do(
        world,
        pipeline,
        *SWALLOWS["trigger"],
        "alter table {table} disable trigger quiet",
        "create trigger after_each after insert on {table} for each row execute function {schema}.nothing()",
        "create trigger before_all before insert on {table} for each statement execute function {schema}.nothing()",
    )
    claim(world.ledger, pipeline.contract)


def test_row_level_security_that_applies_to_us_is_refused(
    world: World, pipeline: Pipeline, clerk: tuple[Ledger, str]
) -> None:
    ledger, role = clerk
    do(world, pipeline, f"grant all on all tables in schema {pipeline.name} to {role}")
    claim(ledger, pipeline.contract)
    do(world, pipeline, "alter table {table} enable row level security")
    claim(world.ledger, pipeline.contract)  # the owner is not subject to it
    with pytest.raises(BadInput, match=rf"row-level security.*alter role {role} bypassrls"):
        claim(ledger, pipeline.contract)


@pytest.mark.parametrize("kind", NOT_A_TABLE)
def test_what_does_not_commit_and_recover_with_the_ledger_is_refused(
    world: World, tableless: Pipeline, kind: str
) -> None:
    do(world, tableless, "create table {schema}.plain (" + POSTINGS + ", " + OWN + ")", *NOT_A_TABLE[kind])
    with pytest.raises(BadInput, match=kind.partition(" ")[0]):
        claim(world.ledger, tableless.contract)
    do(world, tableless, "drop foreign data wrapper if exists {schema}_w cascade")


def test_a_partitioned_table_of_ordinary_partitions_is_taken(world: World, tableless: Pipeline) -> None:
    do(world, tableless, FOREIGN[0], "create table {schema}.all_of_it partition of {table} default")
    claim(world.ledger, tableless.contract)


def test_a_trigger_of_a_partition_alone_is_found(world: World, tableless: Pipeline) -> None:
    part = "create trigger quiet before insert on {schema}.all_of_it for each row execute function {schema}.nothing()"
    do(world, tableless, FOREIGN[0], "create table {schema}.all_of_it partition of {table} default", NOTHING, part)
    with pytest.raises(BadInput, match=r"trigger quiet.* on .*\.all_of_it"):
        claim(world.ledger, tableless.contract)


@pytest.mark.parametrize(
    "instead",
    [
        "create index on {schema}.balances (account)",
        "create unique index on {schema}.balances (account) where balance > 0",
        "create unique index on {schema}.balances (account, postings)",
        "create unique index on {schema}.balances (lower(account))",
        "alter table {schema}.balances add unique (account) deferrable",
    ],
)
def test_a_table_that_is_written_by_key_needs_a_unique_index_on_just_the_key(
    world: World, pipeline: Pipeline, instead: str
) -> None:
    do(world, pipeline, "alter table {schema}.balances drop constraint balances_pkey", instead)
    with pytest.raises(BadInput, match=rf"create unique index on {pipeline.name}\.balances \(account\)"):
        claim(world.ledger, pipeline.contract)
    do(world, pipeline, "create unique index on {schema}.balances (account) include (postings)")
    claim(world.ledger, pipeline.contract)


def test_an_index_on_the_key_that_cannot_be_used_is_named_with_the_reason(
    world: World, pipeline: Pipeline, subtests: pytest.Subtests
) -> None:
    do(world, pipeline, "alter table {schema}.balances drop constraint balances_pkey")
    twice = "insert into {schema}.balances values ('A', 1, 1), ('A', 2, 2)"
    reasons = {
        "deferrable": "alter table {schema}.balances add constraint mine unique (account) deferrable",
        "partial": "create unique index mine on {schema}.balances (account) where balance > 0",
        "INVALID": "create unique index concurrently mine on {schema}.balances (account)",
    }
    for reason, statement in reasons.items():
        with subtests.test(reason):
            if reason == "INVALID":
                do(world, pipeline, twice)
                with pytest.raises(psycopg.errors.UniqueViolation):
                    do(world, pipeline, statement)
            else:
                do(world, pipeline, statement)
            with pytest.raises(BadInput, match=rf"create unique index .*\. {pipeline.name}\.mine is {reason}"):
                claim(world.ledger, pipeline.contract)
            do(world, pipeline, "alter table {schema}.balances drop constraint if exists mine")
            do(world, pipeline, "drop index if exists {schema}.mine")


def test_a_key_column_needs_a_deterministic_collation(world: World, pipeline: Pipeline) -> None:
    """The embedded Postgres is built without ICU, so its catalogue is altered instead."""
    do(world, pipeline, 'create collation {schema}.ci from "C"')
    do(world, pipeline, "alter table {schema}.balances alter column account type text collate {schema}.ci")
    claim(world.ledger, pipeline.contract)
    own = "collname = 'ci' and collnamespace = '{schema}'::regnamespace"
    do(world, pipeline, f"update pg_collation set collisdeterministic = false where {own}")
    with pytest.raises(BadInput, match='alter column account type text collate "C"'):
        claim(world.ledger, pipeline.contract)
    do(world, pipeline, 'alter table {schema}.balances alter column account type text collate "C"')
    claim(world.ledger, pipeline.contract)


def test_a_text_that_is_a_maximum_needs_the_collation_of_the_database(world: World, pipeline: Pipeline) -> None:
    """Staging has that collation: max('a', 'B') is computed there in one batch, and in the table over two."""
    balances = pipeline.contract.accumulates[0]
    last = Aggregate("last", "max", "currency")
    column = replace(balances.columns[0], name="last", type=STRING)
    wider = replace(balances, aggregates=(*balances.aggregates, last), columns=(*balances.columns, column))
    contract = replace(pipeline.contract, tables=(pipeline.contract.row_table, wider))
    do(world, pipeline, 'alter table {schema}.balances add column last text collate "C"')
    with pytest.raises(BadInput, match=r'column last of .*alter column last type text collate "default"'):
        refuse_unfit(wider, live_table(world, contract, wider))
    do(world, pipeline, 'alter table {schema}.balances alter column last type text collate "default"')
    refuse_unfit(wider, live_table(world, contract, wider))


@pytest.mark.parametrize("action", ["on delete cascade", "on delete set null", "on update cascade"])
def test_a_foreign_key_that_changes_rows_when_a_pipeline_deletes_another_is_refused(
    world: World, pipeline: Pipeline, action: str
) -> None:
    key = "alter table {table} add constraint fk foreign key (account) references {schema}.balances"
    do(world, pipeline, f"{key} {action}")
    with pytest.raises(BadInput, match=rf"foreign key fk on {pipeline.contract.row_table.name} has an ON DELETE"):
        claim(world.ledger, pipeline.contract)
    do(world, pipeline, "alter table {table} drop constraint fk", key)
    claim(world.ledger, pipeline.contract)
    do(world, pipeline, "create table {schema}.mine (account text primary key)")
    do(world, pipeline, "alter table {table} add foreign key (account) references {schema}.mine on delete cascade")
    claim(world.ledger, pipeline.contract)


DOMAINS = (
    "create domain {schema}.present as text not null",
    "create domain {schema}.below as {schema}.present",
    "create domain {schema}.checked as text check (coalesce(value, '') <> '')",
    "create domain {schema}.filled as text default 'x' not null",
    "create domain {schema}.optional as text check (value <> '')",
)


def test_a_column_that_the_contract_lacks_must_have_a_default_or_accept_null(
    world: World, pipeline: Pipeline, subtests: pytest.Subtests
) -> None:
    do(world, pipeline, *DOMAINS)
    demanded = {
        "text not null": "it is NOT NULL",
        "{schema}.present": r"its domain .*\.present rejects NULL",
        "{schema}.below": r"its domain .*\.below rejects NULL",
        "{schema}.checked": r"its domain .*\.checked rejects NULL",
        "{schema}.filled default null": r"its domain .*\.filled rejects NULL",
        "text constraint tenanted check (tenant is not null)": "the constraint tenanted on .* rejects NULL",
    }
    free = "text", "text default 'x' not null", "{schema}.filled", "{schema}.present default 'x'", "{schema}.optional"
    add = "alter table {table} drop column if exists tenant, add column tenant "
    for column, reason in demanded.items():
        with subtests.test(column):
            do(world, pipeline, add + column)
            with pytest.raises(BadInput, match=f"column tenant of .* is not in the contract .* {reason}"):
                claim(world.ledger, pipeline.contract)
    for column in free:
        with subtests.test(column):
            do(world, pipeline, add + column)
            claim(world.ledger, pipeline.contract)


def test_a_column_that_only_one_partition_demands_is_refused(world: World, tableless: Pipeline) -> None:
    do(world, tableless, FOREIGN[0], "create table {schema}.part partition of {table} default")
    do(world, tableless, "alter table {table} add column tenant text")
    do(world, tableless, "alter table {schema}.part alter column tenant set not null")
    with pytest.raises(BadInput, match=r"column tenant of .* it is NOT NULL"):
        claim(world.ledger, tableless.contract)
    do(world, tableless, "alter table {schema}.part alter column tenant drop not null")
    claim(world.ledger, tableless.contract)


@pytest.mark.parametrize("generated", ["always as identity", "always as (1) stored"])
def test_a_column_that_only_postgres_may_fill_is_refused(world: World, pipeline: Pipeline, generated: str) -> None:
    do(
        world,
        pipeline,
        "alter table {schema}.balances drop column postings",
        f"alter table {{schema}}.balances add column postings bigint generated {generated}",
    )
    with pytest.raises(BadInput, match=r"column postings of .* is generated always.*alter column postings"):
        claim(world.ledger, pipeline.contract)


def test_a_key_column_may_be_generated_by_default(world: World, pipeline: Pipeline) -> None:
    do(world, pipeline, "alter table {schema}.balances alter postings add generated by default as identity")
    claim(world.ledger, pipeline.contract)


def test_a_table_that_was_renamed_with_its_contract_stays_the_pipelines_own(world: World, pipeline: Pipeline) -> None:
    do(world, pipeline, "alter table {table} rename to bookings")
    row_table = replace(pipeline.contract.row_table, name=f"{pipeline.name}.bookings")
    renamed = replace(pipeline.contract, tables=(row_table, *pipeline.contract.accumulates))
    claim(world.ledger, renamed)
    names = world.rows("select table_name from tidegate.output where pipeline = %s order by 1", pipeline.name)
    assert [row["table_name"] for row in names] == [f"{pipeline.name}.balances", f"{pipeline.name}.bookings"]


@pytest.mark.parametrize("disposition", MOST)
def test_the_widest_table_that_a_contract_may_have_can_be_created_and_staged(
    world: World, disposition: Disposition
) -> None:
    """And one column more is too many for one of the two, so the limit is neither too low nor too high."""
    world.ledger.migrate()
    shipped = world.new_pipeline(disposition, transform=None).contract
    claim(world.ledger, shipped)
    columns = [Column(f"c{n}", INTEGER, required=False) for n in range(MOST[disposition] + 1)]

    def create(session: Connection, count: int) -> None:
        table = replace(shipped.tables[-1], columns=tuple(columns[:count]), name=f"{shipped.pipeline}.wide")
        table = replace(table, group_by=("c0",) if disposition == "accumulate" else ())
        with session.transaction(force_rollback=True):
            create_target(session, table)
            if disposition != "accumulate":
                take(session, replace(shipped, tables=(table,)), shipped.pipeline, 2**40)

    with world.session() as session:
        create(session, MOST[disposition])
        with pytest.raises(psycopg.errors.TooManyColumns):
            create(session, MOST[disposition] + 1)
