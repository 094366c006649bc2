"""Three roles with exactly the rights that `tidegate rights` prints: an owner, a publisher, a reader."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing

import click
import dagster as dg
import pytest
from psycopg.errors import InsufficientPrivilege
from pyspark.sql import SparkSession

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster import storage
from platform_defs.doctor.vitals import heartbeats, look
from platform_defs.engine.lease.lease import acquire
from platform_defs.engine.lease.table_claims import create_unclaimed
from platform_defs.engine.plan.replay_plan import ReplayStart
from platform_defs.errors import BadInput, LedgerAway
from platform_defs.ledger.migrations import KNOWN
from platform_defs.replay.replay import Replay
from platform_defs.settings.settings import PROJECT_ROOT
from platform_defs.stack.endpoints import Endpoints
from platform_defs.verify.verify import verify
from tests.support.postgres.restricted_roles import Company, new_company
from tests.support.world import World, transfers

FORBIDDEN = {
    "publisher": (
        "create schema mine",
        "create table public.mine ()",
        "create table {schema}.mine ()",
        "create table tidegate.mine ()",
        "create table dagster.mine ()",
        "alter table {table} add mine int",
        "truncate {table}",
        "delete from {table}",
        "drop table {table}",
        "truncate tidegate.batch",
        "drop table tidegate.batch",
        "insert into tidegate.migration values ('999.sql')",
        "delete from tidegate.migration",
        "select pg_terminate_backend(pid) from pg_stat_activity where usename <> current_user",
    ),
    "reader": ("select from tidegate_staging.coverage", "create temporary table mine ()", "delete from tidegate.batch"),
}
WRITABLE = """
select format('%%I.%%I', n.nspname, c.relname) from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'v', 'S') and n.nspname not in ('pg_catalog', 'information_schema')
   and case c.relkind when 'S' then has_sequence_privilege(%s, c.oid, 'USAGE, UPDATE')
                      else has_table_privilege(%s, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') end
"""


@pytest.fixture
def company(world: World) -> Iterator[Company]:
    """Yield a new company, in which nothing exists yet."""
    with new_company(world) as made:
        yield made


@pytest.fixture(scope="module")
def governed(endpoints: Endpoints, spark: Callable[[], SparkSession]) -> Iterator[tuple[Company, Pipeline]]:
    """Yield a company in which everything exists, and its pipeline, for tests that change nothing."""
    world = World(endpoints, spark)
    with new_company(world) as company, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_DAGSTER_URL", company.urls["owner"])
        assert storage.create_missing_tables()
        assert not storage.create_missing_tables()
        pipeline = world.new_pipeline()
        company.grant(pipeline)
        yield company, pipeline


def _messages(disposition: str) -> tuple[list[bytes | None], list[bytes | None] | None]:
    """Return some good messages and one that becomes no row, and their keys."""
    customer = '{"customer_id": "C%d", "name": "Ada", "tier": "gold", "signed_up": "2026-11-01"}'
    view = '{"event_id": "e%d", "visitor": "v", "url": "https://a.b/", "viewed_at": "2026-11-01T10:00:00Z"}'
    match disposition:
        case "upsert":
            keys: list[bytes | None] = [*(f"C{n}".encode() for n in range(4)), b"C0", b"C9"]
            return [*((customer % n).encode() for n in range(4)), None, b"{"], keys
        case "append":
            return [*((view % n).encode() for n in range(4)), b"{"], None
        case _:
            return [*transfers(8), b"{"], None


slow = pytest.mark.slow


@pytest.mark.longest
@pytest.mark.parametrize(
    "disposition", [pytest.param("append", marks=slow), pytest.param("upsert", marks=slow), "accumulate"]
)
def test_a_publisher_runs_a_pipeline_and_a_reader_verifies_it(company: Company, disposition: str) -> None:
    pipeline = company.world.new_pipeline(disposition)
    company.grant(pipeline)
    publisher, reader = company.as_("publisher"), company.as_("reader")
    values, keys = _messages(disposition)
    for _ in range(2):  # the second run sweeps what the first has left, and finds its tables
        publisher.send_and_drain(pipeline, values, keys=keys)
    found = verify(pipeline, reader.endpoints, reader.spark)
    assert found.ok
    assert found.dead_letters == len(reader.ledger.dead_letters(pipeline.name, None, 100)) > 0


@slow
@pytest.mark.parametrize("other", ["owner", "administrator"])
def test_a_publisher_takes_over_from_a_session_that_it_sees_and_may_not_end(company: Company, other: str) -> None:
    pipeline = company.world.new_pipeline()
    company.grant(pipeline)
    company.execute("administrator", f"grant pg_monitor to {company.roles.publisher}")
    with closing(acquire(company.as_(other).ledger.url, pipeline.contract)) as fenced:
        with closing(acquire(company.as_("publisher").ledger.url, pipeline.contract)) as taken:
            taken.ping()
        assert fenced.fenced()


@slow
def test_a_publisher_ends_the_sessions_of_the_run_that_it_fences(company: Company) -> None:
    pipeline = company.world.new_pipeline()
    company.grant(pipeline)
    ledger = company.as_("publisher").ledger
    with closing(acquire(ledger.url, pipeline.contract)) as first:
        assert company.as_("reader").ledger.status(pipeline.name).held
        with closing(acquire(ledger.url, pipeline.contract)), pytest.raises(LedgerAway, match="terminating connection"):
            first.ping()


@slow
@pytest.mark.parametrize(("role", "statement"), [(role, one) for role, all_ in FORBIDDEN.items() for one in all_])
def test_a_role_may_not(governed: tuple[Company, Pipeline], role: str, statement: str) -> None:
    company, pipeline = governed
    named = {"schema": pipeline.name, "table": pipeline.contract.row_table.name}
    with pytest.raises(InsufficientPrivilege):
        company.execute(role, statement.format(**named))


@slow
def test_a_reader_may_write_to_nothing_and_a_publisher_to_no_more_than_its_work_needs(
    governed: tuple[Company, Pipeline],
) -> None:
    company, pipeline = governed
    administrator = company.as_("administrator")

    def writable(role: str) -> set[str]:
        return {next(iter(row.values())) for row in administrator.rows(WRITABLE, role, role)}

    assert writable(company.roles.reader) == set()
    found = writable(company.roles.publisher)
    assert "tidegate.migration" not in found
    assert {name.partition(".")[0] for name in found} == {"tidegate", "tidegate_staging", "dagster", pipeline.name}


def test_what_a_later_migration_adds_needs_no_further_grant(company: Company) -> None:
    company.grant()
    company.execute("owner", "create table tidegate.later (id bigserial, said text)")
    company.execute("owner", "create unlogged table tidegate_staging.later (said text)")
    company.execute("publisher", "insert into tidegate.later (said) values ('x')")
    company.execute("publisher", "insert into tidegate_staging.later (said) values ('x')")
    assert company.as_("reader").rows("select said from tidegate.later") == [{"said": "x"}]


def test_an_owner_of_schemas_that_are_there_needs_no_right_on_the_database(company: Company) -> None:
    pipeline = company.world.new_pipeline()
    owner = company.roles.owner
    company.execute("administrator", f"revoke create on database {company.database} from {owner}")
    with pytest.raises(BadInput, match=f"CREATE SCHEMA tidegate AUTHORIZATION .{owner}."):
        company.grant(pipeline)
    for schema in ("tidegate", "tidegate_staging", pipeline.name):
        company.execute("administrator", f"create schema {schema} authorization {owner}")
    company.grant(pipeline)
    company.as_("publisher").drain(pipeline)


def test_a_table_that_is_missing_is_the_owners_to_create(company: Company) -> None:
    pipeline = company.world.new_pipeline()
    company.grant()
    with pytest.raises(BadInput, match=r"tidegate migrate --tables.*tidegate rights"):
        company.as_("publisher").drain(pipeline)
    create_unclaimed(company.urls["owner"], [pipeline.contract])
    usage = rf"grant usage on schema {pipeline.name} to {company.roles.publisher}"
    with pytest.raises(BadInput, match=usage):
        company.as_("publisher").drain(pipeline)
    company.execute("owner", usage)
    with pytest.raises(BadInput, match=rf"grant select, insert.* on {pipeline.name}.* to {company.roles.publisher}"):
        company.as_("publisher").drain(pipeline)
    company.grant(pipeline)
    company.as_("publisher").drain(pipeline)


@slow
def test_a_publisher_that_may_not_stage_is_told_what_prints_the_grant(company: Company) -> None:
    pipeline = company.world.new_pipeline()
    company.grant(pipeline)
    company.execute("owner", f"revoke create on schema tidegate_staging from {company.roles.publisher}")
    company.world.send(pipeline, transfers(4))
    with pytest.raises(BadInput, match=r"(?s)permission denied for schema tidegate_staging.*tidegate rights"):
        company.as_("publisher").drain(pipeline)


@pytest.mark.slow
def test_a_language_that_an_ordered_upsert_needs_is_an_administrators_to_grant(company: Company) -> None:
    pipeline = company.world.new_pipeline("upsert", transform=None)
    company.grant(pipeline)
    table, publisher = pipeline.contract.row_table.name, company.as_("publisher")
    company.execute("owner", f"create unique index on {table} (name)")
    company.execute("administrator", "revoke usage on language plpgsql from public")
    values, keys = _messages("upsert")
    publisher.send(pipeline, values[:1], keys=keys and keys[:1])
    with pytest.raises(BadInput, match=r"permission denied for language plpgsql.*tidegate rights prints every grant"):
        publisher.drain(pipeline)
    company.grant(pipeline)  # the owner's statements change nothing about it, and none is refused
    printed = "".join(company.roles.grants([pipeline.contract], dagster=False))
    (grant,) = re.findall("GRANT USAGE ON LANGUAGE .*;", printed)
    company.execute("administrator", grant)
    publisher.drain(pipeline)
    assert company.as_("reader").rows(f"select count(*) as rows from {table}") == [{"rows": 1}]


@pytest.mark.slow
def test_a_publisher_finds_refused_rows_where_it_may_not_use_the_schema_of_a_referenced_table(company: Company) -> None:
    pipeline = company.world.new_pipeline("upsert", transform=None)
    company.grant(pipeline)
    table, publisher = pipeline.contract.row_table.name, company.as_("publisher")
    for statement in (
        "create schema elsewhere",
        "create table elsewhere.known (name text primary key)",
        "insert into elsewhere.known values ('Ada')",
        f"grant select on elsewhere.known to {company.roles.publisher}",
        f"alter table {table} add unique (customer_id), add check (customer_id <> 'C1')",
        f"alter table {table} add foreign key (name) references elsewhere.known deferrable initially deferred",
    ):
        company.execute("owner", statement)
    values, keys = _messages("upsert")
    (published,) = publisher.send_and_drain(pipeline, values[:3], keys=keys and keys[:3])
    assert (published.rows, published.dead_letters) == (2, 1)


def test_a_table_that_its_pipeline_has_filled_is_not_created_again(company: Company) -> None:
    pipeline = company.world.new_pipeline()
    company.grant(pipeline)
    company.as_("publisher").drain(pipeline)
    company.execute("owner", f"drop table {pipeline.contract.row_table.name}")
    assert create_unclaimed(company.urls["owner"], [pipeline.contract]) == []


def test_a_ledger_that_is_older_is_the_owners_to_migrate(company: Company) -> None:
    company.grant()
    company.execute("owner", f"delete from tidegate.migration where name = '{KNOWN[-1]}'")
    with pytest.raises(BadInput, match=rf"belongs to {company.roles.owner}.*tidegate migrate.*tidegate rights"):
        company.as_("publisher").ledger.migrate()


@pytest.mark.longest
@slow
def test_an_owner_replays_what_a_publisher_has_published(company: Company) -> None:
    pipeline = company.world.new_pipeline()
    company.grant(pipeline)
    publisher, owner = company.as_("publisher"), company.as_("owner")
    publisher.send_and_drain(pipeline, transfers(8))
    for replaying in (publisher, owner):
        replay = Replay(pipeline, replaying.endpoints, replaying.spark)
        if replaying is publisher:
            with pytest.raises(BadInput, match="replay as its owner"):
                replay.execute(ReplayStart(), "a test", "a test", lambda _: None)
        else:
            replay.execute(ReplayStart(), "a test", "a test", lambda _: None)
    left = "select tableowner from pg_tables where schemaname = 'tidegate_staging' and tablename ~ '^rows_'"
    assert {row["tableowner"] for row in company.as_("administrator").rows(left)} == {company.roles.publisher}
    publisher.send_and_drain(pipeline, transfers(4, start=8))
    assert verify(pipeline, company.as_("reader").endpoints, owner.spark).ok


PLANT = """
create table tidegate_staging.fired (who text);
grant insert on tidegate_staging.fired to public;
create function tidegate_staging.fire() returns trigger language plpgsql as
$$ begin insert into tidegate_staging.fired values (current_user); return null; end $$;
do $$
declare
  kept bigint := (select max(table_id) from tidegate.staging_table where pipeline = '{name}');
  planted bigint := nextval('tidegate.staging_id');
  number bigint;
begin
  insert into tidegate.pipeline (name) values ('{name}~replay');
  execute format('create unlogged table tidegate_staging.rows_%s (like tidegate_staging.rows_%s)', planted, kept);
  execute format('create view tidegate_staging.audited_%s as select * from tidegate_staging.rows_%1$s', planted);
  insert into tidegate.staging_table (table_id, pipeline) values (planted, '{name}~replay');
  foreach number in array array[kept, planted] loop
    execute format('create trigger fire after insert or delete or truncate on tidegate_staging.rows_%s'
                   ' for each statement execute function tidegate_staging.fire()', number);
  end loop;
end $$
"""


@pytest.mark.longest
@slow
def test_an_owner_fires_no_trigger_that_a_publisher_has_planted_on_a_staging_table(company: Company) -> None:
    """The trigger would run with the owner's rights. One is on a table that a run has left, one on one for a replay."""
    pipeline = company.world.new_pipeline()
    company.grant(pipeline)
    publisher, owner = company.as_("publisher"), company.as_("owner")
    publisher.send_and_drain(pipeline, transfers(8))
    company.execute("publisher", PLANT.format(name=pipeline.name))
    publisher.send(pipeline, transfers(4, start=8))
    owner.drain(pipeline)
    Replay(pipeline, owner.endpoints, owner.spark).execute(ReplayStart(), "a test", "a test", lambda _: None)
    assert company.as_("publisher").rows("select who from tidegate_staging.fired") == []
    assert verify(pipeline, company.as_("reader").endpoints, owner.spark).ok


@slow
def test_dagster_keeps_its_state_in_tables_that_the_owner_has_created(
    governed: tuple[Company, Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    company, _ = governed

    @dg.asset
    def numbers() -> None: ...

    monkeypatch.setenv("TIDEGATE_DAGSTER_URL", company.urls["publisher"])
    company.execute("owner", f"revoke insert on dagster.runs from {company.roles.publisher}")
    with pytest.raises(click.ClickException, match=r"TIDEGATE_DAGSTER_URL.*tidegate migrate --tables.*tidegate rights"):
        storage.Storage.from_config_value(None, {})
    company.execute("owner", f"grant insert on dagster.runs to {company.roles.publisher}")
    with dg.DagsterInstance.from_config(str(PROJECT_ROOT)) as instance:
        assert dg.materialize([numbers], instance=instance).success
        assert instance.get_runs_count() >= 1
    assert look(company.urls["reader"]).heartbeats == heartbeats(company.urls["reader"]) == {}
    company.execute("owner", f"revoke all on dagster.daemon_heartbeats from {company.roles.reader}")
    try:
        assert look(company.urls["reader"]).heartbeats is None
    finally:
        company.execute("owner", f"grant select on dagster.daemon_heartbeats to {company.roles.reader}")
