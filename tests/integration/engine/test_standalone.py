"""A standalone Spark cluster of real processes: driver, master, two workers, their executors."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from platform_defs import offsets
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import TidegateError
from platform_defs.samples.samples import Samples
from platform_defs.spark.session import spark_config, start_session
from platform_defs.stack.endpoints import connection
from platform_defs.verify.verify import verify
from tests.chaos.moments import mark, play, within_a_range
from tests.chaos.processes.direct import direct_views
from tests.chaos.runs import Run, shipped
from tests.support.standalone import LOCALHOST, SECRET_OF_TESTS, Standalone, older_install, standalone
from tests.support.world import World, transfers

MESSAGES = 2_000
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("spark")) as running:
        running.add_workers(2)
        yield running


@pytest.mark.longest
def test_transfers_are_staged_exactly_once_though_an_executor_is_killed(world: World, cluster: Standalone) -> None:
    """In the middle of a range; what the dead executor's orphan may still COPY is not published."""
    pipeline = world.new_pipeline()
    world.send(pipeline, [*transfers(MESSAGES), b"not json"])
    run = _carried(cluster, pipeline, shipped)
    assert run.words == [("batch", str(MESSAGES + 1), "1"), ("done",)]
    assert len(world.table(pipeline)) == 2 * MESSAGES
    _is_exact(world, pipeline)


@pytest.mark.longest
def test_ranges_are_published_directly_exactly_once_though_an_executor_is_killed(
    world: World, cluster: Standalone
) -> None:
    """Each of four ranges is there once, even the one whose first attempt went on without its executor."""
    pipeline = direct_views(world.new_pipeline("append").name)
    views = [item.value for item in Samples(pipeline.contract, seed=1).good(MESSAGES)]
    world.send(pipeline, [*views, b"not json"])
    run = _carried(cluster, pipeline, direct_views)
    assert run.words == [("batch", "501", "1"), *(("batch", "500", "0"),) * 3, ("done",)]
    _is_exact(world, pipeline)


@pytest.mark.longest
def test_an_executor_with_another_installation_is_refused_and_no_message_is_blamed(
    world: World, cluster: Standalone, tmp_path: Path
) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, [*transfers(40), b"not json"])
    cluster.end_workers()
    cluster.add_workers(1, older_install(tmp_path))
    run = Run(pipeline, play=partial(_carry, cluster.url, shipped, None))
    kind, error_class, message = run.end() or ("ended", "", "")
    assert (kind, error_class) == ("failed", "OtherInstall"), run.words
    assert "Nothing was read. Install the same version on that machine, or restart the process" in message
    assert world.dead_letters(pipeline) == []
    (status,) = world.rows("select state, pending from tidegate.pipeline where name = %s", pipeline.name)
    assert (status["state"], status["pending"]["suspects"]) == ("active", [])
    world.drain(pipeline)
    assert len(world.dead_letters(pipeline)) == 1
    _is_exact(world, pipeline)


def _carried(cluster: Standalone, pipeline: Pipeline, made: Callable[[str], Pipeline]) -> Run:
    """Run the pipeline with a first task that kills its own executor."""
    killed = mark(pipeline)
    run = Run(pipeline, play=partial(_carry, cluster.url, made, killed))
    run.end()
    assert killed.exists(), run.words
    assert int(killed.read_text()) in {worker.pid for worker in cluster.workers}
    return run


def _is_exact(world: World, pipeline: Pipeline) -> None:
    report = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report.explanation
    assert report.messages == sum(held.end for held in world.ends(pipeline).values())


def _carry(url: str, made: Callable[[str], Pipeline], kills: Path | None, name: str, *given: Any) -> None:
    """Process batches as a run that gets the master from settings alone. With `kills`, a task kills its executor."""
    os.environ |= {"TIDEGATE_SPARK_MASTER": url, "TIDEGATE_SPARK_SECRET": SECRET_OF_TESTS, "SPARK_LOCAL_IP": LOCALHOST}
    offsets.MESSAGES_WORTH_A_TASK = 600  # so that each partition has a task of its own
    mouth = next(item for item in given if isinstance(item, Connection))
    world = World(connection(), lambda: start_session(spark_config()))
    act, happened = (partial(_kill_own_executor, kills), kills) if kills else (_nothing, Path(os.devnull))
    try:
        for batch in play(world, made(name), within_a_range(act, happened)):
            mouth.send(("batch", str(batch.messages), str(batch.dead_letters)))
        mouth.send(("done",))
    except TidegateError as error:
        mouth.send(("failed", type(error).__name__, str(error)))
    finally:
        if (running := SparkSession.getActiveSession()) is not None:
            running.stop()


def _kill_own_executor(killed: Path) -> None:
    """Write the pid of the executor's parent process, and kill the executor, from within a task."""
    above = psutil.Process().parents()
    executor = next(one for one in above if "CoarseGrainedExecutorBackend" in " ".join(one.cmdline()))
    killed.write_text(str(executor.ppid()))
    executor.kill()


def _nothing() -> None:
    pass
