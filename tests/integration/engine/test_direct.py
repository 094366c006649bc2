"""Direct publication: each range is a separate batch, in one transaction of the task that reads it."""

import datetime
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from platform_defs.contract.evolution.statements import Given
from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.system_columns import copied_columns
from platform_defs.contract_changes.evolve import apply
from platform_defs.engine.batch import RunContext, plan_batch
from platform_defs.engine.commit import direct_task
from platform_defs.engine.commit.direct_statements import DirectPublication
from platform_defs.engine.commit.direct_task import Direct
from platform_defs.engine.direct import prepare
from platform_defs.engine.interfaces.broker_and_auditor import Broker
from platform_defs.engine.staging.binary_copy import copy_rows
from platform_defs.engine.task.task import TaskWork
from platform_defs.errors import BadInput, Fenced, Halt, LedgerAway, StagingLost
from platform_defs.formats.blocks.arrow import schema_of
from platform_defs.offsets import PartitionView, TopicView
from platform_defs.postgres.tables import identifier
from platform_defs.samples.samples import Samples
from platform_defs.verify.incremental import verify_new
from tests.support.world import World

KINDS = {
    "text": ("string", ["", "ä€𝄞", "a\tb\\.\n", None]),
    "number": ("integer", [0, -(2**63), 2**63 - 1, None]),
    "real": ("double", [0.1, -1e308, 5e-324, None]),
    "flag": ("boolean", [True, False, True, None]),
    "day": ("date", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(2000, 1, 1), None]),
    "at": (
        "timestamp",
        [
            datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
            datetime.datetime.max.replace(tzinfo=datetime.UTC),
            datetime.datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC),
            None,
        ],
    ),
    "price": ("decimal(18,2)", [Decimal("-0.01"), Decimal("9999999999999999.99"), Decimal("10000.00"), None]),
    "large": ("decimal(38,10)", [Decimal(9) / 10**10, -(Decimal(10) ** 27), Decimal("10000.0001"), None]),
    "raw": ("bytes", [b"", b"\0\xff", b"PGCOPY", None]),
    "tree": ("json", ["null", '{"a": [1, "\\u00e4", 1e400]}', '"x"', None]),
}


def direct(world: World, **limits: Any) -> Pipeline:
    """Return page views without batch rules, published directly."""
    pipeline = world.new_pipeline("append", **limits)
    plain = replace(pipeline.contract.row_table, batch_rules=())
    return Pipeline(replace(pipeline.contract, tables=(plain,), publication="direct"))


@dataclass
class Asked:
    """A broker that records its answers."""

    real: Broker
    answers: list[TopicView] = field(default_factory=list[TopicView])

    def describe(self, topic: str, partitions: Collection[int] | None = None, *, configured: bool = True) -> TopicView:
        self.answers.append(self.real.describe(topic, partitions, configured=configured))
        return self.answers[-1]


def views(pipeline: Pipeline, count: int, seed: int = 1) -> list[bytes | None]:
    return [item.value for item in Samples(pipeline.contract, seed=seed).good(count)]


def filled(world: World) -> Pipeline:
    """Return a direct pipeline that has not run yet, with ten messages in each of its four partitions."""
    pipeline = direct(world)
    world.send(pipeline, views(pipeline, 40))
    return pipeline


@contextmanager
def tasks(world: World, pipeline: Pipeline) -> Iterator[tuple[RunContext, Direct, TaskWork]]:
    """Yield a run that has planned a batch, and the inputs of its tasks."""
    with world.open_run(pipeline) as context:
        pending = plan_batch(pipeline.contract, context)
        assert pending is not None
        yield context, *prepare(pipeline, context, pending)


def publish(prepared: Direct, work: TaskWork, *numbers: int) -> dict[int, str]:
    """Run a task over these ranges in this process; return the reason by number of each range that it left."""
    given = iter([pa.record_batch([pa.array(numbers, pa.int64())], names=["id"])])
    found = direct_task.publish_ranges(prepared, work, given)
    return {row["number"]: row["why"] for part in found for row in part.to_pylist()}


