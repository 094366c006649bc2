"""Faults that only direct publication meets, since its transaction is open while a range is read."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa
import pytest
from psycopg import sql

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine import direct as engine_direct
from platform_defs.engine.batch import drain
from platform_defs.engine.commit.direct_statements import DirectPublication
from platform_defs.engine.commit.direct_task import Direct
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.run_context import RunContext
from platform_defs.engine.staging.binary_copy import copy_rows, encoded
from platform_defs.engine.task.task import TaskWork
from platform_defs.errors import BrokerAway, Fenced, LedgerAway, RowRefused
from platform_defs.ledger.ledger import Ledger
from platform_defs.pipelines.scheduler import turns
from platform_defs.postgres.connection import queries
from platform_defs.settings.settings import settings
from tests.integration.contract_changes.test_contract_apply import apply, columns, with_field
from tests.integration.engine.test_direct import direct, filled, publish, tasks, views
from tests.support.waiting import wait_for_row
from tests.support.world import World


@pytest.mark.slow
@pytest.mark.parametrize("state", ["55P03", "40P01", "57P01"])
def test_what_a_system_does_while_a_range_is_published_is_no_mistake_of_ours(
    world: World, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """None of a lock time-out, a deadlock and an ended session is an InternalError, which would halt the pipeline."""
    pipeline = filled(world)
    with tasks(world, pipeline) as (_, prepared, work):
        with monkeypatch.context() as patch:
            patch.setattr(DirectPublication, "move_positions", lambda publication: _fail(publication, state, world))
            with pytest.raises(LedgerAway) as raised:
                publish(prepared, work, 0)
        assert raised.value.sqlstate in (state, None)  # a session that is gone may have none
        assert publish(prepared, work, 0) == {}
    assert len(world.table(pipeline)) == 10


def _fail(publication: DirectPublication, state: str, world: World) -> None:
    if state == "57P01":
        with world.session() as other:
            other.execute("select pg_terminate_backend(%s, 5000)", [publication.connection.info.backend_pid])
        publication.connection.execute("select 1")
    publication.connection.execute(f"do $$ begin raise exception 'so' using errcode = '{state}'; end $$".encode())


def test_a_session_that_begins_with_another_isolation_publishes_as_well(world: World) -> None:
    """The proof commits in another session, after the transaction of the rows has begun."""
    pipeline = filled(world)
    strict = _with(world, options="-c default_transaction_isolation=repeatable\\ read")
    with tasks(strict, pipeline) as (_, prepared, work):
        assert publish(prepared, work, 0, 1) == {}
    assert len(world.table(pipeline)) == 20


def test_texts_arrive_whatever_encoding_the_session_begins_with(world: World) -> None:
    """COPY sends UTF-8, which Postgres would store in the encoding that the session declares."""
    pipeline = direct(world)
    view = json.loads(views(pipeline, 1)[0] or b"") | {"visitor": "v-ä"}
    world.send(pipeline, [json.dumps(view).encode()])
    with tasks(_with(world, client_encoding="LATIN1"), pipeline) as (_, prepared, work):
        assert publish(prepared, work, 0) == {}
    (row,) = world.rows(f"select visitor from {pipeline.contract.row_table.name}")
    assert row == {"visitor": "v-ä"}


def _with(world: World, **parameters: str) -> World:
    """Return the world with these libpq parameters for the sessions of its runs."""
    url = world.endpoints.postgres_url
    given = f"{'&' if '?' in url else '?'}{urlencode(parameters, quote_via=quote)}"
    return replace(world, endpoints=replace(world.endpoints, postgres_url=url + given))


def test_a_value_that_cannot_be_encoded_is_a_refused_row() -> None:
    """The range is then left to the staged way, which finds the message."""
    schema = pa.schema([pa.field("day", pa.date32())])
    part = pa.record_batch([pa.array([-(2**31)], pa.date32())], schema=schema)
    with pytest.raises(RowRefused, match="Underflow"):
        list(encoded([part], schema))


@pytest.mark.slow
def test_the_driver_asks_for_the_batches_of_its_plan_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if many others were never reported, for example while Dagster is unavailable."""
    pipeline, asked, real = filled(world), list[int](), Ledger._published

    def asking(self: Ledger, contract: Any, row: Any) -> Any:
        asked.append(row["batch_id"])
        return real(self, contract, row)

    assert len(world.drain(pipeline)) == 4
    world.send(pipeline, views(pipeline, 40))
    monkeypatch.setattr(Ledger, "_published", asking)
    assert len(world.drain(pipeline)) == 4
    assert len(asked) == 4


def test_a_schema_is_first_named_by_the_lowest_batch_whichever_commits_first(world: World) -> None:
    pipeline = filled(world)
    low, *_, high = (batch.batch_id for batch in world.drain(pipeline))
    named = {"partitions": [0], "from_offsets": [0], "generations": [1], "keys": ["7"], "parts": ["value"]}
    with world.session() as session:
        session.execute("begin")
        for batch_id in (high, low):
            given = {**named, "pipeline": pipeline.name, "registry": "r", "messages": [1], "batch_id": batch_id}
            session.execute(queries()["write_batch_schemas"], given)
        used = session.execute("select first_batch, last_batch from tidegate.schema_use where key = '7'").fetchall()
        session.execute("rollback")
    assert used == [(low, high)]


