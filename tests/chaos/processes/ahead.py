"""Faults while a speculative batch is staged: beside the batch being audited and published, or between the two."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import psutil
import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import drain
from platform_defs.engine.interfaces.source_and_staging import Source
from platform_defs.errors import GateFailed, LedgerAway
from platform_defs.errors.error_policy import TRIES
from platform_defs.formats.blocks.block import Block
from platform_defs.offsets import OffsetRange
from platform_defs.runs.open_run import open_run
from platform_defs.stack import processes, stack
from platform_defs.stack.endpoints import connection
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.moments import (
    before_dead_letters_are_counted,
    before_the_publication,
    before_the_rules_are_judged,
    play,
)
from tests.chaos.postgres.tables import with_impossible_sum
from tests.chaos.runs import Run, joined, limited, shipped
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.logs import create_again
from tests.support.staged_ahead import batch_by_batch, staged_ahead, wait_until_staged
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfers

SIZE = 400  # messages per batch


@scenario(FaultClass.RUN_KILLED, representative=True)
def killed_between_a_commit_and_the_batch_that_was_staged_ahead(chaos: Chaos) -> Verdict:
    """Whole or not at all: the staged rows belong to no batch, and the next run stages it again."""
    pipeline, run = _stopped_with_one_staged(chaos)
    run.kill()
    assert len(chaos.world.table(pipeline)) == 2 * SIZE
    assert [batch.messages for batch in chaos.world.drain(pipeline)] == [SIZE, SIZE]
    return chaos.judge(pipeline, 1, "whole or not at all")


@scenario(FaultClass.RUN_OVERTAKEN, representative=True)
def stopped_between_a_commit_and_the_batch_that_was_staged_ahead(chaos: Chaos) -> Verdict:
    """A second run reads on from the ledger; woken up, the first changes nothing, and reports that it was fenced."""
    pipeline, run = _stopped_with_one_staged(chaos)
    assert [batch.messages for batch in chaos.world.drain(pipeline)] == [SIZE, SIZE]
    before, last = chaos.world.table(pipeline), run.end()
    assert (last or ())[:2] == ("failed", "Fenced"), f"the run that was stopped ended with {last}"
    assert chaos.world.table(pipeline) == before
    return chaos.judge(pipeline, 1, "the second finished; the first said that it was fenced")


@scenario(FaultClass.GATE_FAILS)
def gate_that_fails_with_the_next_batch_staged(chaos: Chaos) -> Verdict:
    """Nothing is published, and the next batch is forgotten; once the gate passes, both are published."""
    world, pipeline, staged = chaos.world, _backlog(chaos.world, 2), list[int]()
    with pytest.raises(GateFailed):
        play(world, with_impossible_sum(pipeline), before_the_rules_are_judged(lambda: _wait(world, pipeline, staged)))
    assert staged_ahead(world, pipeline) == []
    assert world.table(pipeline) == []
    assert [batch.messages for batch in world.drain(pipeline)] == [SIZE, SIZE]
    return chaos.judge(pipeline, len(staged), "the next try publishes both")


@scenario(FaultClass.BAD_MESSAGES, representative=True)
def halt_with_the_next_batch_staged(chaos: Chaos) -> Verdict:
    """Nothing of either batch is published; both are, once a person has accepted the dead letters."""
    world, staged = chaos.world, list[int]()
    pipeline = world.new_pipeline(batch_messages=SIZE, dead_letter_minimum=SIZE // 8, dead_letter_share=0.1)
    world.send(pipeline, [*[b"garbage"] * (SIZE // 4), *transfers(2 * SIZE - SIZE // 4)])
    seen = before_dead_letters_are_counted(lambda: _wait(world, pipeline, staged))
    halted(world, pipeline, "too_many_dead_letters", lambda: play(world, pipeline, seen), moves=True)
    assert staged_ahead(world, pipeline) == []
    assert world.table(pipeline) == []
    resolve_halt(world, pipeline)
    return chaos.judge(pipeline, len(staged), "halted; both after resolve")


@scenario(FaultClass.POSTGRES_DOWN)
def Postgres_killed_while_the_next_batch_is_staged(chaos: Chaos) -> Verdict:
    """Unlogged tables come back empty: nothing of either batch is trusted."""
    world, pipeline, staged = chaos.world, _backlog(chaos.world, 2), list[int]()

    def kill() -> None:
        _wait(world, pipeline, staged)
        pid = stack.status().postgres.pid
        assert pid
        processes.end([psutil.Process(pid)], signal.SIGKILL, within=10.0)
        stack.up()

    with pytest.raises(LedgerAway):
        play(world, pipeline, before_the_publication(kill))
    assert world.table(pipeline) == []
    return chaos.judge(pipeline, len(staged), "the run fails, the next one continues")


@scenario(FaultClass.BROKER_DOWN)
def broker_killed_while_the_next_batch_is_staged(chaos: Chaos) -> Verdict:
    """The broker, queried again before the next batch is planned, has the same log: the staged batch is published."""
    world, pipeline = chaos.world, _backlog(chaos.world, 3)
    with batch_by_batch(world, pipeline) as batches:
        next(batches)
        wait_until_staged(world, pipeline)
        pid = stack.status().kafka.pid
        assert pid
        processes.end([psutil.Process(pid)], signal.SIGKILL, within=10.0)
        stack.up()
        assert sum(batch.messages for batch in batches) == 2 * SIZE
    return chaos.judge(pipeline, 1, "published")


@scenario(FaultClass.TOPIC_RECREATED)
def topic_created_again_behind_a_batch_that_was_staged_ahead(chaos: Chaos) -> Verdict:
    """The batch staged from the old topic is discarded; halt."""
    world, pipeline = chaos.world, _backlog(chaos.world, 2)

    def run() -> None:
        with batch_by_batch(world, pipeline) as batches:
            next(batches)
            wait_until_staged(world, pipeline)
            create_again(world, pipeline, transfers(3 * SIZE, start=7))
            next(batches)

    halted(world, pipeline, "topic_recreated", run, moves=True)
    assert staged_ahead(world, pipeline) == []
    assert len(world.table(pipeline)) == 2 * SIZE
    resolve_halt(world, pipeline, "beginning")
    return chaos.judge(pipeline, 1, "halted; a new generation after resolve")


@scenario(FaultClass.KEEPS_FAILING)
def batch_that_kills_its_run_when_it_is_staged_ahead(chaos: Chaos) -> Verdict:
    """The batch before it commits at the next try, with nothing beside it; only the batch itself halts."""
    world, pipeline = chaos.world, _backlog(chaos.world, 2)
    for _ in range(2):
        run = Run(pipeline, play=_play_killed, spark=world.spark())
        run.process.join(BOUND)
        assert run.process.exitcode == -signal.SIGKILL, run.words
        wait_for(lambda: not world.ledger.status(pipeline.name).held)
    assert world.position(pipeline) == dict.fromkeys(range(4), SIZE // 4)
    (row,) = world.rows("select pending -> 'ranges' as ranges from tidegate.pipeline where name = %s", pipeline.name)
    assert {item["from_offset"] for item in row["ranges"]} == {SIZE // 4}
    world.rows("update tidegate.pipeline set batch_failures = %s where name = %s", TRIES - 1, pipeline.name)
    detail = halted(world, pipeline, "keeps_failing")
    assert (detail["tries"], detail["error_class"]) == (TRIES, "RunDied")
    resolve_halt(world, pipeline)
    return chaos.judge(pipeline, 2, "a halt of the right batch, settled")


@dataclass(frozen=True)
class Killing:
    """The real source, which kills the run when it reaches `start`."""

    real: Source
    start: int
    run: int

    def read(self, wanted: OffsetRange, cluster_id: str | None = None) -> Iterator[Block]:
        if wanted.from_offset >= self.start:
            with suppress(ProcessLookupError):
                os.kill(self.run, signal.SIGKILL)
        yield from self.real.read(wanted, cluster_id)


def _play_killed(
    name: str, batch_messages: int, _point: None, _how: str, _forever: bool, mouth: Connection, gateway: Any
) -> None:
    pipeline, there = limited(shipped(name), batch_messages), joined(gateway)
    with open_run(pipeline, connection(), lambda: there) as context:
        source = Killing(context.source, SIZE // 4, os.getpid())
        for batch in drain(pipeline, replace(context, source=source)):
            mouth.send(("batch", str(batch.batch_id)))


def _backlog(world: World, batches: int) -> Pipeline:
    pipeline = world.new_pipeline(batch_messages=SIZE)
    world.send(pipeline, transfers(batches * SIZE))
    return pipeline


def _stopped_with_one_staged(chaos: Chaos) -> tuple[Pipeline, Run]:
    """Return a pipeline and a run stopped right after its first commit, with all of the next batch staged."""
    pipeline = _backlog(chaos.world, 3)
    run = Run(pipeline, "after_commit", "STOP", spark=chaos.world.spark())
    run.wait_until_stopped()
    wait_until_staged(chaos.world, pipeline)
    return pipeline, run


def _wait(world: World, pipeline: Pipeline, staged: list[int]) -> None:
    wait_until_staged(world, pipeline)
    staged.append(len(staged_ahead(world, pipeline)))
