"""The handover of due pipelines from one of the sensor's runs to the next."""

from dataclasses import replace
from pathlib import Path

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, SensorInstigatorData
from dagster._time import get_current_datetime

from platform_defs.contract.model.digest import definitions_digest
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.keys import (
    BESIDE,
    DEFINITIONS,
    DRAIN_JOB,
    LAG_SENSOR,
    LEAVE,
    STARTED_FOR,
    job_tag,
)
from platform_defs.pipelines.drain import other_runs, sensor_waits
from platform_defs.pipelines.scheduler.handover import (
    HANDOVER,
    READY,
    SHIFT,
    ScheduledRun,
    beside,
    scheduled_run,
    to_leave,
)
from platform_defs.pipelines.scheduler.run_policy import OtherRuns
from platform_defs.pipelines.scheduler.waiting import Waiting, to_cursor
from platform_defs.settings.contracts import find_contract
from tests.support.replays import doubled

DRAINS = job_tag(DRAIN_JOB, ())
NOW = 10_000.0
OLD = ScheduledRun("old", SHIFT - HANDOVER + 1, "a")
NEW = ScheduledRun("new", READY - 1, "a")
WARM = replace(NEW, age=READY + 1)


def test_at_the_end_of_its_shift_a_run_leaves_once_the_next_one_is_warm() -> None:
    assert to_leave([OLD], "a") == {}
    assert to_leave([OLD, NEW], "a") == {}
    assert to_leave([OLD, WARM], "a") == {"old": "the next run has taken over"}


def test_two_runs_at_the_end_of_their_shifts_do_not_wait_for_each_other() -> None:
    assert to_leave([OLD, replace(OLD, run_id="too")], "a") == {}


def test_a_run_with_earlier_definitions_leaves_at_once_and_relieves_no_other() -> None:
    assert to_leave([WARM], "b") == {"new": "a contract or transform has changed"}
    assert to_leave([replace(OLD, definitions="b"), WARM], "b").keys() == {"new"}


def test_a_run_of_an_older_version_of_tidegate_works_until_the_end_of_its_shift() -> None:
    assert to_leave([replace(WARM, definitions="")], "b") == {}


def test_a_run_warms_up_beside_one_whose_shift_is_nearly_over_but_not_beside_one_that_hangs() -> None:
    assert beside([OLD], "a") == ["old"]
    assert beside([WARM], "a") == []
    assert beside([replace(OLD, age=SHIFT + 1)], "a") == []
    assert beside([OLD], "b") == []


def test_a_run_that_has_not_started_has_no_age_and_one_whose_clock_is_ahead_neither() -> None:
    run = DagsterRun(job_name=DRAIN_JOB, run_id="3f0e4c5e-0000-4000-8000-000000000000", tags={DEFINITIONS: "a"})
    at = get_current_datetime()

    def age(start: float | None) -> float:
        return scheduled_run(RunRecord(1, run, at, at, start), NOW).age

    assert [age(None), age(NOW + 5), age(NOW - 5)] == [0.0, 0.0, 5.0]


def test_a_run_is_told_by_tags_to_leave_and_beside_whom_it_warms_up() -> None:
    contracts = [find_contract("web_page_views")]
    with DagsterInstance.ephemeral() as instance:
        old = DagsterRun(DRAIN_JOB, status=DagsterRunStatus.STARTED, tags={STARTED_FOR: "something due", **DRAINS})
        own = old.with_tags({**old.tags, BESIDE: old.run_id})
        own = own._replace(run_id="3f0e4c5e-0000-4000-8000-000000000000")
        instance.add_run(old)
        instance.add_run(own)
        assert other_runs(instance, contracts, own.run_id) == OtherRuns(one_turn=True)
        assert other_runs(instance, contracts, old.run_id) == OtherRuns()
        instance.add_run_tags(old.run_id, {LEAVE: "the next run has taken over"})
        assert other_runs(instance, contracts, old.run_id) == OtherRuns(superseded=True)


def test_what_a_person_asked_for_is_left_to_that_run_only_once_it_is_at_work() -> None:
    contracts = [find_contract("web_page_views")]
    with DagsterInstance.ephemeral() as instance:
        instance.add_run(DagsterRun(DRAIN_JOB, status=DagsterRunStatus.STARTING, tags=DRAINS))
        assert other_runs(instance, contracts, "another") == OtherRuns()


def test_a_run_has_the_memory_of_the_sensor_in_its_own_code_location(tmp_path: Path) -> None:
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        for number, location in enumerate(("theirs", "ours", "others")):
            origin = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), "__repository__")
            waits = {"web_page_views": Waiting(NOW, number)}
            state = InstigatorState(
                origin.get_instigator_origin(LAG_SENSOR),
                InstigatorType.SENSOR,
                InstigatorStatus.RUNNING,
                SensorInstigatorData(cursor=to_cursor(waits)),
            )
            instance.add_instigator_state(state)
        ours = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("ours"), "__repository__")
        run = DagsterRun(DRAIN_JOB, remote_job_origin=RemoteJobOrigin(ours, DRAIN_JOB))
        assert sensor_waits(instance, run) == {"web_page_views": Waiting(NOW, 1)}
        assert sensor_waits(instance, DagsterRun(DRAIN_JOB)) == {}


def test_the_digest_is_the_same_until_a_contract_or_a_transform_changes() -> None:
    plain = Pipeline(find_contract("web_page_views"))
    first = definitions_digest([plain])
    assert definitions_digest([Pipeline(find_contract("web_page_views"))]) == first
    changed = [
        [replace(plain, contract=replace(plain.contract, version="9.9.9"))],
        [replace(plain, transform=doubled)],
        [plain, Pipeline(find_contract("bank_transfers"))],
    ]
    assert len({first, *map(definitions_digest, changed)}) == 4
