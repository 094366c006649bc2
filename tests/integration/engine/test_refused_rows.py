"""Messages that are dead letters because the table refuses their rows: exactly those, found together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import psycopg
import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine import batch
from platform_defs.engine.batch import run_batch
from platform_defs.engine.commit import refused_rows
from platform_defs.engine.commit.publish_statements import PostgresPublication
from platform_defs.errors import NotReproduced, TidegateError, TooManyRefused
from platform_defs.ledger.published import Published
from platform_defs.postgres.connection import queries
from tests.integration.verify.test_verify import customer, send_customers, view
from tests.support.world import World

DEFERRED = "add foreign key (name) references known deferrable initially deferred"
DEFERRED_AFTER_A_TRIGGER = f"""{DEFERRED};
create function know() returns trigger language plpgsql set search_path from current as
$$ begin if new.name = 'new' then insert into known values ('new') on conflict do nothing; end if;
return null; end $$;
create trigger know after insert or update on {{table}} for each row execute function know()"""


@pytest.mark.slow
def test_refused_rows_among_many_take_one_more_reading_and_few_writes(world: World) -> None:
    pipeline = _views(world, "alter table {} add check (duration_ms % 100 <> 50)")
    world.send(pipeline, [view(n) for n in range(500)], partition=0)
    table = pipeline.contract.row_table.name
    published, counting = _counted(world, pipeline)
    assert (published.rows, published.dead_letters, counting.readings) == (495, 5, 2)
    assert [d["offset"] for d in world.dead_letters(pipeline)] == [50, 150, 250, 350, 450]
    (written,) = world.rows("select pg_stat_get_tuples_inserted(%s::regclass) as n", table)
    assert written["n"] < 6 * 500  # 495 of which stay, and up to 500 were refused before


@pytest.mark.slow
def test_of_rows_that_contradict_each_other_the_later_ones_are_refused(world: World) -> None:
    pipeline = _views(world, "alter table {} add unique (event_id)")
    world.send_and_drain(pipeline, [view(0)])
    again = [view(1), view(0, visitor="bob"), view(2), view(1, visitor="bob"), view(3), view(2, visitor="eve")]
    (published,) = world.send_and_drain(pipeline, again, partition=1)
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
    world.send_and_drain(pipeline, [view(n, visitor=to) for n, to in refers.items()], partition=0)
    # 6 itself, 4 which refers to it, 5 which refers to that one, and 3, whose row is nowhere.
    assert [d["offset"] for d in world.dead_letters(pipeline)] == [3, 4, 5, 6]
    assert {row["event_id"] for row in world.rows(f"select event_id from {pipeline.contract.row_table.name}")} == {
        *("e0", "e1", "e2", "e7")
    }


@pytest.mark.slow
def test_of_an_upsert_only_what_decides_a_key_is_refused(world: World) -> None:
    pipeline = world.new_pipeline("upsert")
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"alter table {table} add check (name <> 'bad')")
    messages = [
        ("C3", customer(3, "bad")),  # superseded by the next
        ("C3", customer(3, "one")),
        ("C4", customer(4, "bad")),
        ("C5", customer(5, "bad")),  # superseded by the next
        ("C5", None),
        ("C6", customer(6, "six")),
        ("C6", customer(6, "bad")),  # so the one before it decides
    ]
    send_customers(world, pipeline, messages)
    world.drain(pipeline)
    letters = {d["offset"]: d["error_class"] for d in world.dead_letters(pipeline)}
    assert letters == {2: "CheckViolation", 6: "CheckViolation"}
    rows = world.rows(f"select customer_id, name from {table}")
    assert {(row["customer_id"], row["name"]) for row in rows} == {("C3", "one"), ("C6", "six")}


@pytest.mark.slow
@pytest.mark.parametrize("deferrable", ["", "deferrable initially deferred"])
def test_of_an_upsert_a_unique_value_goes_from_row_to_row_in_the_order_of_the_offsets(
    world: World, deferrable: str
) -> None:
    _unique_values_go_from_row_to_row(world, deferrable)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["_key, _offset", "_partition, _offset DESC", None])
def test_an_upsert_in_another_order_is_found(world: World, order: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if order is None:  # as if there were no other key: only the newest message of each key
        monkeypatch.setattr(PostgresPublication, "other_keys", ())
    else:
        statement = queries()["upsert_in_order"]
        assert "_partition, _offset" in statement
        changed = statement.replace("_partition, _offset", order)
        monkeypatch.setitem(cast("dict[str, Any]", queries()), "upsert_in_order", changed)
    with pytest.raises((AssertionError, TidegateError)):
        _unique_values_go_from_row_to_row(world, "")


@pytest.mark.slow
def test_a_column_of_an_ordered_upsert_may_have_the_name_of_a_variable_of_plpgsql(world: World) -> None:
    contract = world.new_pipeline("upsert", partitions=1).contract
    table = contract.row_table
    fields = tuple(replace(one, name="found", rules=()) if one.name == "name" else one for one in contract.fields)
    columns = tuple(replace(one, name="found") if one.name == "name" else one for one in table.columns)
    pipeline = Pipeline(replace(contract, fields=fields, tables=(replace(table, columns=columns),)))
    world.drain(pipeline)
    world.rows(f"alter table {table.name} add unique (customer_id)")
    messages: list[tuple[str, bytes | None]] = [
        (f"C{number}", customer(number).replace(b'"name"', b'"found"')) for number in (1, 2)
    ]
    send_customers(world, pipeline, messages)
    (batch,) = world.drain(pipeline)
    assert (batch.rows, batch.dead_letters) == (2, 0)


def _unique_values_go_from_row_to_row(world: World, deferrable: str) -> None:
    """Assert that each message is written in its place. Raises AssertionError or TidegateError otherwise."""
    pipeline = world.new_pipeline("upsert", partitions=1)
    table = pipeline.contract.row_table.name
    _named(world, pipeline, ("C1", "one"), ("C2", "two"))
    world.rows(f"alter table {table} add unique (name) {deferrable}")
    (published,) = _named(world, pipeline, ("C2", "three"), ("C1", "two"))
    assert (published.messages, published.dead_letters) == (2, 0)
    # Refused at its offset, although a later message of the batch frees the name, and another replaces the row.
    (published,) = _named(world, pipeline, ("C3", "two"), ("C1", "four"), ("C3", "five"), ("C2", "six"), ("C4", "six"))
    assert world.letters(pipeline) == [(4, "UniqueViolation"), (8, "UniqueViolation")]
    assert world.by_key(pipeline) == [("C1", "four"), ("C2", "six"), ("C3", "five")]


@pytest.mark.slow
def test_orphans_of_a_deferred_foreign_key_beside_another_key_are_found_in_one_search(world: World) -> None:
    pipeline = _customers(world, "name text primary key", "'one'", DEFERRED)
    named = [(f"C{n}", f"none {n}" if n % 5 == 0 else "one") for n in range(1, 101)]
    # Refused although a later message of C2 follows. Without the last message of C1, the one before it decides.
    _send_named(world, pipeline, ("C2", "none yet"), *named, ("C1", "none"), ("C1", "none again"))
    published, counting = _counted(world, pipeline)
    assert [d["offset"] for d in world.dead_letters(pipeline)] == [0, *range(5, 101, 5), 101, 102]
    assert {d["error_class"] for d in world.dead_letters(pipeline)} == {"ForeignKeyViolation"}
    assert (published.rows, counting.readings, counting.found) == (80, 2, [23])


@pytest.mark.longest
@pytest.mark.parametrize("altered", [DEFERRED, DEFERRED_AFTER_A_TRIGGER], ids=["constraint", "trigger too"])
@pytest.mark.parametrize("batch_messages", [1, 2, 100])
def test_an_orphan_takes_no_message_that_collides_with_it_wherever_the_batch_is_cut(
    world: World, monkeypatch: pytest.MonkeyPatch, altered: str, batch_messages: int
) -> None:
    monkeypatch.setattr(refused_rows, "PART", 2)  # for the search, if there is a trigger
    pipeline = _customers(world, "name text primary key", "'one'", altered, batch_messages=batch_messages)
    numbered = [("C1", 1, "none"), ("C2", 1, "one"), ("C3", 3, "none"), ("C3", 4, "one"), ("C4", 3, "one")]
    send_customers(world, pipeline, [(key, customer(number, name)) for key, number, name in numbered])
    world.drain(pipeline)
    assert world.letters(pipeline) == [(0, "ForeignKeyViolation"), (2, "ForeignKeyViolation")]
    assert world.by_key(pipeline, "customer_id") == [("C2", "C1"), ("C3", "C4"), ("C4", "C3")]


def test_a_trigger_may_insert_the_row_that_a_deferred_foreign_key_refers_to(world: World) -> None:
    pipeline = _customers(world, "name text primary key", "'one'", DEFERRED_AFTER_A_TRIGGER)
    (published,) = _named(world, pipeline, ("C1", "new"), ("C2", "none"), ("C3", "new"))
    assert (published.rows, [d["offset"] for d in world.dead_letters(pipeline)]) == (2, [1])


@pytest.mark.slow
def test_orphans_of_one_key_are_found_with_few_writes(world: World) -> None:
    pipeline = _customers(world, "name text primary key", "'one'", DEFERRED)
    (published,) = _named(world, pipeline, ("C2", "one"), *[("C1", "none")] * 60)
    assert (published.rows, published.dead_letters) == (1, 60)
    counted = (
        "select pg_stat_get_tuples_inserted(t) + pg_stat_get_tuples_updated(t) as n from cast(%s as regclass) as t"
    )
    (written,) = world.rows(counted, pipeline.contract.row_table.name)
    assert 60 <= written["n"] < 6 * 61  # the search writes each orphan alone once


@pytest.mark.slow
def test_many_refused_messages_of_one_key_take_one_more_reading(world: World) -> None:
    """An upsert publishes the newest message of each key: if it is refused, the one before decides."""
    pipeline = world.new_pipeline("upsert", partitions=1)
    world.drain(pipeline)
    world.rows(f"alter table {pipeline.contract.row_table.name} add check (name <> 'bad')")
    named = [("C2", "good"), ("C1", "good"), *[("C1", "bad")] * 60, ("C3", "bad")]
    send_customers(world, pipeline, [(key, customer(1, name)) for key, name in named])
    published, counting = _counted(world, pipeline)
    assert (published.rows, counting.readings, counting.found) == (2, 2, [61])
    assert [d["offset"] for d in world.dead_letters(pipeline)] == [*range(2, 63)]
    assert world.by_key(pipeline, "_offset") == [("C1", 1), ("C2", 0)]


def test_an_identity_column_is_no_other_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of two keys cannot collide in it: the newest message of each key is written, in one statement."""
    pipeline = world.new_pipeline("upsert", partitions=1)
    world.drain(pipeline)
    world.rows(f"alter table {pipeline.contract.row_table.name} add id bigint generated always as identity unique")
    monkeypatch.delitem(cast("dict[str, Any]", queries()), "upsert_in_order")  # KeyError if it is used
    _named(world, pipeline, ("C1", "one"), ("C2", "two"), ("C1", "three"))
    assert world.by_key(pipeline) == [("C1", "three"), ("C2", "two")]


