"""Tables that a pipeline cannot fill exactly are refused when a run begins, with the fix; nothing is written."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from platform_defs.contract.model.column_types import INTEGER, STRING
from platform_defs.contract.model.contract import Aggregate, Column, Contract, Disposition, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.storage import create_missing_tables
from platform_defs.engine.lease.lease import acquire
from platform_defs.engine.lease.table_claims import create_unclaimed
from platform_defs.engine.plan.replay_plan import ReplayStart
from platform_defs.engine.staging.staging_tables import take
from platform_defs.errors import BadInput
from platform_defs.ledger.ledger import Ledger
from platform_defs.postgres.connection import Connection
from platform_defs.postgres.live_table import LiveTable, key_columns, read_live, refuse_unfit
from platform_defs.postgres.tables import check_target, create_schema, create_target
from platform_defs.replay.replay import Replay
from tests.support.postgres.databases import new_database
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfers
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


@pytest.fixture
def pipeline(world: World) -> Pipeline:
    """Return a pipeline whose tables are created: postings (append) and balances (accumulate)."""
    made = world.new_pipeline()
    world.ledger.migrate()
    claim(world.ledger, made.contract)
    return made


@pytest.fixture
def tableless(world: World) -> Pipeline:
    """Return a pipeline that has its schema, and no table yet."""
    made = world.new_pipeline()
    world.ledger.migrate()
    world.rows(f"create schema {made.name}")
    return made


@pytest.fixture
def clerk(world: World, pipeline: Pipeline) -> Iterator[tuple[Ledger, str]]:
    """Yield the ledger as a user with all rights on it who may only read the pipeline's tables; and the user."""
    role = f"clerk_{uuid4().hex[:10]}"
    for statement in (
        f"create role {role} login password 'secret'",
        f"grant usage on schema {pipeline.name} to {role}",
        f"grant select on all tables in schema {pipeline.name} to {role}",
        f"grant usage, create on schema tidegate, tidegate_staging to {role}",
        f"grant all on all tables in schema tidegate, tidegate_staging to {role}",
        f"grant all on all sequences in schema tidegate to {role}",
    ):
        world.rows(statement)
    parts = urlsplit(world.endpoints.postgres_url)
    place = parts.netloc.rpartition("@")[2]
    yield Ledger(parts._replace(netloc=f"{role}:secret@{place}").geturl()), role
    world.rows(f"drop owned by {role}")
    world.rows(f"drop role {role}")


def claim(ledger: Ledger, contract: Contract) -> None:
    """Execute step 0 of a run, which takes the pipeline and its tables, and release the pipeline."""
    with closing(acquire(ledger.url, contract)):
        pass


def do(world: World, pipeline: Pipeline, *statements: str) -> None:
    for statement in statements:
        world.rows(statement.format(table=pipeline.contract.row_table.name, schema=pipeline.name))


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
        refuse_unfit(wider, found(world, contract, wider))
    do(world, pipeline, 'alter table {schema}.balances alter column last type text collate "default"')
    refuse_unfit(wider, found(world, contract, wider))


def found(world: World, contract: Contract, table: Table) -> LiveTable:
    with world.session() as session:
        live = read_live(session, contract.pipeline, table)
    assert live is not None
    return live


@pytest.fixture
def publication(world: World, pipeline: Pipeline) -> Iterator[str]:
    """Yield the name of a publication that replicates nothing yet."""
    name = f"{pipeline.name}_out"
    world.rows(f"create publication {name}")
    yield name
    world.rows(f"drop publication {name}")


