"""The session that shows that a run's process is alive: lost and reopened, or gone for good."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import dagster as dg
import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus

from platform_defs.dagster.run_session import LEDGER_TAG, PREFIX, TAG, RunSession
from platform_defs.dagster.runs import report_dead
from platform_defs.pipelines.scheduler.survey import Survey
from tests.support.postgres.databases import new_database
from tests.support.waiting import wait_for_row
from tests.support.world import World

END = "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as found:
        yield found


@pytest.fixture
def live_runs(world: World) -> Iterator[Callable[[Iterable[str]], set[str]]]:
    with closing(Survey(world.endpoints)) as survey:
        yield survey.live_runs


def test_a_session_that_postgres_ends_is_opened_again_and_its_run_is_not_taken_for_dead(
    world: World, instance: DagsterInstance, live_runs: Callable[[Iterable[str]], set[str]]
) -> None:
    def lose_it(run_id: str) -> None:
        for _ in range(2):
            (ended,) = world.rows(END, PREFIX + run_id)
            other = f"application_name = '{PREFIX}{run_id}' AND pid <> {ended['pid']}"
            wait_for_row(world.endpoints.postgres_url, f"SELECT 1 FROM pg_stat_activity WHERE {other}")
        answers = iter([set[str]()])  # the first query comes just while it is lost
        assert report_dead(instance, lambda ids: next(answers, None) or live_runs(ids), [], None) == []
        assert live_runs([run_id]) == {run_id}

    ended = _in_a_run(instance, lose_it)
    assert ended.success
    assert live_runs([ended.run_id]) == set()


@pytest.mark.slow
def test_a_run_whose_session_stays_away_is_reported_as_failed(
    instance: DagsterInstance, live_runs: Callable[[Iterable[str]], set[str]]
) -> None:
    run = DagsterRun("drain", run_id=str(uuid4()), status=DagsterRunStatus.STARTED, tags={TAG: "open"})
    instance.add_run(run)
    assert report_dead(instance, live_runs, [], None) == [run.run_id]
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status == DagsterRunStatus.FAILURE


def test_a_run_of_another_ledger_in_the_same_instance_is_not_reported_as_failed(
    world: World, instance: DagsterInstance
) -> None:
    contract = world.new_pipeline("append").contract

    def report_from_another_ledger(run_id: str) -> None:
        with (
            new_database(world.endpoints.postgres_url) as url,
            closing(Survey(replace(world.endpoints, postgres_url=url))) as survey,
        ):
            survey.ledger.migrate()
            other = survey.ledger_id()
        # On a server of its own it would see no session of this run.
        assert report_dead(instance, lambda _: set(), [contract], other) == []
        run = instance.get_run_by_id(run_id)
        assert run
        assert run.tags[LEDGER_TAG] == world.ledger.ledger_id() != other

    assert _in_a_run(instance, report_from_another_ledger).success


CRASHES = """
import logging, os, signal
from dagster import DagsterInstance
from platform_defs.offsets import READING
from tests.integration.dagster.test_run_session import _in_a_run

def crash(run_id):
    logging.getLogger(READING).info("partition %d of %s, from offset %d", 3, "t", 70)
    os.kill(os.getpid(), signal.SIGSEGV)

with DagsterInstance.ephemeral() as instance:
    _in_a_run(instance, crash)
"""


@pytest.mark.longest
def test_a_run_that_a_library_crashes_leaves_on_stderr_what_it_was_reading(world: World) -> None:
    done = subprocess.run([sys.executable, "-c", CRASHES], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGSEGV, done.stderr
    _, read, stack = done.stderr.partition("partition 3 of t, from offset 70\n")
    assert read
    assert "Fatal Python error: Segmentation fault" in stack
    assert "in crash" in stack


def _in_a_run(instance: DagsterInstance, play: Callable[[str], None]) -> dg.ExecuteInProcessResult:
    """Run a Dagster run with its session, which calls `play` with its id."""

    @dg.op
    def playing(context: dg.OpExecutionContext, run_session: RunSession) -> None:  # it is open meanwhile
        play(context.run_id)

    @dg.job(resource_defs={"run_session": RunSession()})
    def plays() -> None:
        playing()

    return plays.execute_in_process(instance=instance)
