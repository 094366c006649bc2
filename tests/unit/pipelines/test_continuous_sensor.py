"""The sensor keeps one continuous run alive: when it starts the next, and when one must leave."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import Any

import dagster as dg
import pytest

from platform_defs.contract.model.contract import Contract, Limits
from platform_defs.dagster.keys import (
    BESIDE,
    CONTINUOUS,
    CONTINUOUS_JOB,
    CONTINUOUS_OP,
    DEFINITIONS,
    LEAVE,
    STARTED_FOR,
    job_tag,
)
from platform_defs.dagster.run_session import LEDGER_TAG
from platform_defs.dagster.runs import dead, selected
from platform_defs.ledger.answers import PipelineState, PipelineStatus
from platform_defs.offsets import PartitionView, Position, TopicView
from platform_defs.pipelines.drain import ends_with, other_runs
from platform_defs.pipelines.scheduler.handover import HANDOVER, READY, SHIFT, ScheduledRun, beside, to_leave
from platform_defs.pipelines.scheduler.waiting import Seen, Waiting
from platform_defs.pipelines.sensors import (
    FIRST_PAUSE,
    IT_STAYS,
    LASTED,
    STARVED,
    Working,
    keep_one,
    look,
    pause_after,
    restart_pause,
)
from platform_defs.settings.contracts import find_contract
from tests.support.world import renamed

PAGE_VIEWS = find_contract("web_page_views")
NOW = 10_000.0
OURS = "8f1f0c5e-0000-4000-8000-000000000000"  # the ledger


def seen(name: str, *, state: PipelineState = "active", unread: int = 3) -> Seen:
    contract = replace(renamed(PAGE_VIEWS, name), limits=Limits(lag_seconds=1.0))
    view = TopicView(name, "cluster", "topic", {0: PartitionView(0, unread)})
    status = PipelineStatus(name, has_run=True, state=state)
    return Seen(contract, status, [Position(0, "cluster", "topic", 0)], view)


def kept(
    pipelines: Sequence[Seen], *runs: ScheduledRun, pause: float = 0.0, waited: float = 1.0, idle: float = 0.0
) -> Sequence[dg.RunRequest]:
    waits = {item.contract.pipeline: Waiting(NOW - waited, 0) for item in pipelines}
    found = keep_one(pipelines, waits, Working(len(runs), frozenset(), runs, "digest", idle), lambda: pause, NOW)
    return [found] if isinstance(found, dg.RunRequest) else []


STAYS = ScheduledRun("r", READY + 1, "digest")


def test_a_run_is_kept_though_nothing_is_unread() -> None:
    both = [seen("a", unread=0), seen("b", unread=0)]
    (request,) = kept(both)
    assert CONTINUOUS in request.tags
    assert request.job_name == CONTINUOUS_JOB
    run = dg.DagsterRun(CONTINUOUS_JOB, run_config=request.run_config, tags=job_tag(CONTINUOUS_JOB, ()))
    assert selected(run, [item.contract for item in both]) == ["a", "b"]
    assert kept([seen("a")], STAYS) == []
    assert kept([]) == []


@pytest.mark.parametrize("run", [replace(STAYS, age=SHIFT - HANDOVER + 1), replace(STAYS, spent=True)])
def test_the_next_one_warms_up_beside_one_whose_time_or_budget_is_over(run: ScheduledRun) -> None:
    (request,) = kept([seen("a")], run)
    assert request.tags[BESIDE] == "r"
    assert kept([seen("a")], run, replace(STAYS, run_id="next")) == []
    assert to_leave([run, replace(STAYS, run_id="next")], "digest").keys() == {"r"}
    assert to_leave([run, replace(STAYS, run_id="next", age=READY - 1)], "digest") == {}


@pytest.mark.parametrize("run", [replace(STAYS, definitions="earlier"), replace(STAYS, leaving=True)])
def test_the_next_one_is_started_at_once_where_one_is_outdated_or_was_asked_to_leave(run: ScheduledRun) -> None:
    (request,) = kept([seen("a")], run)
    assert BESIDE not in request.tags
    assert beside([run], "digest") == []


def test_none_is_started_for_pipelines_that_are_all_halted() -> None:
    assert kept([seen("a", state="halted")]) == []
    assert len(kept([seen("a", state="halted"), seen("b")])) == 1


def test_one_more_is_started_where_the_one_that_is_there_hangs_and_never_a_third() -> None:
    assert kept([seen("a")], STAYS, waited=STARVED + 5, idle=inf)
    assert not kept([seen("a")], STAYS, replace(STAYS, run_id="too"), waited=STARVED + 5, idle=inf)


def test_runs_that_fail_at_once_are_started_again_after_a_pause_that_grows() -> None:
    assert kept([seen("a")], pause=5.0) == []
    assert pause_after([], NOW) == 0.0
    assert pause_after([(NOW - 20, NOW)], NOW) == FIRST_PAUSE
    assert pause_after([(NOW - 20, NOW)] * 3, NOW) == 4 * FIRST_PAUSE
    assert pause_after([(NOW - 20, NOW - 50)], NOW) == 0.0
    assert pause_after([(NOW - LASTED - 1, NOW), (NOW - 20, NOW)], NOW) == 0.0


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as found:
        yield found


def added(
    instance: dg.DagsterInstance, status: dg.DagsterRunStatus, definitions: str = "digest", ledger_id: str = OURS
) -> dg.DagsterRun:
    tags = {STARTED_FOR: "its latency", CONTINUOUS: IT_STAYS, DEFINITIONS: definitions, LEDGER_TAG: ledger_id}
    config = {"ops": {CONTINUOUS_OP: {"config": {"pipelines": ["a"]}}}}
    run = dg.DagsterRun(CONTINUOUS_JOB, run_config=config, status=status, tags=tags)
    instance.add_run(run)
    return run


def test_runs_that_fail_before_they_start_are_started_again_after_a_pause_too(instance: dg.DagsterInstance) -> None:
    for _ in range(3):
        instance.report_run_failed(added(instance, dg.DagsterRunStatus.STARTING), "the process did not start")
    assert 2 * FIRST_PAUSE < restart_pause(instance, OURS, "digest", time.time()) <= 4 * FIRST_PAUSE
    assert restart_pause(instance, OURS, "changed", time.time()) == 0.0
    assert restart_pause(instance, "another", "digest", time.time()) == 0.0


class Look:
    """A survey of one pipeline of low latency."""

    def __init__(self) -> None:
        self.ledger = self

    def ledger_id(self) -> str:
        return OURS

    def live_runs(self, run_ids: Iterable[str]) -> set[str]:
        return set(run_ids)

    def look(self, _: Sequence[Contract]) -> list[Seen]:
        return [seen("a")]

    def seconds_since_commit(self, _: Sequence[str]) -> float:
        return 0.0


def test_runs_that_fail_at_once_are_started_after_a_pause_also_while_an_earlier_one_leaves(
    instance: dg.DagsterInstance,
) -> None:
    survey: Any = Look()
    contracts = [item.contract for item in survey.look(())]
    added(instance, dg.DagsterRunStatus.STARTED, "before the deployment")
    assert look(instance, contracts, survey, None, "digest").run_requests
    instance.report_run_failed(added(instance, dg.DagsterRunStatus.STARTING), "the process did not start")
    found = look(instance, contracts, survey, None, "digest")
    assert not found.run_requests
    assert "has failed and restarts in" in str(found.skip_reason)


def test_a_run_that_an_older_version_started_is_known_without_the_tag_of_its_job(instance: dg.DagsterInstance) -> None:
    survey: Any = Look()
    contracts = [item.contract for item in survey.look(())]
    run = added(instance, dg.DagsterRunStatus.STARTED)
    found = look(instance, contracts, survey, None, "digest")
    assert not found.run_requests
    assert "a continuous run reads them" in str(found.skip_reason)
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    record = dg.RunRecord(1, run, long_ago, long_ago)
    assert dead([record], set(), contracts, datetime.now(UTC)) == [record]


def test_the_runs_of_another_ledger_are_neither_counted_nor_asked_to_leave(instance: dg.DagsterInstance) -> None:
    survey: Any = Look()
    contracts = [item.contract for item in survey.look(())]
    others = [
        added(instance, dg.DagsterRunStatus.STARTED, definitions, "another") for definitions in ("digest", "changed")
    ]
    (request,) = look(instance, contracts, survey, None, "digest").run_requests or []
    assert request.tags[LEDGER_TAG] == OURS
    assert BESIDE not in request.tags
    for run in others:
        found = instance.get_run_by_id(run.run_id)
        assert found
        assert LEAVE not in found.tags


def test_a_run_that_stays_fails_where_spark_has_ended_before_any_turn_failed() -> None:
    found = ends_with({}, [], spark_ended=True, staying=True)
    assert found is not None
    assert not found.allow_retries
    assert ends_with({}, [], spark_ended=True, staying=False) is None
    assert ends_with({}, ["a"], spark_ended=False, staying=True) is None


def test_a_run_that_dagster_shows_as_ended_leaves_though_nobody_tells_it(instance: dg.DagsterInstance) -> None:
    run = added(instance, dg.DagsterRunStatus.STARTED)
    assert not other_runs(instance, [], run.run_id).superseded
    instance.report_run_failed(run, "its session was gone for a while")
    assert other_runs(instance, [], run.run_id).superseded