def test_a_published_table_whose_rows_cannot_be_identified_is_refused_up_front(
    world: World, pipeline: Pipeline, publication: str, subtests: pytest.Subtests
) -> None:
    """Postgres would refuse the first UPDATE, after the batch was read: with a publication in any of these forms."""
    upsert = world.new_pipeline("upsert", transform=None).contract
    claim(world.ledger, upsert)
    contracts = pipeline.contract, upsert
    tables = {contract.pipeline: contract.tables[-1] for contract in contracts}
    for table in tables.values():
        world.rows(f"alter table {table.name} drop constraint {table.name.partition('.')[2]}_pkey")
        world.rows(f"create unique index by_key on {table.name} ({', '.join(key_columns(table))})")

    def publish(what: str, operations: str = "insert, update, delete, truncate") -> None:
        world.rows(f"drop publication {publication}")
        world.rows(f"create publication {publication} {what} with (publish = '{operations}')")

    both = f"for table {', '.join(table.name for table in tables.values())}"
    for what in (both, f"for tables in schema {', '.join(tables)}"):
        for contract in contracts:
            table = tables[contract.pipeline]
            with subtests.test(what, disposition=table.disposition):
                publish(what)
                with pytest.raises(BadInput, match=f"cannot identify.*ALTER TABLE {table.name} REPLICA IDENTITY FULL"):
                    claim(world.ledger, contract)
                with world.session() as session:  # no batch is refused for it before its own statements are
                    check_target(session, contract.pipeline, table)
                publish(what, "insert")
                claim(world.ledger, contract)
    publish(both, "delete")
    claim(world.ledger, pipeline.contract)  # an accumulate deletes no rows, an upsert those of tombstones
    with pytest.raises(BadInput, match="cannot delete from table"):
        claim(world.ledger, upsert)
    for contract in contracts:
        table = tables[contract.pipeline]
        with subtests.test("identified", disposition=table.disposition):
            publish(f"for table {table.name}")
            world.rows(f"alter table {table.name} replica identity using index by_key")
            claim(world.ledger, contract)
            publish(f"for table {table.name} where ({table.columns[-1].name} is not null)")
            with pytest.raises(BadInput, match="filter its rows only by columns of its replica identity"):
                claim(world.ledger, contract)
            world.rows(f"alter table {table.name} replica identity full")
            claim(world.ledger, contract)
    publish(f"for table {pipeline.contract.row_table.name}")
    claim(world.ledger, pipeline.contract)  # rows of an append are only inserted


def test_only_publications_of_the_table_itself_count(
    world: World, pipeline: Pipeline, publication: str, subtests: pytest.Subtests
) -> None:
    balances = pipeline.contract.accumulates[0]
    do(world, pipeline, "create schema {schema}_2", "create table {schema}_2.other (id int)")
    partition = "create table {schema}_2.whole (like {table}) partition by range (_offset)"
    do(world, pipeline, partition, "alter table {schema}_2.whole attach partition {table} default")
    for published, expected in {
        "for table {schema}_2.other, {schema}.postings": False,
        "for tables in schema {schema}_2": False,
        "for table {schema}.balances": True,
        "for tables in schema {schema}": True,
        "for all tables": True,
    }.items():
        with subtests.test(published):
            do(world, pipeline, f"drop publication {publication}", f"create publication {publication} {published}")
            assert found(world, pipeline.contract, balances).published is expected
    for published in ("for table {schema}_2.whole", "for tables in schema {schema}_2"):
        with subtests.test("an ancestor", published=published):
            do(world, pipeline, f"drop publication {publication}", f"create publication {publication} {published}")
            assert found(world, pipeline.contract, pipeline.contract.row_table).published


def test_a_published_partition_that_no_batch_writes_to_needs_no_replica_identity(
    world: World, pipeline: Pipeline, publication: str
) -> None:
    do(
        world,
        pipeline,
        "create table {schema}.parted (like {schema}.balances) partition by list (account)",
        "create unique index on {schema}.parted (account)",
        "create table {schema}.old partition of {schema}.parted for values in ('closed')",
        "create table {schema}.new partition of {schema}.parted default",
        "alter table {schema}.new replica identity full",
        "drop table {schema}.balances",
        "alter table {schema}.parted rename to balances",
        "update tidegate.output set table_oid = '{schema}.balances'::regclass where table_name = '{schema}.balances'",
        f"alter publication {publication} add table {{schema}}.balances",
    )
    for _ in range(2):  # the second batch updates rows
        assert [batch.messages for batch in world.send_and_drain(pipeline, transfers(8))] == [8]


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