def test_a_row_rejected_only_after_its_trial_write_is_no_dead_letter(world: World) -> None:
    """Its default differs on each write, so no message can be blamed: the batch is read again."""
    pipeline = _customers(
        world,
        "name text primary key",
        "'one'",
        DEFERRED_AFTER_A_TRIGGER,
        "add n bigint generated by default as identity check (n % 2 = 1)",
    )
    _send_named(world, pipeline, ("C1", "one"), ("C2", "none"))
    with pytest.raises(NotReproduced, match="accepted rows in a trial write and then rejected them"):
        world.drain(pipeline)
    assert world.dead_letters(pipeline) == world.table(pipeline) == []


def test_more_orphans_than_are_isolated_are_not_all_fetched_nor_is_the_batch_written_without_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (batch, refused_rows):
        monkeypatch.setattr(module, "MAX_EXCLUDED", 3)
    pipeline = _customers(world, "name text primary key", "'one'", DEFERRED)
    _send_named(world, pipeline, *((f"C{n}", "none") for n in range(1, 31)))
    with world.open_run(pipeline) as context:
        counting = _Counting(context.ledger)
        with pytest.raises(TooManyRefused, match="more than 3 messages"):
            run_batch(pipeline, replace(context, ledger=counting))
    assert counting.found == [4]
    (written,) = world.rows("select pg_stat_get_tuples_inserted(%s::regclass) as n", pipeline.contract.row_table.name)
    assert written["n"] <= 2 * 30  # by publish, and by the search


