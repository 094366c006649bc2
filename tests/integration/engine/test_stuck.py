"""Batches that never end, and runs that are stopped: what is cancelled, and what counts as a failure."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from dagster import DagsterInstance
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import drain, plan_batch
from platform_defs.engine.failure import record_failure
from platform_defs.engine.job.job_limit import JobLimit
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import BrokerAway, Halt, StagingLost
from platform_defs.errors.error_policy import TRIES
from platform_defs.kafka.broker import BrokerPoll
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.postgres.verdicts import failures, plain, single_entry
from tests.chaos.processes.dagster import views
from tests.support.dagster_runs import execute, failure
from tests.support.kafka.fake_servers import closed_port
from tests.support.waiting import wait_for
from tests.support.world import World, transfers

FOR_EVER = 1_000_000.0  # seconds


def stuck(world: World, folder: Path) -> Pipeline:
    """Return a pipeline with a transform that never returns; its Python workers leave their pids in `folder`."""
    folder.mkdir()
    pipeline = single_entry(world, _sleeping(str(folder)))
    world.send(pipeline, transfers(4))
    return pipeline


def _sleeping(folder: str) -> Callable[[DataFrame], DataFrame]:
    def sleep(memo: str) -> str:
        Path(folder, str(os.getpid())).touch()
        time.sleep(FOR_EVER)
        return memo

    return lambda messages: plain(messages.withColumn("transfer_id", F.udf(sleep, "string")("memo")))


def workers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir()]


@pytest.mark.longest
def test_transforms_that_never_return_are_ended_and_counted_and_the_others_go_on(
    world: World, instance: DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are as many as a run has workers: without a limit, no other pipeline would get a turn."""
    hanging = [stuck(world, tmp_path / name) for name in "abc"]
    innocent = world.new_pipeline("append")
    # Spark and its workers have started: the others' time does not include that.
    world.send_and_drain(innocent, views(1))
    world.send(innocent, views(1))
    monkeypatch.setenv("TIDEGATE_BATCH_TIMEOUT_SECONDS", "8")
    result = execute(instance, *hanging, innocent)
    message = failure(result).description or ""
    assert "3 of 4 pipelines failed" in message
    assert "TIDEGATE_BATCH_TIMEOUT_SECONDS" in message
    assert [failures(world, pipeline) for pipeline in hanging] == [(1, 1)] * 3
    assert sum(world.position(innocent).values()) == 2
    slept = [pid for name in "abc" for pid in workers(tmp_path / name)]
    assert slept
    wait_for(lambda: not any(map(psutil.pid_exists, slept)))


@pytest.mark.slow
def test_what_was_cancelled_because_the_run_was_stopped_is_no_failure(
    world: World, instance: DagsterInstance, tmp_path: Path
) -> None:
    pipeline = stuck(world, tmp_path / "a")

    def stop_once_it_works() -> None:
        wait_for(lambda: bool(workers(tmp_path / "a")))
        os.kill(os.getpid(), signal.SIGINT)  # as Dagster ends a run

    stopping = threading.Thread(target=stop_once_it_works)
    stopping.start()
    try:
        assert not execute(instance, pipeline).success
    finally:
        stopping.join()
    assert failures(world, pipeline) == (0, 0)
    assert not world.ledger.status(pipeline.name).held


@pytest.mark.slow
def test_a_job_ends_once_no_broker_answers_however_long_its_tasks_would_wait(world: World, tmp_path: Path) -> None:
    """Spark would try each task four times, and the tasks of one pipeline after those of another."""
    pipeline = stuck(world, tmp_path / "a")
    options = world.endpoints.kafka_options()
    stopped = {**options, "bootstrap.servers": f"127.0.0.1:{closed_port()}"}
    poll = BrokerPoll(options)
    assert [poll(), poll()] == [None, None]
    with world.open_run(pipeline) as context:
        limit = JobLimit(poll_brokers=lambda: BrokerPoll(stopped), patience=0.5)
        with pytest.raises(BrokerAway, match=r"no broker at 127\.0\.0\.1:.* answers"):
            list(drain(pipeline, replace(context, limit=limit)))
    assert failures(world, pipeline) == (1, 0)  # a failure of the run, and none of the batch


def die(world: World, pipeline: Pipeline) -> None:
    """Let a run take the pipeline over and die: its session goes, and it releases nothing."""
    acquire(world.ledger.url, pipeline.contract).connection.close()
    wait_for(lambda: not world.ledger.status(pipeline.name).held)


def pending(world: World) -> Pipeline:
    """Return a pipeline with a batch whose offsets are fixed, and no failure."""
    pipeline = world.caught_up()
    world.send(pipeline, transfers(4))
    with world.open_run(pipeline) as context:
        assert plan_batch(pipeline.contract, context)
    return pipeline


@pytest.mark.longest
def test_a_batch_of_which_run_after_run_dies_halts(world: World) -> None:
    pipeline = pending(world)
    world.rows("update tidegate.pipeline set batch_failures = %s where name = %s", TRIES - 2, pipeline.name)
    die(world, pipeline)
    assert failures(world, pipeline)[1] == TRIES - 2  # the next run records it
    die(world, pipeline)
    assert failures(world, pipeline)[1] == TRIES - 1
    detail = halted(world, pipeline, "keeps_failing")
    assert (detail["tries"], detail["error_class"]) == (TRIES, "RunDied")
    assert "died without reporting a reason" in detail["error"]
    resolve_halt(world, pipeline)
    (batch,) = world.drain(pipeline)
    assert batch.messages == 4
    assert failures(world, pipeline) == (0, 0)


@pytest.mark.slow
def test_a_run_that_is_fenced_alive_has_not_died(world: World) -> None:
    pipeline = pending(world)
    for _ in range(2):
        alive = acquire(world.ledger.url, pipeline.contract)
        with closing(acquire(world.ledger.url, pipeline.contract)):  # as a replay takes a pipeline over
            assert alive.fenced()
            assert failures(world, pipeline)[1] == 0


def test_a_halt_may_quote_what_postgres_cannot_hold(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(1))
    with world.open_run(pipeline) as context:
        plan_batch(pipeline.contract, context)
        for _ in range(TRIES - 1):
            record_failure(pipeline.name, context.ledger, StagingLost("quoted: \0\ud800"))
        with pytest.raises(Halt, match=r"quoted: \\x00\\ud800"):
            record_failure(pipeline.name, context.ledger, StagingLost("quoted: \0\ud800"))
    assert world.ledger.status(pipeline.name).halt_code == "keeps_failing"
