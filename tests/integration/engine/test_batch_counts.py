"""The row counts of a batch: messages that the transform filtered, rows upserted and deleted."""

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from assets.bank.transfers import transform as postings
from platform_defs.ledger.published import RowChanges
from platform_defs.pipelines.reporting.events import sentence
from tests.integration.verify.test_verify import customer, send_customers
from tests.support.world import World, transfer, transfers


def large(messages: DataFrame) -> DataFrame:
    """Return two rows for each transfer of at least 5."""
    return postings(messages.where("amount >= 5"))


def none_of_them(messages: DataFrame) -> DataFrame:
    """Return no row: Spark folds the filter away and never reads the messages."""
    return postings(messages.where(F.lit(False)))


@pytest.mark.slow
@pytest.mark.parametrize(("transform", "filtered", "rows"), [(postings, 0, 12), (large, 4, 4), (none_of_them, 6, 0)])
def test_a_batch_counts_the_messages_that_its_transform_filtered(
    world: World, transform: Callable[[DataFrame], DataFrame], filtered: int, rows: int
) -> None:
    pipeline = world.new_pipeline(transform=transform)
    (batch,) = world.send_and_drain(pipeline, [*(transfer(n, f"{n + 1}.00") for n in range(6)), b"not json"])
    assert (batch.messages, batch.dead_letters, batch.filtered, batch.rows) == (7, 1, filtered, rows)
    counted = f"7 messages, {rows} rows{f', {filtered} filtered' if filtered else ''}, 1 dead letter in "
    assert counted in sentence([batch])


@pytest.mark.slow
def test_a_batch_without_a_transform_filters_nothing_and_says_nothing_of_it(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=None)
    (batch,) = world.send_and_drain(pipeline, [b"not json"])
    assert batch.filtered is None
    assert batch.changes is None


@pytest.mark.slow
@pytest.mark.parametrize("in_order", [False, True])
def test_an_upsert_counts_the_rows_that_it_wrote_and_those_that_tombstones_deleted(
    world: World, in_order: bool
) -> None:
    pipeline = world.new_pipeline("upsert", partitions=1)
    world.drain(pipeline)  # the table is created
    if in_order:
        world.rows(f"alter table {pipeline.contract.row_table.name} add unique (customer_id)")
    found, lines = list[RowChanges | None](), list[str]()
    batches: list[list[tuple[str, bytes | None]]] = [
        [("C1", customer(1)), ("C2", customer(2)), ("C2", customer(2, "again"))],
        [("C1", None), ("C9", None)],
        [("C9", None), ("C9", None)],
    ]
    for messages in batches:
        send_customers(world, pipeline, messages)
        (batch,) = world.drain(pipeline)
        found.append(batch.changes)
        lines.append(sentence([batch]))
    written = 3 if in_order else 2  # in order, each message is written
    assert found == [RowChanges(written, 0), RowChanges(0, 1), RowChanges(0, 0)]
    assert "2 messages, 0 rows upserted, 1 deleted, 0 dead letters in " in lines[1]


@pytest.mark.longest
def test_a_batch_that_is_reported_late_shows_no_counts_that_the_ledger_does_not_have(world: World) -> None:
    pipeline = world.new_pipeline(transform=large)
    (batch,) = world.send_and_drain(pipeline, transfers(4))
    (late,) = world.ledger.unreported(pipeline.contract)
    assert (late.batch_id, late.rows) == (batch.batch_id, batch.rows)
    assert late.filtered is None
