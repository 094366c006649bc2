"""Dagster, killed piece by piece: a run between commit and report, the daemon, the web server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dagster import AssetKey, DagsterInstance, DagsterRunStatus

from platform_defs import offsets
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.run_session import runs_with_session
from platform_defs.dagster.runs import unfinished
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.settings.contracts import find_pipeline
from platform_defs.settings.settings import PROJECT_ROOT, settings
from platform_defs.stack import dagster_dev as ui
from tests.chaos.runs import Run
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.dagster_runs import execute, table_keys, with_rule_renamed
from tests.support.waiting import BOUND, wait_for
from tests.support.world import World, transfers

DAGSTER = Path(sys.executable).parent / "dagster"
DAEMON, WEB_SERVER = "dagster._daemon", "dagster_webserver"  # the modules that they run
DUE = 10_000  # messages: enough to make the sensor start a run at once


@scenario(FaultClass.DAGSTER_KILLED, representative=True)
def run_killed_before_it_reported(chaos: Chaos) -> Verdict:
    """The next run marks it as failed and reports its batch, once."""
    world, pipeline = chaos.world, _page_views(chaos.world)
    with DagsterInstance.from_config(str(PROJECT_ROOT)) as instance:
        world.send(pipeline, views(DUE))
        killed = _killed_between_commit_and_telling(world, pipeline, instance)
        (batch,) = world.ledger.unreported(pipeline.contract)
        world.send(pipeline, views(10))
        assert execute(instance, pipeline).success
        assert instance.get_run_by_id(killed).is_failure  # pyright: ignore[reportOptionalMemberAccess]
        _assert_told_once(world, pipeline, instance, batch.batch_id)
    return chaos.judge(pipeline, 1, "reported by the next run; nothing written again")


@scenario(FaultClass.DAGSTER_KILLED)
def Dagsters_daemon_and_web_server_killed(chaos: Chaos) -> Verdict:
    """In the middle of a run: restarted, they report what was not reported, once."""
    world, pipeline = chaos.world, _page_views(chaos.world)
    with DagsterInstance.from_config(str(PROJECT_ROOT)) as instance, _dagster_down_at_the_end():
        world.send(pipeline, views(DUE))
        _killed_between_commit_and_telling(world, pipeline, instance)
        (first,) = world.ledger.unreported(pipeline.contract)
        for pieces in [[DAEMON], [WEB_SERVER]] if chaos.kills > 2 else [[DAEMON, WEB_SERVER]]:  # each start takes long
            world.send(pipeline, views(DUE))
            ui.up(lambda _: None)
            # It has reported what the killed run could not: a kill during that would have it reported twice.
            wait_for(lambda: _alive(world, instance) and not world.ledger.unreported(pipeline.contract))
            _kill(pieces)
        world.send(pipeline, views(DUE))
        ui.up(lambda _: None)
        wait_for(lambda: _lag(world, pipeline) == 0 and not unfinished(instance, world.ledger.ledger_id()))
        _assert_told_once(world, pipeline, instance, first.batch_id)
    return chaos.judge(pipeline, 3, "reported once they run again; nothing written again")


def _assert_told_once(world: World, pipeline: Pipeline, instance: DagsterInstance, batch_id: int) -> None:
    """Assert that Dagster has every batch of the ledger, and this one once."""
    ids = Counter(int(item["batch_id"]) for item in reported(instance, AssetKey(["web", "page_views"])))
    committed = world.rows("select batch_id from tidegate.batch where pipeline = %s", pipeline.name)
    assert set(ids) == {row["batch_id"] for row in committed}
    assert ids[batch_id] == 1, ids
    assert world.ledger.unreported(pipeline.contract) == []


@scenario(FaultClass.CONTRACT_CHANGED)
def a_rule_renamed_after_a_run_was_killed(chaos: Chaos) -> Verdict:
    """Killed after COMMIT and before Dagster was notified: the next run reports the batch with a check that Dagster no
    longer knows, and goes on.
    """
    world, pipeline = chaos.world, chaos.world.new_pipeline()
    world.send(pipeline, transfers(800))
    run = Run(pipeline, "after_commit", spark=chaos.spark_for("after_commit"))
    run.process.join(BOUND)
    assert run.process.exitcode == -signal.SIGKILL, run.words
    assert len(world.ledger.unreported(pipeline.contract)) == 1
    world.send(pipeline, transfers(400, start=800))
    renamed = with_rule_renamed(pipeline, "postings_sum_to_zero", "debits_equal_credits")
    with DagsterInstance.from_config(str(PROJECT_ROOT)) as instance:
        assert execute(instance, renamed).success
        assert sorted(item["messages"] for item in reported(instance, table_keys(pipeline)[0])) == [400, 800]
    assert world.ledger.unreported(pipeline.contract) == []
    return chaos.judge(renamed, 1, "both batches reported")


def _page_views(world: World) -> Pipeline:
    """Return the shipped pipeline, the only one that a process of Dagster knows; create its topic if it is missing."""
    pipeline = find_pipeline("web_page_views")
    if pipeline.contract.topic not in world.admin().list_topics(timeout=10).topics:
        world.create_topic(pipeline.contract.topic)
    return pipeline


@contextmanager
def _dagster_down_at_the_end() -> Iterator[None]:
    try:
        yield
    finally:
        ui.down()
    assert ui.running(settings().home) == []


def _alive(world: World, instance: DagsterInstance) -> set[str]:
    """Return the ids of the runs that are alive now."""
    ledger_id = world.ledger.ledger_id()
    return runs_with_session(world.ledger, [item.dagster_run.run_id for item in unfinished(instance, ledger_id)])


def _killed_between_commit_and_telling(world: World, pipeline: Pipeline, instance: DagsterInstance) -> str:
    """Kill a materialization on the command line once its batch is committed; return its run id. It stays STARTED."""
    command = f"TIDEGATE_CRASH_POINT=after_commit:$$:KILL exec {DAGSTER} asset materialize --select web/page_views"
    run = subprocess.Popen(
        ["bash", "-c", f"{command} -m platform_defs.definitions"],
        cwd=PROJECT_ROOT,
        start_new_session=True,
        env={**os.environ, "DAGSTER_HOME": str(PROJECT_ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert run.wait(180) == -signal.SIGKILL
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)  # its Spark as well
    (status,) = world.rows("select run_id from tidegate.pipeline where name = %s", pipeline.name)
    wait_for(lambda: not runs_with_session(world.ledger, [status["run_id"]]))
    record = instance.get_run_by_id(status["run_id"])
    assert record is not None
    assert record.status == DagsterRunStatus.STARTED  # and would be for ever
    return record.run_id


def _kill(modules: list[str]) -> None:
    """Kill the `dagster dev` processes that run these modules (SIGKILL); without them, the others end, or `up` ends
    them.
    """
    found = [process for process in ui.running(settings().home) if any(_runs(process, module) for module in modules)]
    assert len(found) == len(modules), found
    for process in found:
        process.kill()
    wait_for(lambda: ui.status().url is None)


def _runs(process: Any, module: str) -> bool:
    return any(part.startswith(module) for part in process.cmdline()[1:4])


def _lag(world: World, pipeline: Pipeline) -> int:
    view = KafkaBroker(world.endpoints.kafka_options()).describe(pipeline.contract.topic)
    return sum(offsets.lag(world.ledger.positions(pipeline.name), view).values())


def reported(instance: DagsterInstance, key: AssetKey) -> list[dict[str, Any]]:
    """Return the metadata of every materialization of an asset in Dagster, newest first."""
    records = instance.fetch_materializations(key, limit=1_000).records  # Dagster requires a limit
    events = [record.asset_materialization for record in records]
    return [{name: value.value for name, value in event.metadata.items()} for event in events if event]


def views(count: int) -> list[bytes]:
    """Return `count` valid page views."""
    start = time.time_ns()
    return [
        json.dumps(
            {
                "event_id": f"e-{start}-{n}",
                "visitor": "v1",
                "url": "https://example.org/",
                "viewed_at": "2026-11-01T10:00:00Z",
            }
        ).encode()
        for n in range(count)
    ]