def test_rights_on_columns_alone_do_not_allow_to_lock_the_table(
    world: World, pipeline: Pipeline, clerk: tuple[Ledger, str]
) -> None:
    ledger, role = clerk
    table = pipeline.contract.row_table.name
    do(world, pipeline, f"grant insert, update on all tables in schema {{schema}} to {role}")
    columns = world.rows(
        "select string_agg(attname, ', ') as names from pg_attribute where attnum > 0 and"
        " attrelid = to_regclass(%s) and not attisdropped",
        table,
    )[0]["names"]
    do(
        world,
        pipeline,
        f"revoke insert, update on {{table}} from {role}",
        f"grant insert ({columns}) on {{table}} to {role}",
    )
    with pytest.raises(BadInput, match=rf"grant insert on {table} to {role}"):
        claim(ledger, pipeline.contract)


@pytest.mark.parametrize("lacking", ["insert", "update"])
def test_a_right_that_is_lacking_is_named_with_the_statement_that_grants_it(
    world: World, pipeline: Pipeline, clerk: tuple[Ledger, str], lacking: str
) -> None:
    ledger, role = clerk
    do(world, pipeline, f"grant insert, update on all tables in schema {{schema}} to {role}")
    claim(ledger, pipeline.contract)
    do(world, pipeline, f"revoke {lacking} on {{schema}}.balances from {role}")
    with pytest.raises(BadInput, match=rf"grant {lacking} on {pipeline.name}\.balances to {role}"):
        claim(ledger, pipeline.contract)
    columns = ", ".join(column.name for column in pipeline.contract.accumulates[0].columns)
    do(world, pipeline, f"grant {lacking} ({columns}) on {{schema}}.balances to {role}")
    claim(ledger, pipeline.contract)


def test_a_schema_or_database_that_we_may_not_use_is_named_with_the_statement_that_grants_it(
    world: World, pipeline: Pipeline, clerk: tuple[Ledger, str]
) -> None:
    ledger, role = clerk
    do(world, pipeline, f"revoke usage on schema {{schema}} from {role}")
    with pytest.raises(BadInput, match=rf"grant usage on schema {pipeline.name} to {role}"):
        claim(ledger, pipeline.contract)
    other = world.new_pipeline("append", transform=None)
    with pytest.raises(BadInput, match=rf"grant create on database .* to {role}"):
        claim(ledger, other.contract)
    world.rows(f"create schema {other.name}")
    with pytest.raises(BadInput, match=rf"grant usage, create on schema {other.name} to {role}"):
        claim(ledger, other.contract)
    world.rows(f"grant usage, create on schema {other.name} to {role}")
    claim(ledger, other.contract)  # created by us: a table needs no right on the database


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


def test_a_domain_in_a_schema_that_we_may_not_use_is_read_all_the_same(
    world: World, pipeline: Pipeline, clerk: tuple[Ledger, str]
) -> None:
    ledger, role = clerk
    do(world, pipeline, f"grant all on all tables in schema {{schema}} to {role}", "create schema {schema}_own")
    do(world, pipeline, "create domain {schema}_own.present as text not null")
    do(world, pipeline, "alter table {table} add column tenant {schema}_own.present")
    with pytest.raises(BadInput, match=r"its domain .*_own\.present rejects NULL"):
        claim(ledger, pipeline.contract)
    do(world, pipeline, "drop schema {schema}_own cascade")
    claim(ledger, pipeline.contract)


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


def test_every_table_of_the_ledger_can_be_replicated(world: World) -> None:
    """Under a publication FOR ALL TABLES, UPDATE and DELETE fail on a table without a primary key."""
    world.ledger.migrate()
    keyless = world.rows(
        "select relname from pg_class c where relnamespace = 'tidegate'::regnamespace and relkind in ('r', 'p') "
        "and relpersistence = 'p' and not exists (select 1 from pg_index where indrelid = c.oid and indisprimary)"
    )
    assert keyless == []


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
