"""What Postgres, and the way to it, can do to a run."""

import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from platform_defs.engine.errors import LedgerAway, OutcomeUnknown
from platform_defs.engine.ports import Pipeline
from resources.local import stack
from tests.chaos.proxy import CommitCutter
from tests.chaos.runs import Run
from tests.chaos.scenario import Chaos, Verdict, scenario
from tests.world import World, transfers


@scenario
def connection_cut_before_COMMIT_arrives(chaos: Chaos) -> Verdict:
    """Not committed: said so, and the next run reads the same offsets."""
    pipeline = _sent(chaos.world)
    cutter = CommitCutter(chaos.world.endpoints.postgres_url, "before")
    with cutter, pytest.raises(LedgerAway, match="died before batch"):
        _through(chaos.world, cutter).drain(pipeline)
    assert chaos.world.table(pipeline) == []
    return chaos.judge(pipeline, cutter.fired, "not committed, and said so")


@scenario
def connection_cut_after_COMMIT_is_done(chaos: Chaos) -> Verdict:
    """Found committed under the row lock, by batch id and owner; nothing is repeated."""
    pipeline = _sent(chaos.world)
    with CommitCutter(chaos.world.endpoints.postgres_url, "after") as cutter:
        (batch,) = _through(chaos.world, cutter).drain(pipeline)
    assert batch.messages == 8_000
    return chaos.judge(pipeline, cutter.fired, "found committed")


@scenario
def connection_cut_in_COMMIT_and_Postgres_away(chaos: Chaos) -> Verdict:
    """Told as unknown, never as not committed; the next run knows."""
    pipeline = _sent(chaos.world)
    cutter = CommitCutter(chaos.world.endpoints.postgres_url, "after", then_away=True)
    with cutter, pytest.raises(OutcomeUnknown, match="The ledger knows"):
        _through(chaos.world, cutter).drain(pipeline)
    assert len(chaos.world.table(pipeline)) == 16_000
    return chaos.judge(pipeline, cutter.fired, "told as unknown")


@scenario
def Postgres_killed_during_COPY(chaos: Chaos) -> Verdict:
    """The run fails and says that Postgres went; the next one goes on."""
    return _killed(chaos, "in_copy")


@scenario
def Postgres_killed_between_stage_and_publish(chaos: Chaos) -> Verdict:
    """Unlogged tables come back empty; nothing of them is believed."""
    return _killed(chaos, "after_audit")


@scenario
def statement_timeout(chaos: Chaos) -> Verdict:
    """Rolled back; the next run publishes the same batch."""
    pipeline = _sent(chaos.world)
    chaos.world.drain(pipeline)
    chaos.world.send(pipeline, transfers(80, start=8_000))
    with _role(chaos.world, "statement_timeout", "1s"), chaos.world.session() as other, other.transaction():
        other.execute(f"LOCK TABLE {pipeline.contract.row_table.name} IN SHARE MODE")
        with pytest.raises(LedgerAway, match="statement timeout"):
            chaos.world.drain(pipeline)
    return chaos.judge(pipeline, 1, "rolled back, then published")


@scenario
def deadlock(chaos: Chaos) -> Verdict:
    """Postgres ends our transaction; the next run publishes the same batch."""
    pipeline = _sent(chaos.world)
    chaos.world.drain(pipeline)
    chaos.world.send(pipeline, transfers(80, start=8_000))
    with chaos.world.session() as other:
        other.execute("SET deadlock_timeout = '60s'")  # so that ours is the one that finds the circle, and is ended
        other.execute("BEGIN")
        other.execute(f"LOCK TABLE {pipeline.contract.row_table.name} IN SHARE MODE")
        closing = threading.Thread(target=_close_the_circle, args=(chaos.world, other, pipeline))
        closing.start()
        with pytest.raises(LedgerAway, match="deadlock detected"):
            chaos.world.drain(pipeline)
        closing.join(30)
    return chaos.judge(pipeline, 1, "rolled back, then published")


@scenario
def too_many_connections(chaos: Chaos) -> Verdict:
    """The run fails and says so; the next one goes on."""
    pipeline = _sent(chaos.world)
    with ExitStack() as crowd:
        _take_all_connections(chaos.world, crowd)
        with pytest.raises(LedgerAway, match=r"53300|too many clients|remaining connection slots"):
            chaos.world.drain(pipeline)
    return chaos.judge(pipeline, 1, "failed, then went on")


def _take_all_connections(world: World, crowd: ExitStack) -> None:
    for _ in range(1_000):
        try:
            crowd.enter_context(psycopg.connect(world.endpoints.postgres_url))
        except psycopg.OperationalError:
            return
    raise AssertionError("a thousand connections were accepted")


def _sent(world: World) -> Pipeline:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(8_000))
    return pipeline


def _through(world: World, cutter: CommitCutter) -> World:
    return replace(world, endpoints=replace(world.endpoints, postgres_url=cutter.url))


def _killed(chaos: Chaos, point: str) -> Verdict:
    pipeline = _sent(chaos.world)
    run = Run(pipeline, point, "STOP")
    run.wait_until_stopped()
    pid = stack.status().postgres.pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    stack.up()
    last = run.end()
    assert (last or ())[:2] == ("failed", "LedgerAway"), last
    assert chaos.world.table(pipeline) == []
    return chaos.judge(pipeline, 1, "the run fails, the next one goes on")


@contextmanager
def _role(world: World, setting: str, value: str) -> Any:
    """The setting, for every session of our role that begins inside the block."""
    world.rows(f"ALTER ROLE CURRENT_USER SET {setting} = '{value}'")
    try:
        yield
    finally:
        world.rows(f"ALTER ROLE CURRENT_USER RESET {setting}")


def _close_the_circle(world: World, other: psycopg.Connection[Any], pipeline: Pipeline) -> None:
    """Once the run waits for the table that `other` has locked, let `other` wait for the pipeline's row."""
    waits = "select 1 from pg_locks where not granted and relation = %s::regclass"
    deadline = time.monotonic() + 60
    while not world.rows(waits, pipeline.contract.row_table.name) and time.monotonic() < deadline:
        time.sleep(0.02)
    other.execute("SELECT 1 FROM tidegate.pipeline WHERE name = %s FOR UPDATE", [pipeline.name])
    other.execute("ROLLBACK")
