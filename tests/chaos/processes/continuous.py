"""Runs that stay for a pipeline of low latency: killed while busy, or without the servers that they need."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dagster import DagsterInstance, RunsFilter
from pyspark.sql import SparkSession

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.keys import CONTINUOUS, LEAVE, STARTED_FOR
from platform_defs.pipelines.sensors import IT_STAYS
from platform_defs.settings.settings import PROJECT_ROOT
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack import postgres_server as postgres
from platform_defs.stack import stack
from tests.chaos.processes.dagster import reported
from tests.chaos.processes.kills import Trickle
from tests.chaos.runs import Run, joined, limited, shipped
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.dagster_runs import execute_continuously, table_keys
from tests.support.waiting import BOUND, wait_for
from tests.support.world import KeptSpark, World, transfers

RUN_IDS = "select run_id from tidegate.batch where pipeline = %s"
FOR_GOOD = {STARTED_FOR: "its latency", CONTINUOUS: IT_STAYS}


@scenario(FaultClass.RUN_KILLED)
def continuous_run_killed_at_random_moments(chaos: Chaos) -> Verdict:
    """The next one takes over, and reports what its predecessor had committed but not yet reported."""
    world, pipeline = chaos.world, chaos.world.new_pipeline(batch_messages=2_000, lag_seconds=1.0)
    world.ledger.migrate()
    with DagsterInstance.from_config(str(PROJECT_ROOT)) as instance:
        with Trickle(world, pipeline):
            for _ in range(chaos.kills):
                run = Run(pipeline, play=play_continuous, spark=world.spark())
                before = batches_of(world, pipeline)
                wait_for(lambda before=before: batches_of(world, pipeline) > before + 1)
                time.sleep(chaos.random.uniform(0, 1.2))  # a moment that nothing announces
                assert run.process.is_alive(), "the run ended by itself"
                run.kill()
        with staying(instance, pipeline):
            wait_for(lambda: not world.ledger.unreported(pipeline.contract))
        replies = sum(item["messages"] for item in reported(instance, table_keys(pipeline)[0]))
    (row,) = world.rows("select sum(messages)::int as n from tidegate.batch where pipeline = %s", pipeline.name)
    assert replies >= row["n"]  # after a kill between an event and its record, it is reported again
    return chaos.judge(pipeline, chaos.kills, "the next run continues, and reports what was not reported")


@scenario(FaultClass.POSTGRES_DOWN)
def Postgres_and_Kafka_away_for_random_seconds_beside_a_continuous_run(chaos: Chaos) -> Verdict:
    """The same run goes on once they are back, and ends well."""
    world, pipeline = chaos.world, chaos.world.new_pipeline(lag_seconds=1.0)
    servers, sent = (postgres, kafka), 80
    world.send(pipeline, transfers(sent))
    with DagsterInstance.from_config(str(PROJECT_ROOT)) as instance, staying(instance, pipeline) as ended:
        wait_for(lambda: _read(world, pipeline) == sent)
        for server in servers:
            server.stop(stack.status().home)
            time.sleep(chaos.random.uniform(1, 8))  # in which the run finds that nothing responds
            stack.up()
            world.send(pipeline, transfers(80, start=sent))
            sent += 80
            wait_for(lambda sent=sent: _read(world, pipeline) == sent)
    assert ended[0].success
    assert len({row["run_id"] for row in world.rows(RUN_IDS, pipeline.name)}) == 1
    assert world.ledger.unreported(pipeline.contract) == []
    return chaos.judge(pipeline, len(servers), "the same run continues")


def play_continuous(
    name: str, batch_messages: int, _point: None, _how: str, _forever: bool, _mouth: Any, gateway: Any
) -> None:
    """Stay for the pipeline until killed, in the process of a continuous run."""
    pipeline = limited(shipped(name), batch_messages, lag_seconds=1.0)
    session = joined(gateway)

    class Joined(KeptSpark):
        def session(self) -> SparkSession:
            return session

    with DagsterInstance.from_config(str(PROJECT_ROOT)) as instance:
        execute_continuously(instance, pipeline, tags=FOR_GOOD, spark=Joined())


@contextmanager
def staying(instance: DagsterInstance, *pipelines: Pipeline) -> Iterator[Any]:
    """Run continuously for these pipelines in a thread of this process. The run exists when the block begins, and must
    leave at its end; then the yielded list has its result.
    """
    results: list[Any] = []
    tags = {**FOR_GOOD, "test": pipelines[0].name}

    def run() -> None:
        results.append(execute_continuously(instance, *pipelines, tags=tags))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ours = RunsFilter(tags={"test": pipelines[0].name})
    try:
        wait_for(lambda: instance.get_runs(ours))
        yield results
    finally:
        for one in instance.get_runs(ours):
            instance.add_run_tags(one.run_id, {LEAVE: "a test asks for it"})
        thread.join(BOUND)
    assert results, "the run did not end within a minute after it was asked to leave"


def _read(world: World, pipeline: Pipeline) -> int:
    return sum(world.position(pipeline).values())


def batches_of(world: World, pipeline: Pipeline) -> int:
    (row,) = world.rows("select count(*) as n from tidegate.batch where pipeline = %s", pipeline.name)
    return row["n"]
