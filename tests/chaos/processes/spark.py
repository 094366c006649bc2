"""Faults of Spark: a task is retried, runs twice at once, or loses its process."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from platform_defs import offsets
from platform_defs.engine.batch import drain
from platform_defs.settings.contracts import find_pipeline
from platform_defs.stack.endpoints import connection
from tests.chaos.processes.clusters import executors, start_cluster
from tests.chaos.processes.stragglers import LateCopy
from tests.chaos.runs import Run, play_run
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.waiting import wait_for_row
from tests.support.world import World, declassified, renamed, transfers


@scenario(FaultClass.TASK_REPEATED, representative=True)
def task_that_dies_is_tried_again(chaos: Chaos) -> Verdict:
    """Another attempt, in another worker, gives the rows; nothing of the dead one's is there."""
    world, pipeline = chaos.world, chaos.world.new_pipeline()
    with tempfile.TemporaryDirectory() as folder:
        flag = Path(folder, "died")
        dying = replace(pipeline, transform=_dying(pipeline.transform, str(flag)))
        world.send(pipeline, [*transfers(39), b"hello"])
        (batch,) = world.drain(dying)
        assert flag.exists(), "no worker died"
    assert (batch.messages, batch.rows, batch.dead_letters) == (40, 78, 1)
    return chaos.judge(pipeline, 1, "tried again")


@scenario(FaultClass.TASK_REPEATED)
def speculative_copies(chaos: Chaos) -> Verdict:
    """Two copies of a task read the same range, and both COPY it; the rows and dead letters of one are published."""
    pipeline = chaos.world.new_pipeline()
    chaos.world.send(pipeline, [*transfers(80), b"not json"])
    run = Run(pipeline, play=_speculate)
    assert run.end() == ("done",), run.words
    answer = {word[0]: word[1:] for word in run.words}
    assert answer["staged"] == ("5 coverages", "5 attempts", "40 rows of partition 0 twice", "2 dead letters"), answer
    assert len(chaos.world.table(pipeline)) == 160
    return chaos.judge(pipeline, 1, "published once")


@scenario(FaultClass.TASK_REPEATED)
def executor_killed_in_the_middle_of_COPY(chaos: Chaos) -> Verdict:
    """Its tasks run again on the other executor; what its orphaned worker may still COPY is not published."""
    pipeline = chaos.world.new_pipeline()
    chaos.world.send(pipeline, [*transfers(2_000), b"not json"])
    run = Run(pipeline, "in_copy", "STOP", play=_on_a_cluster)
    run.wait_until_stopped()
    both = executors(psutil.Process(run.process.pid))
    assert len(both) == 2
    orphans = both[0].children(recursive=True)
    both[0].kill()  # a zombie then: its parent, which would reap it, is stopped
    assert orphans, "the executor had no Python worker: it was not in the middle of anything"
    for one in orphans:
        one.resume()
    assert run.end() == ("done",), run.words
    assert [word[0] for word in run.words] == ["ready", "batch", "done"]
    return chaos.judge(pipeline, 1, "its tasks ran again")


def _dying(transform: Any, flag: str) -> Any:
    """Return `transform`, changed so that the first worker to reach a row dies."""

    def die_once(account: str) -> str:
        if not os.path.exists(flag):
            Path(flag).touch()
            os._exit(1)
        return account

    return lambda messages: transform(messages).withColumn("account", F.udf(die_once, "string")("account"))


def _on_a_cluster(*given: Any) -> None:
    offsets.MESSAGES_WORTH_A_TASK = 600  # so that each partition has a task of its own, and each executor two
    with _stopped_at_the_end():
        play_run(*given, session=start_cluster)


def _speculate(name: str, *given: Any) -> None:
    """Run with a late first copy of the first task. Reports what is staged before it is published."""
    mouth = next(item for item in given if isinstance(item, Connection))
    found = find_pipeline("bank_transfers")
    pipeline = replace(found, contract=renamed(declassified(found.contract), name))
    offsets.MESSAGES_WORTH_A_TASK = 21  # so that each partition has a task of its own, and only one of them is late
    eager = {"spark_speculation": "true", "spark_speculation_quantile": "0.25", "spark_speculation_multiplier": "1.1"}
    world = World(connection(), lambda: start_cluster(**eager))
    with _stopped_at_the_end(), world.open_run(pipeline) as context:
        for batch in drain(pipeline, replace(context, ledger=_Straggling(context.ledger, world, mouth))):
            mouth.send(("batch", str(batch.batch_id)))
        mouth.send(("done",))


@contextmanager
def _stopped_at_the_end() -> Iterator[None]:
    try:
        yield
    finally:
        if (running := SparkSession.getActiveSession()) is not None:
            running.stop()


class _Straggling:
    """A run's ledger whose staging areas have a late copy, for which publish waits."""

    def __init__(self, ledger: Any, world: World, mouth: Connection) -> None:
        self._ledger, self._world, self._mouth = ledger, world, mouth

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def open_staging(self, pending: Any) -> LateCopy:
        return LateCopy(self._ledger.open_staging(pending))

    def publication(self, staged: Any, **how: Any) -> Any:
        rows, here = self._world.staging_table(staged.staging_id), f"WHERE staging_id = {staged.staging_id}"
        url = self._world.endpoints.postgres_url
        wait_for_row(url, f"SELECT 1 FROM {rows} WHERE _partition = 0 HAVING count(DISTINCT _attempt) = 2")
        asked = {
            "coverages": f"SELECT count(*) AS n FROM tidegate_staging.coverage {here}",
            "attempts": f"SELECT count(DISTINCT _attempt) AS n FROM {rows}",
            "rows of partition 0 twice": f"SELECT count(*) / 2 AS n FROM {rows} WHERE _partition = 0",
            "dead letters": f"SELECT count(*) AS n FROM tidegate_staging.dead_letter {here}",
        }
        counted = [f"{self._world.rows(query)[0]['n']} {name}" for name, query in asked.items()]
        self._mouth.send(("staged", *counted))
        return self._ledger.publication(staged, **how)
