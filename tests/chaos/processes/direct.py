"""Pipelines whose tasks publish their ranges themselves: killed, stopped, cut off and moved to another log."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.interfaces.crash_points import CrashPoint
from platform_defs.engine.lease import lease
from platform_defs.samples.samples import Samples
from platform_defs.settings.contracts import find_pipeline
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.kafka.topics import create_again_from_a_worker
from tests.chaos.moments import mark, play, within_a_range
from tests.chaos.postgres.proxy import CommitCutter
from tests.chaos.runs import Run, play_run
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.waiting import BOUND
from tests.support.world import SHIPPED, World, declassified, renamed

POINTS: tuple[CrashPoint, ...] = ("after_plan", "in_decode", "in_copy", "in_publish", "after_range")


def direct_views(name: str) -> Pipeline:
    """Return page views without batch rules, published directly."""
    return Pipeline(directly(renamed(declassified(find_pipeline(SHIPPED["append"]).contract), name)))


def directly(contract: Contract) -> Contract:
    return replace(contract, tables=(replace(contract.row_table, batch_rules=()),), publication="direct")


@scenario(FaultClass.RUN_KILLED)
def published_directly_and_killed_at_each_named_point(chaos: Chaos) -> Verdict:
    """Each range is there whole or not at all, independently of the others; the next run reads the missing ones."""
    pipeline = _new(chaos.world)
    for number, point in enumerate(POINTS):
        _send(chaos.world, pipeline, 400, seed=number)
        run = Run(pipeline, point, play=_play)
        run.process.join(BOUND)
        assert run.process.exitcode == -signal.SIGKILL, run.words
        assert len(chaos.world.table(pipeline)) == _rows_of_batches(chaos.world, pipeline), point
        assert _planned(chaos.world, pipeline) or point == "after_range", point
        chaos.world.drain(pipeline)
    return chaos.judge(pipeline, len(POINTS), "each range whole or not at all")


@scenario(FaultClass.RUN_OVERTAKEN)
def published_directly_and_stopped_before_COMMIT(chaos: Chaos) -> Verdict:
    """A second run ends the session of the task with the row lock, and finishes; the first wakes up to no effect."""
    pipeline = _new(chaos.world)
    _send(chaos.world, pipeline, 400)
    run = Run(pipeline, "in_publish", "STOP", play=_play)
    run.wait_until_stopped()
    with pytest.MonkeyPatch.context() as hurried:
        hurried.setattr(lease, "LOCK_WAIT", "3s")  # in the second run, which is in this process; usually 30
        assert chaos.world.drain(pipeline), "the first run had published everything"
    before = chaos.world.table(pipeline)
    last = run.end()
    assert (last or ())[:2] == ("failed", "Fenced"), f"the run that was stopped ended with {last}"
    assert chaos.world.table(pipeline) == before
    return chaos.judge(pipeline, 1, "the second finished; the first said that it was fenced")


@scenario(FaultClass.COMMIT_CUT)
def published_directly_and_cut_after_COMMIT_is_done(chaos: Chaos) -> Verdict:
    """The task is retried, finds its range published, and does nothing."""
    return _cut(chaos, "after")


@scenario(FaultClass.COMMIT_CUT)
def published_directly_and_cut_before_COMMIT_arrives(chaos: Chaos) -> Verdict:
    """The task is retried, finds its range unpublished, and publishes it."""
    return _cut(chaos, "before")


@scenario(FaultClass.TOPIC_RECREATED)
def topic_created_again_while_a_range_is_published_directly(chaos: Chaos) -> Verdict:
    """The task queries the log at the end of its range: the rows of both logs are rolled back, and the run halts."""
    world, pipeline = chaos.world, _new(chaos.world)
    world.drain(pipeline)
    world.send(pipeline, _values(pipeline, 5), partition=0)
    happened = mark(pipeline)
    act = partial(create_again_from_a_worker, world.endpoints, pipeline, _values(pipeline, 5, seed=2))
    halted(world, pipeline, "topic_recreated", partial(play, world, pipeline, within_a_range(act, happened)))
    assert happened.exists()
    assert world.table(pipeline) == []
    resolve_halt(world, pipeline, "beginning")
    return chaos.judge(pipeline, 1, "halted; a new generation after resolve")


def _cut(chaos: Chaos, when: str) -> Verdict:
    pipeline = _new(chaos.world)
    _send(chaos.world, pipeline, 400)
    with _cutter(chaos.world, when) as cutter:
        through = replace(chaos.world, endpoints=replace(chaos.world.endpoints, postgres_url=cutter.url))
        batches = through.drain(pipeline)
    assert [batch.messages for batch in batches] == [100] * 4
    return chaos.judge(pipeline, cutter.fired, "each range once")


@contextmanager
def _cutter(world: World, when: str) -> Iterator[CommitCutter]:
    url = world.endpoints.postgres_url
    with CommitCutter(url, "after") if when == "after" else CommitCutter(url, "before") as cutter:
        yield cutter


def _new(world: World) -> Pipeline:
    pipeline = world.new_pipeline("append")
    return Pipeline(directly(pipeline.contract))


def _values(pipeline: Pipeline, count: int, seed: int = 1) -> list[bytes]:
    return [item.value or b"" for item in Samples(pipeline.contract, seed=seed).good(count)]


def _send(world: World, pipeline: Pipeline, count: int, seed: int = 1) -> None:
    """Send valid views into four partitions, with a bad one among them."""
    world.send(pipeline, [*_values(pipeline, count - 1, seed), b"no JSON"])


def _rows_of_batches(world: World, pipeline: Pipeline) -> int:
    (found,) = world.rows("select coalesce(sum(rows), 0) as n from tidegate.batch where pipeline = %s", pipeline.name)
    return found["n"]


def _planned(world: World, pipeline: Pipeline) -> bool:
    (found,) = world.rows("select pending is not null as there from tidegate.pipeline where name = %s", pipeline.name)
    return found["there"]


_play = partial(play_run, made=direct_views)