@pytest.mark.slow
def test_each_range_is_a_batch_with_its_rows_its_offset_and_its_record(world: World) -> None:
    pipeline = direct(world)
    sent = views(pipeline, 400)
    batches = world.send_and_drain(pipeline, [*sent[:397], b"no JSON", *sent[397:]])
    assert [batch.messages for batch in batches] == [101, 100, 100, 100]
    assert [batch.rows for batch in batches] == [101, 99, 100, 100]
    assert world.position(pipeline) == {0: 101, 1: 100, 2: 100, 3: 100}
    assert [letter["error_class"] for letter in world.dead_letters(pipeline)] == ["InvalidJson"]
    table = pipeline.contract.row_table.name
    assert world.rows(f"select _batch_id as id, count(*) as rows from {table} group by 1 order by 1") == [
        {"id": batch.batch_id, "rows": batch.rows} for batch in batches
    ]
    (status,) = world.rows("select pending, rows_total from tidegate.pipeline where name = %s", pipeline.name)
    assert status == {"pending": None, "rows_total": 400}
    assert [check.name for batch in batches for check in batch.checks if not check.passed] == ["message_decodes"]
    assert [batch.followed for batch in batches] == [True, True, True, False]
    assert world.drain(pipeline) == []


@pytest.mark.slow
def test_a_changed_publication_applies_from_the_next_batch_on_without_a_replay(world: World) -> None:
    """It is a part of the contract's digest, and changes no row: the run records the contract by itself."""
    pipeline = direct(world)
    staged = replace(pipeline, contract=replace(pipeline.contract, publication="staged"))
    batches = [len(world.send_and_drain(each, views(each, 40))) for each in (pipeline, staged, pipeline)]
    assert batches == [4, 1, 4]
    assert world.rows(f"select count(*) as rows from {pipeline.contract.row_table.name}") == [{"rows": 120}]
    assert verify_new(pipeline, world.endpoints, world.spark).ok


@pytest.mark.slow
def test_a_range_with_a_row_that_the_table_refuses_is_staged_and_the_others_are_not(world: World) -> None:
    pipeline = direct(world)
    sent = views(pipeline, 40)
    world.send(pipeline, sent)
    assert len(world.drain(pipeline)) == 4
    table = pipeline.contract.row_table.name
    bad = json.dumps(json.loads(sent[0] or b"") | {"visitor": "nobody"}).encode()
    world.rows(f"alter table {table} add check (visitor <> 'nobody')")
    batches = world.send_and_drain(pipeline, [*sent[:2], bad, *sent[3:]])
    assert sorted((b.ranges[0].partition, b.rows, b.dead_letters) for b in batches) == [
        *((0, 10, 0), (1, 10, 0), (2, 9, 1), (3, 10, 0))
    ]
    (letter,) = world.dead_letters(pipeline)
    assert (letter["partition"], letter["offset"], letter["error_class"]) == (2, 10, "CheckViolation")
    assert "audit" in batches[-1].timings
    assert "audit" not in batches[0].timings


@pytest.mark.slow
def test_a_range_with_too_many_dead_letters_is_not_published_and_halts_the_pipeline(world: World) -> None:
    pipeline = direct(world, dead_letter_minimum=5, dead_letter_share=0.5)
    world.send(pipeline, views(pipeline, 30), partition=0)
    world.send(pipeline, [b"no JSON"] * 8, partition=3)
    with pytest.raises(Halt, match="8 of 8 messages of batch"):
        world.drain(pipeline)
    assert world.position(pipeline) == {0: 30, 1: 0, 2: 0, 3: 0}
    assert len(world.table(pipeline)) == 30
    assert world.dead_letters(pipeline) == []


