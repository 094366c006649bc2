"""Rows that refer to rows of their own batch: in any order, wherever batches are cut, beside rejected ones."""

from typing import Any

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from tests.integration.verify.test_verify import customer, send_customers
from tests.support.world import World, transfers


def _people(world: World, **limits: Any) -> Pipeline:
    """Return an upsert whose rows refer to each other by name, and whose table refuses customer C66."""
    pipeline = world.new_pipeline("upsert", partitions=1, **limits)
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    key = f"foreign key (name) references {table}"
    world.rows(f"alter table {table} add check (customer_id <> 'C66'), add {key}")
    return pipeline


@pytest.mark.slow
@pytest.mark.parametrize("batch_messages", [1, 2, 100])
def test_children_move_to_another_parent_before_the_old_one_is_deleted_wherever_the_batch_is_cut(
    world: World, batch_messages: int
) -> None:
    """With a message that is refused, the batch is searched as well."""
    pipeline = _people(world, batch_messages=batch_messages)
    messages = [("C1", "C1"), ("C2", "C2"), ("C3", "C2"), ("C3", "C1"), ("C2", None), ("C66", "C1")]
    send_customers(world, pipeline, [(key, customer(int(key[1:]), name) if name else None) for key, name in messages])
    world.drain(pipeline)
    assert world.letters(pipeline) == [(5, "CheckViolation")]
    assert world.by_key(pipeline) == [("C1", "C1"), ("C3", "C1")]


@pytest.mark.slow
def test_many_rows_may_come_before_the_one_that_they_reference_beside_a_rejected_one(world: World) -> None:
    pipeline = _people(world)
    children = [(f"C{n}", customer(n, "C1")) for n in range(100, 350)]
    send_customers(world, pipeline, [*children, ("C66", customer(66, "C1")), ("C2", customer(2, "C1"))])
    send_customers(world, pipeline, [("C1", customer(1, "C1"))])
    (published,) = world.drain(pipeline)
    assert [d["offset"] for d in world.dead_letters(pipeline)] == [250]
    assert (published.messages, len(world.table(pipeline))) == (253, 252)


@pytest.mark.slow
def test_a_row_may_reference_its_group_in_an_accumulate(world: World) -> None:
    """By a deferred key, since publish writes rows first. Only one message is rejected for itself."""
    pipeline = world.new_pipeline()
    world.drain(pipeline)
    rows, sums = pipeline.contract.row_table.name, pipeline.contract.accumulates[0].name
    key = f"foreign key (account) references {sums} deferrable initially deferred"
    world.rows(f"alter table {rows} add check (transfer_id <> 'T3'), add {key}")
    world.send_and_drain(pipeline, transfers(6), partition=0)
    assert world.letters(pipeline) == [(2, "CheckViolation")]
    assert len(world.table(pipeline)) == 10


@pytest.mark.slow
@pytest.mark.parametrize("batch_messages", [1, 100])
def test_a_tombstone_of_a_row_that_an_earlier_message_references_is_rejected(world: World, batch_messages: int) -> None:
    pipeline = _people(world, batch_messages=batch_messages)
    send_customers(world, pipeline, [("C1", customer(1, "C1")), ("C3", customer(3, "C1"))])
    world.drain(pipeline)
    send_customers(world, pipeline, [("C2", customer(2, "C1")), ("C3", customer(3, "C3")), ("C1", None)])
    world.drain(pipeline)
    letters = [d["offset"] for d in world.dead_letters(pipeline)]
    rows = world.by_key(pipeline)
    assert (letters, rows) == ([4], [("C1", "C1"), ("C2", "C1"), ("C3", "C3")])


def test_a_row_may_reference_a_key_whose_newest_message_is_rejected(world: World) -> None:
    """C2 refers to C1, whose newest message is refused and the one before it not; C3 refers to C2."""
    pipeline = _people(world)
    messages = [("C3", 3, "C2"), ("C1", 1, "C1"), ("C2", 2, "C1"), ("C1", 66, "C1")]
    send_customers(world, pipeline, [(key, customer(number, name)) for key, number, name in messages])
    world.drain(pipeline)
    assert world.letters(pipeline) == [(3, "CheckViolation")]
    assert world.by_key(pipeline) == [("C1", "C1"), ("C2", "C1"), ("C3", "C2")]
