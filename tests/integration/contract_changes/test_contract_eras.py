"""Contract changes since publication: verify checks each batch by its own, and reports what it cannot check."""

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.column_types import STRING
from platform_defs.contract.model.contract import Column, Field, RowRule, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.verify.compare.report import Report
from platform_defs.verify.verify import verify
from tests.integration.contract_changes.test_contract_apply import apply, changed, exact, views
from tests.integration.contract_changes.test_contract_replay import retyped
from tests.integration.verify.test_verify import customer
from tests.support.postgres.adoptions import adopt
from tests.support.world import World, transfers

MOST = RowRule("duration_maximum", "duration_ms", "maximum", 0, "")


def with_channel(messages: DataFrame) -> DataFrame:
    """Return two postings per transfer, with the channel of the transfer."""
    sides = [F.struct(F.col(f"{side}_account").alias("account"), "amount") for side in ("debit", "credit")]
    columns = ("currency", "occurred_at", "channel", "_partition", "_offset")
    return messages.select("transfer_id", F.inline(F.array(*sides)), *columns)


def only_with_channel(messages: DataFrame) -> DataFrame:
    """Return the same, but fail on a message without a channel."""
    demanded = F.when(F.col("channel").isNull(), F.raise_error(F.lit("no channel"))).otherwise(F.col("channel"))
    return with_channel(messages.withColumn("channel", demanded))


def doubled(messages: DataFrame) -> DataFrame:
    """Return postings of twice the amount."""
    return with_channel(messages.withColumn("amount", (F.col("amount") * 2).cast("decimal(18,2)")))


def without_channel(messages: DataFrame) -> DataFrame:
    return with_channel(messages.withColumn("channel", F.lit(None).cast("string"))).drop("channel")


def channelled(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with one more field, which the transform reads and writes."""
    fields = (*pipeline.contract.fields, Field("channel", STRING, False, ()))
    columns = (*pipeline.contract.row_table.columns, Column("channel", STRING, False))
    return replace(changed(pipeline, "1.1.0", fields=fields, columns=columns), transform=with_channel)


def report(world: World, pipeline: Pipeline) -> Report:
    return verify(pipeline, world.endpoints, world.spark)


@pytest.mark.longest
def test_a_transform_gets_messages_of_older_contracts_with_the_fields_that_it_reads_now(world: World) -> None:
    before = replace(world.new_pipeline(partitions=1), transform=without_channel)
    before = replace(before, contract=replace(before.contract, tables=_ungated(before)))
    world.send_and_drain(before, transfers(8), partition=0)
    after = channelled(before)
    exact(world, after)  # before it is applied: the file's transform is newer than the ledger's contract
    apply(world, after)
    world.send_and_drain(after, [value[:-1] + b',"channel":"web"}' for value in transfers(8, 8)], partition=0)
    exact(world, after)
    other = report(world, replace(after, transform=doubled))
    assert not other.ok
    assert "produced by a different transform from the current one" in other.explanation
    demanding = report(world, replace(after, transform=only_with_channel))
    assert (demanding.ok, demanding.unverifiable, demanding.rows) == (True, 8, 16), demanding.explanation
    assert "the transform no longer accepts them" in demanding.explanation
    table = before.contract.row_table.name
    world.rows(f"create table {before.name}.copy (like {table} including all)")
    world.rows(f"insert into {before.name}.copy select * from {table}")
    world.rows(f"drop table {table}")
    world.rows(f"alter table {before.name}.copy rename to {table.partition('.')[2]}")
    adopt(world, after)
    exact(world, after)


def _ungated(pipeline: Pipeline) -> tuple[Table, ...]:
    rows = pipeline.contract.row_table
    return (replace(rows, batch_rules=()), *pipeline.contract.accumulates)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["string", "decimal(25,2)"])
def test_a_type_that_was_changed_by_hand_is_named_until_rows_are_made_again(world: World, kind: str) -> None:
    before = views(world)
    after = retyped(before, "duration_ms", kind)
    table, of = before.contract.row_table.name, after.contract.row_table.arrow_schema
    postgres = next(c.type.postgres for c in after.contract.row_table.columns if c.name == "duration_ms")
    assert "duration_ms" in of.names
    world.rows(f"alter table {table} alter duration_ms type {postgres} using duration_ms::{postgres}")
    world.drain(after)
    found = report(world, after)
    if kind == "string":
        assert found.wrong == 8
        message = "duration_ms was integer in version 1.0.0 and is now string, and the rows were not rebuilt"
        assert message in found.explanation
    else:
        assert found.ok, found.explanation


def test_a_type_of_an_upsert_that_was_changed_by_hand_is_named_for_keys_of_older_contracts(world: World) -> None:
    before = world.new_pipeline("upsert")
    world.send_and_drain(before, [customer(n) for n in range(4)], keys=[f"C{n}".encode() for n in range(4)])
    after = retyped(before, "signed_up", "string")
    table = before.contract.row_table.name
    world.rows(f"alter table {table} alter signed_up type text using to_char(signed_up, 'YYYY-MM-DD')")
    world.send_and_drain(after, [customer(n) for n in range(3)], keys=[f"C{n}".encode() for n in range(3)])
    found = report(world, after)
    assert (found.rows, found.wrong) == (3, 1)
    assert "signed_up was date in version 1.0.0 and is now string" in found.explanation


@pytest.mark.slow
def test_a_batch_from_before_contracts_were_kept_is_not_simply_called_wrong(world: World) -> None:
    before = views(world)
    world.rows("update tidegate.pipeline set contract_digest = null where name = %s", before.name)
    world.rows("update tidegate.batch set contract_digest = null where pipeline = %s", before.name)
    world.rows("delete from tidegate.contract_application where pipeline = %s", before.name)
    world.rows("delete from tidegate.contract where pipeline = %s", before.name)
    fields = tuple(replace(f, rules=(*f.rules, MOST)) if f.name == "duration_ms" else f for f in before.contract.fields)
    after = changed(before, "2.0.0", fields=fields)
    assert not apply(world, after).known
    found = report(world, after)
    assert found.wrong
    assert "its batch does not name its contract" in found.explanation
