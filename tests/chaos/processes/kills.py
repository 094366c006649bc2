"""Runs that are killed, stopped, or meet each other."""

import signal
import threading
import time
from typing import get_args

import pytest

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.interfaces.crash_points import CrashPoint
from platform_defs.engine.lease import lease
from tests.chaos.runs import Run
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfers

COMMITTED = {"after_commit"}  # points at which the batch already exists


@scenario(FaultClass.RUN_KILLED)
def killed_at_each_named_point(chaos: Chaos) -> Verdict:
    """Before COMMIT nothing is there, after it everything; the next run continues, and leaves no session and no
    staging.
    """
    pipeline, fired = chaos.world.caught_up(), 0
    for point in get_args(CrashPoint):
        if point == "after_range":  # for direct publication
            continue
        before = len(chaos.world.table(pipeline))
        chaos.world.send(pipeline, [*transfers(800, start=fired * 800), b"not json"])
        run = Run(pipeline, point, spark=chaos.spark_for(point))
        run.process.join(BOUND)
        assert run.process.exitcode == -signal.SIGKILL, run.words
        fired += 1
        assert len(chaos.world.table(pipeline)) - before == (1_600 if point in COMMITTED else 0), point
        chaos.world.drain(pipeline)
        _wait_until_sessions_are_gone(chaos.world, pipeline)
    return chaos.judge(pipeline, fired, "whole or not at all")


@scenario(FaultClass.RUN_KILLED)
def killed_at_random_moments(chaos: Chaos) -> Verdict:
    """Nothing is lost or doubled, however often: what was pending is read again."""
    pipeline, kills = chaos.world.new_pipeline(batch_messages=2_000), max(1, chaos.kills // 10)
    with Trickle(chaos.world, pipeline):
        for _ in range(kills):
            _kill_at_random(chaos, Run(pipeline, forever=True))
    return chaos.judge(pipeline, kills, "the next run continues")


@scenario(FaultClass.RUN_KILLED)
def killed_at_random_moments_while_its_tasks_continue(chaos: Chaos) -> Verdict:
    """Spark outlives the run, as on a cluster: what its tasks still write belongs to no run, and nothing of it is
    published.
    """
    pipeline, spark = chaos.world.new_pipeline(batch_messages=2_000), chaos.world.spark()
    with Trickle(chaos.world, pipeline):
        for _ in range(chaos.kills):
            _kill_at_random(chaos, Run(pipeline, forever=True, spark=spark))
    return chaos.judge(pipeline, chaos.kills, "the next run continues")


@scenario(FaultClass.RUN_OVERTAKEN)
def stopped_while_it_decodes(chaos: Chaos) -> Verdict:
    """A second run ends the first one's sessions and finishes; woken up, the first changes nothing."""
    return _overtaken(chaos, "in_decode")


@scenario(FaultClass.RUN_OVERTAKEN)
def stopped_in_COPY(chaos: Chaos) -> Verdict:
    """A second run ends the first one's sessions and finishes; woken up, the first changes nothing."""
    return _overtaken(chaos, "in_copy")


@scenario(FaultClass.RUN_OVERTAKEN)
def stopped_inside_the_publish_transaction(chaos: Chaos) -> Verdict:
    """The second run waits for the row lock, then ends the session that has it; the first reports the fencing."""
    with pytest.MonkeyPatch.context() as hurried:
        hurried.setattr(lease, "LOCK_WAIT", "3s")  # in the second run, which is in this process; usually 30
        return _overtaken(chaos, "in_publish")


@scenario(FaultClass.TWO_RUNS, representative=True)
def two_runs_at_once(chaos: Chaos) -> Verdict:
    """One commits; the other stops and reports that it was fenced, or finds nothing left to do."""
    pipeline = chaos.world.new_pipeline(batch_messages=500)
    chaos.world.send(pipeline, transfers(5_000))
    runs = [Run(pipeline, spark=chaos.world.spark()), Run(pipeline, spark=chaos.world.spark())]
    ends = [run.end() for run in runs]
    assert ("done",) in ends, ends
    assert all(end == ("done",) or (end and end[:2] == ("failed", "Fenced")) for end in ends), ends
    batches = [word[1] for run in runs for word in run.words if word[0] == "batch"]
    assert len(batches) == len(set(batches)) == 10, batches
    fenced = sum(end != ("done",) for end in ends)
    return chaos.judge(pipeline, 2, f"{fenced} of them fenced")


def _wait_until_sessions_are_gone(world: World, pipeline: Pipeline) -> None:
    """Wait until no session has the run's name: a pooler renames its process a moment after the client has gone."""
    left = "select 1 from pg_stat_activity where application_name like %s"
    wait_for(lambda: not world.rows(left, f"tidegate/{pipeline.name}/%"), "its sessions are gone")


def _kill_at_random(chaos: Chaos, run: Run) -> None:
    """Kill the run between its first batch and a second later, which is a few batches."""
    assert run.hear(BOUND) == ("ready",), "the run did not start"
    assert (run.hear(BOUND) or ())[:1] == ("batch",), f"the run made no batch: {run.words}"
    time.sleep(chaos.random.uniform(0, 1.2))
    assert run.process.is_alive(), f"the run ended by itself: {run.words}"
    run.kill()


def _overtaken(chaos: Chaos, point: str) -> Verdict:
    pipeline = chaos.world.new_pipeline()
    chaos.world.send(pipeline, [*transfers(800), b"not json"])
    run = Run(pipeline, point, "STOP", spark=chaos.spark_for(point))
    run.wait_until_stopped()
    (batch,) = chaos.world.drain(pipeline)
    assert (batch.messages, batch.dead_letters) == (801, 1)
    before = chaos.world.table(pipeline)
    last = run.end()
    assert (last or ())[:2] == ("failed", "Fenced"), f"the run that was stopped ended with {last}"
    assert chaos.world.table(pipeline) == before
    return chaos.judge(pipeline, 1, "the second finished; the first said that it was fenced")


class Trickle:
    """Two hundred messages a second into the pipeline's topic, for as long as the block runs."""

    def __init__(self, world: World, pipeline: Pipeline) -> None:
        self._world, self._pipeline, self._over = world, pipeline, threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def _send(self) -> None:
        number = 0
        while not self._over.wait(0.5):
            self._world.send(self._pipeline, [*transfers(99, start=number), b"not json"])
            number += 99

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
