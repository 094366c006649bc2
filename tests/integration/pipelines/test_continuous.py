"""A run that stays for pipelines of low latency, with the real broker, database and Spark."""

import time
from collections.abc import Sequence

import pytest
from dagster import (
    AssetCheckKey,
    AssetKey,
    AssetMaterialization,
    AutomationCondition,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    Definitions,
    asset,
    evaluate_automation_conditions,
)
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from platform_defs.code_location import compose
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.reserved import NOT_HALTED
from platform_defs.dagster.keys import CONTINUOUS, CONTINUOUS_JOB, job_tag
from platform_defs.pipelines.reporting import reporter
from platform_defs.pipelines.scheduler.survey import Survey
from platform_defs.pipelines.sensors import look
from tests.chaos.halts import resolve_halt
from tests.chaos.processes.continuous import batches_of, staying
from tests.chaos.processes.dagster import reported, views
from tests.chaos.processes.kills import Trickle
from tests.support.dagster_runs import check, execute, table_keys
from tests.support.kafka.logs import delete_records
from tests.support.waiting import wait_for
from tests.support.world import World, transfers


def read(world: World, pipeline: Pipeline) -> int:
    return sum(world.position(pipeline).values())


def halt_shown(instance: DagsterInstance, pipeline: Pipeline) -> bool | None:
    """Return True if Dagster shows the pipeline as halted, None if no run has reported yet."""
    key = AssetCheckKey(table_keys(pipeline)[0], NOT_HALTED)
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
    found = record.event.asset_check_evaluation if record and record.event else None
    return None if found is None else not found.passed


@pytest.mark.longest
def test_one_run_reads_each_message_as_it_comes_and_ends_well_when_it_is_asked_to(
    world: World, instance: DagsterInstance
) -> None:
    pipeline = world.new_pipeline("append", lag_seconds=1.0)
    world.send(pipeline, views(3))
    with staying(instance, pipeline) as ended:
        wait_for(lambda: read(world, pipeline) == 3)
        for n in range(4, 12):
            world.send(pipeline, views(1))
            wait_for(lambda n=n: read(world, pipeline) == n)
    assert ended[0].success
    shown = reported(instance, table_keys(pipeline)[0])
    assert sum(item["messages"] for item in shown) == len(world.table(pipeline)) == 11
    assert world.ledger.unreported(pipeline.contract) == []


@pytest.mark.longest
def test_batches_of_several_seconds_are_reported_together_and_none_is_left_unreported(
    world: World, instance: DagsterInstance
) -> None:
    pipeline = world.new_pipeline(lag_seconds=1.0)
    with staying(instance, pipeline) as ended, Trickle(world, pipeline):
        wait_for(lambda: batches_of(world, pipeline) > 8)  # a busy machine reports a few of the first one by one
    assert ended[0].success
    shown = reported(instance, table_keys(pipeline)[0])
    batches = world.rows("select messages from tidegate.batch where pipeline = %s", pipeline.name)
    assert sum(item["messages"] for item in shown) == sum(row["messages"] for row in batches) == read(world, pipeline)
    assert sum(int(item["batches"]) for item in shown) == len(batches) > len(shown)
    assert world.ledger.unreported(pipeline.contract) == []
    assert not check(instance, pipeline, "message_decodes").passed  # the trickle has one bad message in a hundred


@pytest.mark.longest
def test_a_pipeline_that_halts_is_shown_as_such_at_once_and_the_others_are_served(
    world: World, instance: DagsterInstance
) -> None:
    good, bad = world.new_pipeline("append", lag_seconds=1.0), world.new_pipeline(lag_seconds=1.0)
    world.send_and_drain(bad, transfers(8))
    world.send(bad, transfers(6), partition=2)
    delete_records(world, bad, {2: 5})  # three unread messages
    with staying(instance, good, bad) as ended:
        wait_for(lambda: world.ledger.status(bad.name).state == "halted")
        wait_for(lambda: halt_shown(instance, bad) is True)
        world.send(good, views(5))
        wait_for(lambda: read(world, good) == 5)
        resolve_halt(world, bad)
        wait_for(lambda: halt_shown(instance, bad) is False)
        world.send(bad, transfers(6), partition=0)
        wait_for(lambda: read(world, bad) == 20)
    assert ended[0].success  # it went well again


