"""Rights that a run needs and lacks are named with the statement that grants them, before anything is written."""

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput
from platform_defs.ledger.ledger import Ledger
from tests.support.claims import claim, do
from tests.support.world import World


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