def test_a_table_that_accepts_a_key_only_once_is_refused(world: World) -> None:
    """Tasks that write the same key would wait for each other, and the later one until the other's range is read."""
    pipeline = direct(world)
    world.drain(pipeline)
    table = pipeline.contract.row_table.name
    world.rows(f"alter table {table} add id bigint generated always as identity unique")  # cannot collide
    world.drain(pipeline)
    world.rows(f"create unique index one_of_each on {table} (event_id)")
    message = r"a unique or exclusion constraint \(.*one_of_each\)\. With publication: direct"
    with pytest.raises(BadInput, match=message):
        world.drain(pipeline)
    world.drain(replace(pipeline, contract=replace(pipeline.contract, publication="staged")))
    raised = replace(pipeline.contract, version="9.0.0")
    with pytest.raises(BadInput, match=message):
        apply(world.endpoints.postgres_url, raised, Given(), "ada")


def test_a_task_asks_the_broker_about_its_own_partition_alone(world: World) -> None:
    """A plan of n partitions would otherwise query n of them n times."""
    pipeline = filled(world)
    with tasks(world, pipeline) as (context, prepared, work):
        asked = Asked(context.broker)
        assert publish(replace(prepared, broker=asked), work, 1, 3) == {}
    assert [sorted(view.partitions) for view in asked.answers] == [[1], [3]]
    whole = context.broker.describe(pipeline.contract.topic)
    assert whole.partitions == {number: PartitionView(0, 10, 0, 10) for number in range(4)}
    assert asked.answers[1] == replace(whole, partitions={3: whole.partitions[3]})
    assert context.broker.describe(pipeline.contract.topic, [4]).partitions == {}


@pytest.mark.slow
def test_an_attempt_that_finds_its_range_published_does_nothing(world: World) -> None:
    pipeline = filled(world)
    with tasks(world, pipeline) as (context, prepared, work):
        assert publish(prepared, work, 0, 1) == {}
        assert publish(prepared, work, 0, 1, 2) == {}
        assert len(world.table(pipeline)) == 30
        pending = context.ledger.pending()
        assert pending is not None
        assert [item.partition for item in pending.ranges] == [3]
        assert [batch.messages for batch in context.ledger.published_directly(prepared.area)] == [10, 10, 10]
    assert [batch.messages for batch in world.drain(pipeline)] == [10]
    assert len(world.table(pipeline)) == 40


@pytest.mark.slow
def test_two_tries_at_a_range_at_once_publish_it_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task of the earlier try is slow: when it locks the pipeline's row, the range is no longer planned."""
    pipeline = filled(world)
    with tasks(world, pipeline) as (context, slow, work):
        pending = context.ledger.pending()
        assert pending is not None
        again, same = prepare(pipeline, context, pending)
        real, done = DirectPublication.lock_as_owner, list[Any]()

        def overtaken(self: DirectPublication) -> None:
            if not done:
                done.append(True)
                done.append(publish(again, same, 0))
            real(self)

        monkeypatch.setattr(DirectPublication, "lock_as_owner", overtaken)
        with pytest.raises(Fenced):
            publish(slow, work, 0)
        assert done == [True, {}]
    assert len(world.table(pipeline)) == 10
    assert world.position(pipeline)[0] == 10


def test_the_task_of_a_fenced_run_publishes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = filled(world)
    real = DirectPublication.lock_as_owner

    def overtaken(self: DirectPublication) -> None:
        monkeypatch.undo()
        with world.session() as other:
            other.execute("update tidegate.pipeline set epoch = epoch + 1 where name = %s", [pipeline.name])
        real(self)

    with tasks(world, pipeline) as (_, prepared, work):
        monkeypatch.setattr(DirectPublication, "lock_as_owner", overtaken)
        with pytest.raises(Fenced):
            publish(prepared, work, 0)
        with pytest.raises(Fenced):  # nor does it read anything
            publish(prepared, replace(work, source=None), 1)  # pyright: ignore  # it must not be queried
    assert world.table(pipeline) == []
    assert sum(world.position(pipeline).values()) == 0


