"""Which messages are dead letters since the table refuses their rows: exactly those, found together."""

from dataclasses import replace
from typing import Any

import pytest

from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine import batch
from platform_defs.engine.batch import run_batch
from platform_defs.errors import TooManyRefused
from resources.postgres import refused_rows
from tests.integration.test_verify import customer, send_customers, view
from tests.world import World


def test_refused_rows_among_many_take_one_more_reading_and_few_writes(world: World) -> None:
    pipeline = _views(world, "alter table {} add check (duration_ms % 100 <> 50)")
    world.send(pipeline, [view(n) for n in range(500)], partition=0)
    table = pipeline.contract.row_table.name
    with world.open_run(pipeline) as outside:
        counting = _Counting(outside.ledger)
        published = run_batch(pipeline, replace(outside, ledger=counting))
    assert published is not None
    assert (published.rows, published.dead_letters, counting.readings) == (495, 5, 2)
    assert [d["offset"] for d in world.dead_letters(pipeline)] == [50, 150, 250, 350, 450]
    (written,) = world.rows("select pg_stat_get_tuples_inserted(%s::regclass) as n", table)
    assert written["n"] < 6 * 500  # of which 495 stay, and up to 500 were refused before


def test_of_rows_that_contradict_each_other_the_later_ones_are_refused(world: World) -> None:
    pipeline = _views(world, "alter table {} add unique (event_id)")
    world.send(pipeline, [view(0)])
    world.drain(pipeline)
    again = [view(1), view(0, visitor="bob"), view(2), view(1, visitor="bob"), view(3), view(2, visitor="eve")]
    world.send(pipeline, again, partition=1)
    (published,) = world.drain(pipeline)
    assert (published.rows, [d["offset"] for d in world.dead_letters(pipeline)]) == (3, [1, 3, 5])
    assert {d["error_class"] for d in world.dead_letters(pipeline)} == {"UniqueViolation"}


def test_a_row_that_refers_to_a_later_one_of_its_batch_is_not_refused(world: World) -> None:
    pipeline = _views(
        world,
        "alter table {0} add unique (event_id)",
        "alter table {0} add check (duration_ms <> 6)",
        "alter table {0} add foreign key (visitor) references {0} (event_id)",
    )
    refers = {0: "e7", 1: "e1", 2: "e0", 3: "e99", 4: "e6", 5: "e4", 6: "e6", 7: "e7"}
    world.send(pipeline, [view(n, visitor=to) for n, to in refers.items()], partition=0)
    world.drain(pipeline)
    # 6 itself, 4 which refers to it, 5 which refers to that one, and 3, whose row is nowhere.
    assert [d["offset"] for d in world.dead_letters(pipeline)] == [3, 4, 5, 6]
    assert {row["event_id"] for row in world.rows(f"select event_id from {pipeline.contract.row_table.name}")} == {
        *("e0", "e1", "e2", "e7")
    }


def test_of_an_upsert_only_what_decides_a_key_is_refused(world: World) -> None:
    pipeline = world.new_pipeline("upsert")
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"alter table {table} add check (name <> 'bad'), add unique (name)")
    send_customers(world, pipeline, [("C1", customer(1, "one")), ("C2", customer(2, "two"))])
    world.drain(pipeline)
    messages = [
        ("C3", customer(3, "bad")),  # superseded by the next
        ("C3", customer(3, "one")),  # which C1 gives up below
        ("C4", customer(4, "bad")),
        ("C5", customer(5, "two")),  # which C2 keeps
        ("C1", None),
        ("C6", customer(6, "six")),
        ("C6", customer(6, "bad")),  # so the one before it decides
    ]
    send_customers(world, pipeline, messages)
    world.drain(pipeline)
    letters = {d["offset"]: d["error_class"] for d in world.dead_letters(pipeline)}
    assert letters == {4: "CheckViolation", 5: "UniqueViolation", 8: "CheckViolation"}
    rows = world.rows(f"select customer_id, name from {table}")
    assert {(row["customer_id"], row["name"]) for row in rows} == {("C2", "two"), ("C3", "one"), ("C6", "six")}


def test_more_refused_rows_than_are_isolated_fail_the_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (batch, refused_rows):
        monkeypatch.setattr(module, "LEFT_OUT", 3)
    pipeline = _views(world, "alter table {} add check (duration_ms < 4)")
    world.send(pipeline, [view(n) for n in range(8)], partition=0)
    with pytest.raises(TooManyRefused, match="more than 3 messages"):
        world.drain(pipeline)
    assert world.dead_letters(pipeline) == world.table(pipeline) == []


def _views(world: World, *alterations: str) -> Pipeline:
    """An append without a transform, whose table has been altered."""
    pipeline = world.new_pipeline("append", transform=None)
    world.drain(pipeline)  # the table is made
    for statement in alterations:
        world.rows(statement.format(pipeline.contract.row_table.name))
    return pipeline


class _Counting:
    """A run's hold on the ledger, which counts how often the batch is read."""

    def __init__(self, ledger: Any) -> None:
        self._ledger, self.readings = ledger, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def open_staging(self, pending: Any) -> Any:
        self.readings += 1
        return self._ledger.open_staging(pending)
