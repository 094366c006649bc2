"""Faults of Postgres other than a full disk or lost memory (storage.py)."""

import signal
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import psutil
import psycopg
import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import LedgerAway
from platform_defs.stack import postgres_server as postgres
from platform_defs.stack import processes, stack
from tests.chaos.moments import Intruder
from tests.chaos.runs import Run
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfers


@scenario(FaultClass.POSTGRES_DOWN)
def Postgres_killed_during_COPY(chaos: Chaos) -> Verdict:
    """The run fails with an error that names Postgres; the next one continues."""
    return _killed(chaos, "in_copy")


@scenario(FaultClass.POSTGRES_DOWN)
def Postgres_killed_between_stage_and_publish(chaos: Chaos) -> Verdict:
    """Unlogged tables come back empty; none of them is trusted."""
    return _killed(chaos, "after_audit")


@scenario(FaultClass.POSTGRES_DOWN, representative=True)
def Postgres_restarted_between_stage_and_publish(chaos: Chaos) -> Verdict:
    """Staged rows survive an orderly restart, the run's session does not: it fails, and the next one continues."""
    pipeline = _sent(chaos.world)
    kept: list[int] = []

    def restart(staging_id: int) -> None:
        postgres.stop(stack.status().home)
        stack.up()
        (row,) = chaos.world.rows(f"select count(*) as n from {chaos.world.staging_table(staging_id)}")
        kept.append(row["n"])

    intruder = Intruder("before_publish", restart)
    with pytest.raises(LedgerAway):
        intruder.drain(chaos.world, pipeline)
    assert (kept, chaos.world.table(pipeline)) == ([1_600], [])
    return chaos.judge(pipeline, intruder.fired, "the run fails, the next one continues")


@scenario(FaultClass.POSTGRES_DOWN)
def serialization_failure(chaos: Chaos) -> Verdict:
    """If a role's transactions are repeatable read and another has written a position first: rolled back, then
    published.
    """
    world, pipeline = chaos.world, chaos.world.caught_up()
    world.send(pipeline, transfers(80, start=8))
    touch = "UPDATE tidegate.source_position SET updated_at = now() WHERE pipeline = %s"
    with _role(world, "default_transaction_isolation", "repeatable read"), world.session() as other:
        other.execute("BEGIN")
        other.execute(touch, [pipeline.name])
        committing = threading.Thread(target=_commit_once_waited_for, args=(world, other))
        committing.start()
        with pytest.raises(LedgerAway, match="could not serialize access due to concurrent update"):
            world.drain(pipeline)
        committing.join(BOUND)
    assert len(world.table(pipeline)) == 16
    return chaos.judge(pipeline, 1, "rolled back, then published")


@scenario(FaultClass.POSTGRES_DOWN)
def statement_timeout(chaos: Chaos) -> Verdict:
    """With one in the URL: rolled back; the next run publishes the same batch. A role's own counts for nothing
    (tests/integration/engine/test_time_limits.py).
    """
    pipeline = _sent(chaos.world)
    chaos.world.drain(pipeline)
    chaos.world.send(pipeline, transfers(80, start=800))
    given = chaos.world.endpoints.postgres_url
    address = f"{given}{'&' if '?' in given else '?'}options=-c%20statement_timeout%3D1s"
    limited = replace(chaos.world, endpoints=replace(chaos.world.endpoints, postgres_url=address))
    with chaos.world.session() as other, other.transaction():
        other.execute(f"LOCK TABLE {pipeline.contract.row_table.name} IN SHARE MODE")
        with pytest.raises(LedgerAway, match="statement timeout"):
            limited.drain(pipeline)
    return chaos.judge(pipeline, 1, "rolled back, then published")


@scenario(FaultClass.POSTGRES_DOWN)
def deadlock(chaos: Chaos) -> Verdict:
    """Postgres ends our transaction; the next run publishes the same batch."""
    pipeline = _sent(chaos.world)
    chaos.world.drain(pipeline)
    chaos.world.send(pipeline, transfers(80, start=800))
    with chaos.world.session() as other:
        other.execute("SET deadlock_timeout = '60s'")  # so that ours finds the deadlock, and is ended
        other.execute("BEGIN")
        other.execute(f"LOCK TABLE {pipeline.contract.row_table.name} IN SHARE MODE")
        closing = threading.Thread(target=_close_the_circle, args=(chaos.world, other, pipeline))
        closing.start()
        with pytest.raises(LedgerAway, match="deadlock detected"):
            chaos.world.drain(pipeline)
        closing.join(BOUND)
    return chaos.judge(pipeline, 1, "rolled back, then published")


@scenario(FaultClass.POSTGRES_DOWN)
def too_many_connections(chaos: Chaos) -> Verdict:
    """The run fails and reports it; the next one continues."""
    pipeline = _sent(chaos.world)
    with ExitStack() as crowd:
        _take_all_connections(chaos.world, crowd)
        with pytest.raises(LedgerAway, match=r"53300|too many clients|remaining connection slots"):
            chaos.world.drain(pipeline)
    return chaos.judge(pipeline, 1, "failed, then continued")


def _take_all_connections(world: World, crowd: ExitStack) -> None:
    for _ in range(1_000):
        try:
            crowd.enter_context(psycopg.connect(world.endpoints.postgres_url))
        except psycopg.OperationalError:
            return
    raise AssertionError("a thousand connections were accepted")


def _sent(world: World) -> Pipeline:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(800))
    return pipeline


def _killed(chaos: Chaos, point: str) -> Verdict:
    pipeline = _sent(chaos.world)
    run = Run(pipeline, point, "STOP", spark=chaos.spark_for(point))
    run.wait_until_stopped()
    pid = stack.status().postgres.pid
    assert pid
    processes.end(
        [psutil.Process(pid)], signal.SIGKILL, within=10.0
    )  # until it is gone, or `up` would take it for a running one
    stack.up()
    last = run.end()
    assert (last or ())[:2] == ("failed", "LedgerAway"), last
    assert chaos.world.table(pipeline) == []
    return chaos.judge(pipeline, 1, "the run fails, the next one continues")


@contextmanager
def _role(world: World, setting: str, value: str) -> Any:
    """Apply the setting to every session of our role that begins inside the block."""
    world.rows(f"ALTER ROLE CURRENT_USER SET {setting} = '{value}'")
    try:
        yield
    finally:
        world.rows(f"ALTER ROLE CURRENT_USER RESET {setting}")


def _close_the_circle(world: World, other: psycopg.Connection[Any], pipeline: Pipeline) -> None:
    """Once the run waits for the table that `other` has locked, let `other` wait for the pipeline's row."""
    waits = "select 1 from pg_locks where not granted and relation = %s::regclass"
    wait_for(lambda: world.rows(waits, pipeline.contract.row_table.name))
    other.execute("SELECT 1 FROM tidegate.pipeline WHERE name = %s FOR UPDATE", [pipeline.name])
    other.execute("ROLLBACK")


def _commit_once_waited_for(world: World, other: psycopg.Connection[Any]) -> None:
    """Let `other` commit as soon as a session waits for one of the rows that it has written."""
    waits = "select 1 from pg_stat_activity where %s = any(pg_blocking_pids(pid))"
    wait_for(lambda: world.rows(waits, other.info.backend_pid))
    other.execute("COMMIT")
