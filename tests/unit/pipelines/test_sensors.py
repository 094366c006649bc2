"""The sensor's requests for runs, and their pipelines."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf

import dagster as dg
import pytest
from dagster import AssetKey, DagsterRun
from dagster._core.storage.tags import TagType, get_tag_type
from dagster._utils.tags import is_valid_tag_key

from platform_defs.contract.model.contract import Limits
from platform_defs.dagster.keys import (
    BESIDE,
    DEFINITIONS,
    DRAIN_JOB,
    FAILED,
    PIPELINE_TAG,
    STARTED_FOR,
)
from platform_defs.dagster.run_session import TAG
from platform_defs.dagster.runs import scheduled, selected
from platform_defs.ledger.answers import PipelineStatus
from platform_defs.offsets import PartitionView, Position, TopicView
from platform_defs.pipelines.scheduler.handover import HANDOVER, READY, SHIFT, ScheduledRun
from platform_defs.pipelines.scheduler.waiting import Seen, Waiting
from platform_defs.pipelines.sensors import MOST, STARVED, STUCK, Working, start
from platform_defs.settings.contracts import find_contract
from tests.support.world import renamed

PAGE_VIEWS = find_contract("web_page_views")
LATENCY = 30.0
NOW = 10_000.0


def seen(name: str, *, held: bool = False) -> Seen:
    """Return a pipeline with three unread messages."""
    contract = replace(renamed(PAGE_VIEWS, name), limits=Limits(lag_messages=1_000, lag_seconds=LATENCY))
    view = TopicView(name, "cluster", "topic", {0: PartitionView(0, 3)})
    return Seen(contract, PipelineStatus(name, has_run=True, held=held), [Position(0, "cluster", "topic", 0)], view)


AT_WORK = ScheduledRun("r", 200.0, "digest")  # started by the sensor, and warm


def asked(
    pipelines: Sequence[Seen],
    waited: dict[str, float],
    *runs: ScheduledRun,
    by_hand: Sequence[str] = (),
    idle: float = 0.0,
) -> tuple[Sequence[dg.RunRequest], str]:
    """Return the run requests and the reason if there is none; `waited`: seconds, by pipeline."""
    waits = {name: Waiting(NOW - seconds, 0) for name, seconds in waited.items()}
    working = Working(len(runs) + len(by_hand), frozenset(by_hand), runs, "digest", idle)
    found = start(pipelines, waits, working, 2, NOW)
    return ([], found) if isinstance(found, str) else ([found], "")


def test_one_run_is_asked_for_all_that_is_due_the_oldest_first_and_without_checks() -> None:
    pipelines = [seen("young"), seen("old"), seen("not_yet")]
    ((request,), _) = asked(pipelines, {"young": 31.0, "old": 300.0, "not_yet": 3.0})
    assert request.asset_selection == [AssetKey(["old", "page_views"]), AssetKey(["young", "page_views"])]
    assert request.asset_check_keys == []
    assert PIPELINE_TAG not in request.tags
    assert request.tags[DEFINITIONS] == "digest"


def test_a_run_is_asked_for_a_few_and_finds_the_others_itself() -> None:
    names = [f"p{n}" for n in range(200)]
    ((request,), _) = asked([seen(name) for name in names], {name: 100.0 + n for n, name in enumerate(names)})
    assert len(request.asset_selection or []) == MOST
    assert (request.asset_selection or [])[0] == AssetKey(["p199", "page_views"])
    assert len(request.tags[STARTED_FOR]) <= 1_000


@pytest.mark.parametrize(("waited", "idle"), [(1.0, STUCK + 1), (STUCK + 1, 1.0)])
def test_what_becomes_due_is_left_to_the_run_that_is_at_work_and_commits(waited: float, idle: float) -> None:
    requests, why = asked([seen("p")], {"p": LATENCY + waited}, AT_WORK, idle=idle)
    assert not requests
    assert "the current run will read" in why


@pytest.mark.parametrize(("waited", "idle"), [(STUCK + 1, STUCK + 1), (STARVED + 1, 1.0)])
def test_another_run_is_asked_for_where_the_one_at_work_is_stuck(waited: float, idle: float) -> None:
    assert len(asked([seen("p")], {"p": LATENCY + waited}, AT_WORK, idle=idle)[0]) == 1


@pytest.mark.parametrize("age", [0.0, READY - 1])
def test_a_run_that_is_about_to_start_or_has_just_started_is_not_stuck(age: float) -> None:
    assert not asked([seen("p")], {"p": 5_000.0}, ScheduledRun("r", age, "digest"), idle=inf)[0]


def test_a_pipeline_whose_back_off_has_just_ended_does_not_wait_for_a_run_that_is_stuck() -> None:
    failed = seen("p")
    failed = replace(failed, status=replace(failed.status, retry_at=datetime.fromtimestamp(NOW - 5, UTC)))
    assert not asked([failed], {"p": 5_000.0}, AT_WORK, idle=inf)[0]


def test_another_run_is_asked_for_where_the_one_at_work_has_earlier_definitions() -> None:
    requests, _ = asked([seen("p")], {"p": LATENCY + 1}, ScheduledRun("r", 200.0, "earlier"))
    assert len(requests) == 1


def test_a_run_by_hand_takes_nothing_up_so_that_another_is_asked_for() -> None:
    assert len(asked([seen("p")], {"p": LATENCY + 1}, by_hand=["other"])[0]) == 1


def test_no_run_is_asked_for_while_as_many_as_may_be_are_at_work() -> None:
    requests, why = asked([seen("p")], {"p": 5_000.0}, AT_WORK, by_hand=["other"])
    assert not requests
    assert why == "p is due, but no more runs may start: 2 in progress"


def test_what_is_held_or_asked_for_by_hand_is_not_asked_for() -> None:
    requests, why = asked([seen("held", held=True), seen("wanted")], {"held": 99.0, "wanted": 99.0}, by_hand=["wanted"])
    assert not requests
    assert "held: in use by a run" in why
    assert "wanted: a manually started run reads it" in why


def test_a_run_is_the_sensors_by_its_tag_and_a_persons_where_it_is_executed_again() -> None:
    assert scheduled(DagsterRun(job_name=DRAIN_JOB, tags={STARTED_FOR: "something due"}))
    assert not scheduled(DagsterRun(job_name=DRAIN_JOB))
    again = DagsterRun(
        job_name=DRAIN_JOB,
        tags={STARTED_FOR: "something due"},
        root_run_id="3f0e4c5e-0000-4000-8000-000000000000",
        parent_run_id="3f0e4c5e-0000-4000-8000-000000000000",
    )
    assert not scheduled(again)


def test_a_run_is_of_each_pipeline_of_which_it_selects_a_table() -> None:
    both = [renamed(find_contract("bank_transfers"), "bank"), renamed(PAGE_VIEWS, "web")]
    balances = frozenset([AssetKey(["bank", "balances"])])
    assert selected(DagsterRun(job_name="__ASSET_JOB"), both) == ["bank", "web"]  # nothing selected is everything
    assert selected(DagsterRun(job_name="__ASSET_JOB", asset_selection=balances), both) == ["bank"]
    assert selected(DagsterRun(job_name="verify"), both) == []


def test_the_next_run_is_asked_for_before_the_shift_of_the_last_one_is_over_and_warms_up_beside_it() -> None:
    due = {"a": LATENCY + 1}
    assert asked([seen("a")], due, AT_WORK)[0] == []
    ((request,), _) = asked([seen("a")], due, ScheduledRun("r", SHIFT - HANDOVER + 1, "digest"))
    assert request.tags[BESIDE] == "r"


def test_tags_for_programs_are_hidden_in_the_ui_and_tags_for_people_are_not() -> None:
    assert {get_tag_type(tag) for tag in (DEFINITIONS, BESIDE, TAG)} == {TagType.HIDDEN}
    assert {get_tag_type(tag) for tag in (STARTED_FOR, PIPELINE_TAG, FAILED)} == {TagType.USER_PROVIDED}
    assert all(map(is_valid_tag_key, (DEFINITIONS, BESIDE, TAG)))