@pytest.mark.slow
def test_a_range_that_is_left_does_not_hold_up_those_that_its_task_reads_after_it(world: World) -> None:
    """The rows recorded so far are rolled back before the next range records over the same session."""
    pipeline = direct(world)
    sent = views(pipeline, 40)
    world.send(pipeline, sent)
    assert len(world.drain(pipeline)) == 4
    bad = json.dumps(json.loads(sent[0] or b"") | {"visitor": "nobody"}).encode()
    world.rows(f"alter table {pipeline.contract.row_table.name} add check (visitor <> 'nobody')")
    world.send(pipeline, [*sent[:2], bad, *sent[3:]])
    with tasks(world, pipeline) as (_, prepared, work):
        assert list(publish(prepared, work, 2, 0, 1, 3)) == [2]
    assert len(world.table(pipeline)) == 70


def test_a_contract_that_is_applied_meanwhile_tries_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The apply locks the pipeline's row and waits for the table; the task has the table and waits for the row.
    Whichever of them Postgres ends tries again.
    """
    pipeline = filled(world)
    changed, table = with_field(pipeline), pipeline.contract.row_table
    applying = threading.Thread(target=apply, args=(world, changed))
    real, begun = DirectPublication.lock_as_owner, list[bool]()

    def meanwhile(self: DirectPublication) -> None:
        if not begun:
            begun.append(True)
            applying.start()
            wait_for_row(world.endpoints.postgres_url, WAITING.format(table.name))
        real(self)

    with tasks(world, pipeline) as (_, prepared, work):
        monkeypatch.setattr(DirectPublication, "lock_as_owner", meanwhile)
        with suppress(LedgerAway, Fenced):
            publish(prepared, work, 0)
    applying.join()
    assert "channel" in columns(world, table)
    assert len(world.table(pipeline)) == world.position(pipeline)[0]


def test_what_fails_after_some_ranges_have_committed_is_heard_by_the_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn ends after a batch that leaves nothing more to read: before the error, if that one came last."""
    pipeline = filled(world)

    def away(_: Any, work: TaskWork) -> None:
        area, ledger = opened[-1]
        assert publish(Direct(area, context.broker, context.lineage), work, 0, 1) == {}
        assert [item.partition for item in ledger.pending().ranges] == [2, 3]
        raise BrokerAway("so it is")

    opened, real = list[Any](), PostgresLease.open_direct

    def opening(self: PostgresLease, *arguments: Any) -> Any:
        opened.append((real(self, *arguments), self))
        return opened[-1][0]

    monkeypatch.setattr(PostgresLease, "open_direct", opening)
    monkeypatch.setattr(engine_direct, "run", away)
    with world.open_run(pipeline) as context, pytest.raises(BrokerAway):
        _take_a_turn(pipeline, context)
    (state,) = world.rows("select failed_tries, retry_at from tidegate.pipeline where name = %s", pipeline.name)
    assert state["failed_tries"] == 1


def _take_a_turn(pipeline: Pipeline, context: RunContext) -> None:
    """Take a turn as pipelines/scheduler/turns.py does."""
    for batch in drain(pipeline, context):
        if not turns._may_leave_more(batch, pipeline.contract):
            return


WAITING = "select 1 from pg_locks where relation = to_regclass('{}') and not granted"


def test_postgres_is_not_told_what_ended_a_copy(world: World) -> None:
    """Postgres would write it into its log, which has other readers than the tables."""
    log = settings().home / "logs" / "postgres.log"
    before = log.stat().st_size

    def refused() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([1], pa.int64())], names=["number"])
        raise RowRefused("a value does not fit: do-not-tell", error_class="NotCopied")

    with world.session() as session:
        session.execute("set log_min_messages = error")
        session.execute("create temporary table numbers (number bigint)")
        with pytest.raises(RowRefused, match="do-not-tell"):
            copy_rows(session, sql.Identifier("numbers"), refused(), pa.schema([("number", pa.int64())]))
        assert session.execute("select count(*) from numbers").fetchone() == (0,)
    written = log.read_bytes()[before:]
    assert b"COPY from stdin failed" in written
    assert b"do-not-tell" not in written


def test_nobody_is_told_what_postgres_refused_of_a_copy_that_ended_by_itself(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise, psycopg would log it as a warning, which a worker writes to stderr, with the row."""

    def away() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([1234567] * 100_000, pa.int64())], names=["number"])
        raise BrokerAway("gone meanwhile")

    with world.session() as session:
        session.execute("create temporary table numbers (number bigint check (number < 0))")
        with pytest.raises(BrokerAway, match="gone meanwhile"):
            copy_rows(session, sql.Identifier("numbers"), away(), pa.schema([("number", pa.int64())]))
    assert "1234567" not in caplog.text