@pytest.mark.slow
@pytest.mark.parametrize(
    ("known", "values", "alterations"),
    [
        ("name text primary key", "'one'", (f"{DEFERRED} not enforced",)),
        ("name text primary key", "'one'", (DEFERRED, "disable trigger all")),
        (
            "kind int4range, name int4range, primary key (kind, name without overlaps)",
            "'[1,2)', '[1,10)'",
            (
                "add kind int4range generated always as (int4range(1, 2)) stored",
                "add at int4range generated always as (int4range(3, 5)) stored",
                "add foreign key (kind, period at) references known (kind, period name) deferrable initially deferred",
            ),
        ),
    ],
    ids=["not enforced", "trigger disabled", "period"],
)
def test_a_row_that_a_deferred_foreign_key_accepts_is_not_taken_for_an_orphan(
    world: World, known: str, values: str, alterations: Sequence[str]
) -> None:
    pipeline = _customers(world, known, values, "add check (name <> 'bad')", *alterations)
    (published,) = _named(world, pipeline, ("C1", "none"), ("C2", "bad"), ("C3", "one"))
    assert published.rows == 2
    assert world.letters(pipeline) == [(1, "CheckViolation")]


def test_more_refused_rows_than_are_isolated_fail_the_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (batch, refused_rows):
        monkeypatch.setattr(module, "MAX_EXCLUDED", 3)
    pipeline = _views(world, "alter table {} add check (duration_ms < 4)")
    world.send(pipeline, [view(n) for n in range(8)], partition=0)
    with pytest.raises(TooManyRefused, match="more than 3 messages"):
        world.drain(pipeline)
    assert world.dead_letters(pipeline) == world.table(pipeline) == []