def test_a_commit_whose_answer_is_lost_is_found_and_not_repeated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = filled(world)
    real = psycopg.Connection.execute

    def cut(self: Any, query: Any, *arguments: Any, **named: Any) -> Any:
        answer = real(self, query, *arguments, **named)
        if query == "COMMIT":
            self.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return answer

    with tasks(world, pipeline) as (_, prepared, work):
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", cut)
            with pytest.raises(LedgerAway):
                publish(prepared, work, 2)
        assert publish(prepared, work, 2) == {}
    assert len(world.table(pipeline)) == 10


def test_rows_without_the_proof_that_their_range_was_read_are_not_published(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres recovers from a crash between the proof and the COMMIT: unlogged tables are empty."""
    pipeline = filled(world)
    real = DirectPublication.lock_as_owner

    def emptied(self: DirectPublication) -> None:
        with world.session() as other:
            other.execute("delete from tidegate_staging.coverage where staging_id = %s", [self.staged.staging_id])
        real(self)

    with tasks(world, pipeline) as (_, prepared, work):
        monkeypatch.setattr(DirectPublication, "lock_as_owner", emptied)
        with pytest.raises(StagingLost):
            publish(prepared, work, 0)
    assert world.table(pipeline) == []


def test_a_check_of_what_is_new_stays_before_a_plan_that_is_open(world: World) -> None:
    """Ranges commit in any order, so a batch with a lower id than a compared one may still come."""
    pipeline = filled(world)
    with tasks(world, pipeline) as (_, prepared, work):
        assert publish(prepared, work, 3) == {}
        report = verify_new(pipeline, world.endpoints, world.spark)
        assert report.ok
        assert world.rows("select batch_id from tidegate.verified where pipeline = %s", pipeline.name) in (
            [],
            [{"batch_id": 0}],
        )
        assert publish(prepared, work, 0, 1, 2) == {}
    assert verify_new(pipeline, world.endpoints, world.spark).ok
    (at,) = world.rows("select batch_id, offsets from tidegate.verified where pipeline = %s", pipeline.name)
    assert at["offsets"] == {"0": 10, "1": 10, "2": 10, "3": 10}


def test_copy_writes_each_type_as_it_is(world: World) -> None:
    """Binary COPY stores the bits of a wrong type without an error: every type is written, at its limits."""
    name = f"t{id(world):x}"
    columns = tuple(Column(field, column_type(kind), required=False) for field, (kind, _) in KINDS.items())
    table = Table(f"{name}.everything", "append", columns)
    own = [(field, kind.arrow) for field, kind in copied_columns()]
    schema = schema_of(table.staged_schema, [pa.field(field, kind) for field, kind in own])
    values = [pa.array(some, schema.field(field).type) for field, (_, some) in KINDS.items()]
    tags = [pa.array([number] * 4, kind) for number, (_, kind) in enumerate(own)]
    whole = pa.record_batch([*values, *tags], schema=schema)
    typed = ", ".join(f"{c.name} {c.type.postgres}" for c in columns)
    typed += "".join(f", {field} {kind.postgres}" for field, kind in copied_columns())
    with world.session() as session:
        session.execute(f"create schema {name}")
        session.execute(f"create table {table.name} ({typed})")
        assert copy_rows(session, identifier(table.name), [whole.slice(0, 1), whole.slice(1)], schema, ["tree"]) == 4
        found = session.execute(f"select {', '.join(KINDS)} from {table.name}").fetchall()
        plain = [*(some for name, (_, some) in KINDS.items() if name != "tree")]
        assert [row[:-1] for row in found] == list(zip(*plain, strict=True))
        trees = [None, {"a": [1, "ä", 10**400]}, "x", None]
        assert [row[-1] for row in found] == trees
        tagged = f"select distinct {', '.join(field for field, _ in own)} from {table.name}"
        assert session.execute(tagged).fetchall() == [(0, 1, 2)]
        session.execute(f"drop schema {name} cascade")
