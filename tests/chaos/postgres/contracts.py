"""Contracts applied during runs, and applies that are killed."""

import os
import signal
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, get_args

import pytest

from platform_defs.contract.evolution.statements import NOT_NULL, Given
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract_changes import evolve
from platform_defs.engine.interfaces.crash_points import ApplyPoint, NotNullPoint
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import Fenced
from platform_defs.settings.contracts import find_pipeline
from platform_defs.stack.endpoints import connection
from tests.chaos.moments import Intruder
from tests.chaos.runs import Run
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.waiting import BOUND
from tests.support.world import World, declassified, renamed, transfers

APPLIED = {"apply_committed"}  # points at which it has happened


@scenario(FaultClass.CONTRACT_APPLIED)
def contract_apply_killed_at_each_step(chaos: Chaos) -> Verdict:
    """Before COMMIT neither the table nor the ledger has changed, after it both; the pipeline continues either way."""
    world, pipeline, fired = chaos.world, chaos.world.caught_up(), 0
    after = replace(pipeline, contract=loosened(pipeline.contract))
    for point in get_args(ApplyPoint):
        run = Run(pipeline, point, play=play_apply)
        run.process.join(BOUND)
        assert run.process.exitcode == -signal.SIGKILL, run.words
        fired += 1
        assert _applied(world, after) == ((True, True) if point in APPLIED else (False, False)), point
        current = after if point in APPLIED else pipeline
        world.send(pipeline, transfers(8, start=8 * fired))
        assert [batch.rows for batch in world.drain(current)] == [16], point
    return chaos.judge(after, fired, "table and ledger agree")


@scenario(FaultClass.CONTRACT_APPLIED)
def not_null_killed_at_each_step(chaos: Chaos) -> Verdict:
    """The CHECK stays, and refuses no row under the contract in force. The contract that makes its column optional
    drops it.
    """
    world, pipeline, fired = chaos.world, chaos.world.caught_up(), 0
    after, table = replace(pipeline, contract=loosened(pipeline.contract)), pipeline.contract.row_table.name
    world.rows(f"alter table {table} alter currency drop not null")  # as a user's own table may be
    left = "select 1 as it from pg_constraint where conrelid = %s::regclass and conname = %s"
    for point in get_args(NotNullPoint):
        run = Run(pipeline, point, play=play_not_null)
        run.process.join(BOUND)
        assert run.process.exitcode == -signal.SIGKILL, run.words
        fired += 1
        assert world.rows(left, table, NOT_NULL) == [{"it": 1}], point
        world.send(pipeline, transfers(8, start=8 * fired))
        assert [batch.rows for batch in world.drain(pipeline)] == [16], point
    _apply(after.contract)
    assert world.rows(left, table, NOT_NULL) == []
    world.send(pipeline, transfers(8, start=8 * (fired + 1)))
    assert [batch.rows for batch in world.drain(after)] == [16]
    return chaos.judge(after, fired, "the CHECK is dropped with the contract that requires the column")


@scenario(FaultClass.CONTRACT_APPLIED, representative=True)
def contract_applied_between_staging_and_publish(chaos: Chaos) -> Verdict:
    """The batch is fenced and changes nothing; its offsets are read again, and validated by the new contract."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    after = replace(pipeline, contract=loosened(pipeline.contract))
    world.send(pipeline, transfers(8, start=8))
    before = world.position(pipeline)
    intruder = Intruder("before_publish", lambda _: _apply(after.contract))
    with pytest.raises(Fenced):
        intruder.drain(world, pipeline)
    assert world.position(pipeline) == before
    (batch,) = world.drain(after)
    versions = "select contract_version as v from tidegate.batch where batch_id = %s"
    assert world.rows(versions, batch.batch_id) == [{"v": "1.1.0"}]
    return chaos.judge(after, intruder.fired, "fenced, and read again")


@scenario(FaultClass.CONTRACT_APPLIED)
def run_killed_while_it_applies_a_free_change(chaos: Chaos) -> Verdict:
    """Neither the table nor the ledger has changed. The next run applies it, and continues."""
    world, pipeline = chaos.world, chaos.world.caught_up()
    after = replace(pipeline, contract=additive(pipeline.contract))
    run = Run(pipeline, "apply_altered", play=play_begin)
    run.process.join(BOUND)
    assert run.process.exitcode == -signal.SIGKILL, run.words
    assert _applied(world, after) == (False, False)
    world.send(pipeline, transfers(8, start=8))
    assert [batch.rows for batch in world.drain(after)] == [16]
    assert _applied(world, after) == (True, True)
    return chaos.judge(after, 1, "applied by the next run")


def additive(contract: Contract) -> Contract:
    """Return the next version, which runs apply by themselves."""
    return replace(loosened(contract), evolution="additive")


def loosened(contract: Contract) -> Contract:
    """Return the next version, in which a posting's currency may be NULL."""
    rows = contract.row_table
    columns = tuple(replace(c, required=c.required and c.name != "currency") for c in rows.columns)
    return replace(contract, version="1.1.0", tables=(replace(rows, columns=columns), *contract.accumulates))


def play_apply(
    name: str, batch_messages: int, point: str, how: str, forever: bool, mouth: Connection, gateway: Any = None
) -> None:
    """Apply a contract, in the process of an apply."""
    os.environ["TIDEGATE_CRASH_POINT"] = f"{point}:{os.getpid()}:{how}"
    _apply(loosened(given(name, batch_messages)))
    mouth.send(("done",))


def play_not_null(
    name: str, batch_messages: int, point: str, how: str, forever: bool, mouth: Connection, gateway: Any = None
) -> None:
    """Set NOT NULL, in the process of a command."""
    os.environ["TIDEGATE_CRASH_POINT"] = f"{point}:{os.getpid()}:{how}"
    evolve.set_not_null(connection().postgres_url, given(name, batch_messages))
    mouth.send(("done",))


def play_begin(
    name: str, batch_messages: int, point: str, how: str, forever: bool, mouth: Connection, gateway: Any = None
) -> None:
    """Begin a run up to its first batch, in the process of a run."""
    os.environ["TIDEGATE_CRASH_POINT"] = f"{point}:{os.getpid()}:{how}"
    acquire(connection().postgres_url, additive(given(name, batch_messages))).close()
    mouth.send(("done",))


def given(name: str, batch_messages: int) -> Contract:
    """Return the contract of a pipeline with this name, with `batch_messages` messages per batch."""
    contract = renamed(declassified(find_pipeline("bank_transfers").contract), name)
    return replace(contract, limits=replace(contract.limits, batch_messages=batch_messages))


def _apply(contract: Contract) -> None:
    evolve.apply(connection().postgres_url, contract, Given(), "tester")


def _applied(world: World, after: Pipeline) -> tuple[bool, bool]:
    """Return two flags: True if the table has the contract, and True if the ledger has it."""
    nullable = "select not attnotnull as it from pg_attribute where attrelid = to_regclass(%s) and attname = 'currency'"
    recorded = (
        "select c.version = '1.1.0' as it from tidegate.pipeline as p join tidegate.contract as c "
        "on (c.pipeline, c.digest) = (p.name, p.contract_digest) where p.name = %s"
    )
    (table,), (ledger,) = world.rows(nullable, after.contract.row_table.name), world.rows(recorded, after.name)
    return table["it"], ledger["it"]