def _views(world: World, *alterations: str) -> Pipeline:
    """Return an append without a transform, whose table has been altered."""
    pipeline = world.new_pipeline("append", transform=None)
    world.drain(pipeline)  # the table is created
    for statement in alterations:
        world.rows(statement.format(pipeline.contract.row_table.name))
    return pipeline


def _customers(world: World, known: str, values: str, *alterations: str, **limits: Any) -> Pipeline:
    """Return an upsert whose table is altered and has another key, beside a table `known` with one row of `values`."""
    pipeline = world.new_pipeline("upsert", partitions=1, **limits)
    world.drain(pipeline)  # the table is created
    table = pipeline.contract.row_table.name
    with psycopg.connect(world.endpoints.postgres_url, options=f"-c search_path={pipeline.name}") as connection:
        for statement in (
            f"create table known ({known})",
            f"insert into known values ({values})",
            *(
                f"alter table {table} {alteration.format(table=table)}"
                for alteration in ("add unique (customer_id)", *alterations)
            ),
        ):
            connection.execute(statement.encode())
    return pipeline


def _counted(world: World, pipeline: Pipeline) -> tuple[Published, "_Counting"]:
    """Run one batch, and count its readings and searches."""
    with world.open_run(pipeline) as context:
        counting = _Counting(context.ledger)
        published = run_batch(pipeline, replace(context, ledger=counting))
    assert published is not None
    return published, counting


class _Counting:
    """A run's ledger that counts the readings of the batch and the messages found by each search."""

    def __init__(self, ledger: Any) -> None:
        self._ledger, self.readings, self.found = ledger, 0, list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def open_staging(self, pending: Any) -> Any:
        self.readings += 1
        return self._ledger.open_staging(pending)

    def refused_rows(self, staged: Any) -> Any:
        found = self._ledger.refused_rows(staged)
        self.found.append(len(found))
        return found


def _named(world: World, pipeline: Pipeline, *named: tuple[str, str]) -> list[Published]:
    _send_named(world, pipeline, *named)
    return world.drain(pipeline)


def _send_named(world: World, pipeline: Pipeline, *named: tuple[str, str]) -> None:
    send_customers(world, pipeline, [(key, customer(int(key[1:]), name)) for key, name in named])