@pytest.mark.longest
def test_a_run_of_the_command_line_takes_a_pipeline_over_and_gives_it_back(
    world: World, instance: DagsterInstance
) -> None:
    pipeline = world.new_pipeline("append", lag_seconds=1.0)
    with staying(instance, pipeline) as ended:
        world.send(pipeline, views(5))
        wait_for(lambda: read(world, pipeline) == 5)
        with world.open_run(pipeline) as mine:
            world.send(pipeline, views(5))
            time.sleep(2)  # no event reports that the run has not taken it back
            assert not mine.ledger.fenced()
        wait_for(lambda: read(world, pipeline) == 10)
    assert ended[0].success


def test_a_tick_asks_for_a_run_that_stays_and_leaves_the_others_as_they_are(
    world: World, instance: DagsterInstance
) -> None:
    soon, later = world.new_pipeline("append", lag_seconds=1.0), world.new_pipeline("append")
    contracts = [soon.contract, later.contract]
    (request,) = look(instance, contracts, Survey(world.endpoints), None, "digest").run_requests or []
    assert CONTINUOUS in request.tags
    assert request.asset_selection is None
    run = DagsterRun(
        CONTINUOUS_JOB,
        run_config=request.run_config,
        status=DagsterRunStatus.STARTED,
        tags={**request.tags, **job_tag(CONTINUOUS_JOB, ())},
    )
    instance.add_run(run)
    try:
        assert _asked(look(instance, contracts, Survey(world.endpoints), None, "digest")) == []
        assert len(_asked(look(instance, contracts, Survey(world.endpoints), None, "changed"))) == 1
    finally:
        instance.report_run_canceled(run)


def _asked(found: object) -> Sequence[object]:
    return getattr(found, "run_requests", None) or []


@pytest.mark.longest
def test_an_asset_of_two_tables_is_requested_while_a_run_stays_for_both_and_one_is_idle(
    world: World, instance: DagsterInstance
) -> None:
    busy, idle = world.new_pipeline(lag_seconds=1.0), world.new_pipeline("append", lag_seconds=1.0)
    world.send(busy, transfers(8))
    world.send(idle, views(3))
    assert execute(instance, busy, idle).success
    (table, *_), (other, *_) = table_keys(busy), table_keys(idle)

    @asset(
        key=AssetKey(["downstream", busy.name]), deps=[table, other], automation_condition=AutomationCondition.eager()
    )
    def downstream() -> None: ...

    definitions = Definitions.merge(compose([busy, idle]), Definitions(assets=[downstream]))
    instance.report_runless_asset_event(AssetMaterialization(downstream.key))
    before = evaluate_automation_conditions(definitions, instance)
    with staying(instance, busy, idle) as ended:
        world.send(busy, transfers(8, start=8))
        wait_for(lambda: len(reported(instance, table)) == 2)
        found = evaluate_automation_conditions(definitions, instance, cursor=before.cursor)
        assert found.get_requested_partitions(downstream.key) == {None}
    assert ended[0].success
    key = AssetCheckKey(table, "message_decodes")
    shown = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert shown.run_id == ended[0].run_id
    assert shown.status == AssetCheckExecutionRecordStatus.SUCCEEDED


@pytest.mark.longest
def test_what_a_killed_run_committed_and_did_not_report_is_reported_before_the_next_message(
    world: World, instance: DagsterInstance
) -> None:
    pipeline = world.new_pipeline("append", lag_seconds=1.0)
    # As a run does that is killed after its commit: nothing is unread, and nothing is reported.
    world.send_and_drain(pipeline, views(3))
    with staying(instance, pipeline) as ended:
        wait_for(lambda: not world.ledger.unreported(pipeline.contract))
    assert ended[0].success
    assert [item["messages"] for item in reported(instance, table_keys(pipeline)[0])] == [3]


@pytest.mark.slow
def test_what_a_live_run_has_collected_no_other_run_reports(
    world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "TOGETHER", 3_600.0)
    pipeline = world.new_pipeline("append", lag_seconds=1.0)
    with staying(instance, pipeline) as ended:
        world.send(pipeline, views(3))
        wait_for(lambda: reported(instance, table_keys(pipeline)[0]))
        world.send(pipeline, views(2))
        wait_for(lambda: read(world, pipeline) == 5)
        assert execute(instance, pipeline).success
        assert [batch.messages for batch in world.ledger.unreported(pipeline.contract)] == [2]
    assert ended[0].success
    assert [item["messages"] for item in reported(instance, table_keys(pipeline)[0])] == [2, 3]
    assert world.ledger.unreported(pipeline.contract) == []
