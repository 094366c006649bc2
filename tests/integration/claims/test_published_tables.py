"""Tables of a publication: refused when a run begins if their rows cannot be identified for subscribers."""

from collections.abc import Iterator

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput
from platform_defs.postgres.live_table import key_columns
from platform_defs.postgres.tables import check_target
from tests.support.claims import claim, do, live_table
from tests.support.world import World, transfers


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
            assert live_table(world, pipeline.contract, balances).published is expected
    for published in ("for table {schema}_2.whole", "for tables in schema {schema}_2"):
        with subtests.test("an ancestor", published=published):
            do(world, pipeline, f"drop publication {publication}", f"create publication {publication} {published}")
            assert live_table(world, pipeline.contract, pipeline.contract.row_table).published


@pytest.mark.slow
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


def test_every_table_of_the_ledger_can_be_replicated(world: World) -> None:
    """Under a publication FOR ALL TABLES, UPDATE and DELETE fail on a table without a primary key."""
    world.ledger.migrate()
    keyless = world.rows(
        "select relname from pg_class c where relnamespace = 'tidegate'::regnamespace and relkind in ('r', 'p') "
        "and relpersistence = 'p' and not exists (select 1 from pg_index where indrelid = c.oid and indisprimary)"
    )
    assert keyless == []
