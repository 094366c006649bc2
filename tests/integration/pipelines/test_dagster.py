"""Dagster with the real broker, database and Spark: its reports, its launches, and killed runs."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from sqlalchemy import event as engine_event

from platform_defs.code_location import compose
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.reserved import NOT_HALTED
from platform_defs.dagster.keys import DRAIN_JOB, LAG_SENSOR, STARTED_FOR, verify_key
from platform_defs.dagster.runs import report_dead
from platform_defs.errors import Halt
from platform_defs.pipelines.checks import check_specs
from platform_defs.pipelines.scheduler.survey import Survey
from platform_defs.pipelines.scheduler.waiting import Waiting, to_cursor
from platform_defs.pipelines.sensors import look
from platform_defs.stack.endpoints import Endpoints
from tests.chaos.halts import resolve_halt
from tests.chaos.processes.dagster import reported, views
from tests.support.dagster_runs import check, execute, table_keys
from tests.support.kafka.logs import delete_records
from tests.support.waiting import wait_for
from tests.support.world import KeptSpark, World, renamed, transfer, transfers

Run = Callable[[Pipeline], dg.ExecuteInProcessResult]


@pytest.fixture
def run(instance: DagsterInstance) -> Run:
    """Run the job in this process, as a user would start it."""

    def run(pipeline: Pipeline) -> dg.ExecuteInProcessResult:
        return execute(instance, pipeline)

    return run


def records(shown: dg.MetadataValue) -> Sequence[dg.TableRecord]:
    """Return the rows of a table in the metadata."""
    assert isinstance(shown, dg.TableMetadataValue)
    return shown.records


def looked(instance: DagsterInstance, contract: Contract, endpoints: Endpoints) -> dg.SensorResult:
    """Return a tick of the sensor, as if this were the only pipeline."""
    return look(instance, [contract], Survey(endpoints), None, "digest")


def skipped(instance: DagsterInstance, contract: Contract, endpoints: Endpoints) -> str:
    """Return the reason that the sensor starts no run, and assert that it starts none."""
    result = looked(instance, contract, endpoints)
    assert not result.run_requests
    return str(result.skip_reason.skip_message) if result.skip_reason else ""


@pytest.mark.longest
def test_a_run_tells_of_every_table_and_check_in_numbers(world: World, run: Run, instance: DagsterInstance) -> None:
    pipeline = world.new_pipeline("accumulate", batch_messages=40)
    world.send(pipeline, [*transfers(99), b"not json"])
    assert run(pipeline).success
    postings, balances = (reported(instance, key) for key in table_keys(pipeline))
    assert len(postings) == len(balances) == 3  # one per batch, and no more for the op's skipped outputs
    assert sum(item["messages"] for item in postings) == 100
    assert postings[0]["dagster/row_count"] == 198
    assert balances[0]["dagster/row_count"] == 100
    assert postings[0]["lag"] == 0
    for name in ("rows", "dead_letters", "seconds", "messages_per_second"):
        assert isinstance(postings[0][name], int | float)
    assert [record.data["partition"] for record in postings[-1]["offsets"].records] == ["0", "1", "2", "3"]
    decodes = check(instance, pipeline, "message_decodes")
    assert not decodes.passed
    assert decodes.metadata["failed"].value == 1
    assert [record.data["partition"] for record in records(decodes.metadata["samples"])] == [3]
    assert check(instance, pipeline, "currency_enum").passed


@pytest.mark.longest
def test_a_check_that_a_run_does_not_evaluate_keeps_its_last_result(
    world: World, run: Run, instance: DagsterInstance
) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, [*transfers(7), b"not json"])
    first = run(pipeline)
    drain = compose([pipeline], spark=KeptSpark()).resolve_job_def(DRAIN_JOB)
    keys = [spec.key for spec in check_specs(pipeline.contract)]
    checks_alone = drain.get_subset(asset_selection=set(), asset_check_selection=set(keys))  # "Execute all" of the UI
    for run_again in (lambda: run(pipeline), lambda: checks_alone.execute_in_process(instance=instance)):
        with _statements_on_checks(instance) as statements:
            again = run_again()
        assert again.success
        assert [sql.split()[0] for sql in statements] == ["INSERT"] * len(keys) + ["UPDATE", "DELETE"]
        shown = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
        assert {shown[key].run_id for key in keys if key.name != NOT_HALTED} == {first.run_id}
        failed = {key.name for key in keys if shown[key].status != AssetCheckExecutionRecordStatus.SUCCEEDED}
        assert failed == {"message_decodes"}
    lines = [entry.user_message for entry in instance.all_logs(first.run_id)]
    assert f"{pipeline.name}: 1 dead letter in this run. To see why: tidegate dlq list {pipeline.name}" in lines
    assert not [line for line in lines if "did not yield or return" in line]


@contextmanager
def _statements_on_checks(instance: DagsterInstance) -> Generator[list[str]]:
    """Yield the list of the statements that are executed on Dagster's results of checks."""
    storage: Any = instance.event_log_storage  # its engine has no public name
    found, engine = list[str](), storage._engine

    def note(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        if "asset_check_executions" in sql:
            found.append(sql)

    engine_event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        engine_event.remove(engine, "before_cursor_execute", note)


@pytest.mark.longest
def test_selecting_one_table_runs_the_pipeline_as_a_whole(world: World, instance: DagsterInstance) -> None:
    pipeline = world.new_pipeline("accumulate")
    world.send(pipeline, transfers(10))
    postings, balances = table_keys(pipeline)
    job = compose([pipeline], spark=KeptSpark()).resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, asset_selection=[balances]).success
    assert reported(instance, postings)[0]["rows"] == 20
    assert reported(instance, balances)[0]["messages"] == 10


@pytest.mark.longest
def test_two_pipelines_read_one_topic_each_at_its_own_pace(world: World, instance: DagsterInstance) -> None:
    first = world.new_pipeline("accumulate")
    contract = replace(renamed(first.contract, f"{first.name}_too"), topic=first.contract.topic)
    second = replace(first, contract=contract)
    defs = compose([first, second], spark=KeptSpark())

    def read(pipeline: Pipeline) -> bool:
        return execute(instance, first, second, selected=table_keys(pipeline)).success

    def verify() -> None:
        whole = {verify_key(one.contract).name: {"config": {"whole": True}} for one in (first, second)}
        job = defs.resolve_job_def("verify")
        job.execute_in_process(run_config={"ops": whole}, instance=instance, raise_on_error=False)

    def verified(pipeline: Pipeline) -> tuple[bool, int]:
        key = verify_key(pipeline.contract)
        record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
        assert record.event is not None
        found = record.event.asset_check_evaluation
        assert found is not None
        return found.passed, int(str(found.metadata["rows"].value))

    world.send(first, transfers(8))
    assert read(first)
    assert world.position(second) == {}
    world.send(first, [*transfers(4, start=8), b"not json"])
    assert read(second)
    assert sum(world.position(first).values()) == 8
    assert sum(world.position(second).values()) == 13
    verify()
    assert verified(first) == (True, 16)
    assert verified(second) == (True, 24)
    world.rows(f"DELETE FROM {contract.row_table.name} WHERE ctid = (SELECT min(ctid) FROM {contract.row_table.name})")
    verify()
    assert verified(first) == (True, 16)
    assert not verified(second)[0]  # the other pipeline's loss is not this one's


@pytest.mark.longest
def test_a_failed_gate_shows_its_check_and_publishes_nothing(
    world: World, run: Run, instance: DagsterInstance, endpoints: Endpoints
) -> None:
    pipeline = blocking(world.new_pipeline("accumulate"), "postings_of_usual_size")
    world.send(pipeline, [transfer(1), transfer(2, "900000.00")])
    result = run(pipeline)
    assert not result.success
    found = check(instance, pipeline, "postings_of_usual_size")
    assert not found.passed
    assert found.severity == dg.AssetCheckSeverity.ERROR
    assert "which was not committed" in (found.description or "")
    assert check(instance, pipeline, "postings_sum_to_zero").passed
    assert reported(instance, table_keys(pipeline)[0]) == []
    assert world.table(pipeline) == []
    assert set(world.position(pipeline).values()) == {0}
    assert "it waits until" in skipped(instance, pipeline.contract, endpoints)


def blocking(pipeline: Pipeline, rule: str) -> Pipeline:
    table = pipeline.contract.row_table
    rules = tuple(replace(r, severity="blocking") if r.name == rule else r for r in table.batch_rules)
    tables = (replace(table, batch_rules=rules), *pipeline.contract.accumulates)
    return replace(pipeline, contract=replace(pipeline.contract, tables=tables))


@pytest.mark.slow
def test_the_sensor_starts_one_run_and_no_second_one_beside_it(
    world: World, instance: DagsterInstance, endpoints: Endpoints
) -> None:
    pipeline = world.new_pipeline("append", lag_messages=1)
    contract = pipeline.contract
    assert "0 unread" in skipped(instance, contract, endpoints)
    world.send(pipeline, views(4))
    assert len(looked(instance, contract, endpoints).run_requests or []) == 1
    with world.open_run(pipeline):  # a run unknown to Dagster
        assert "in use by a run" in skipped(instance, contract, endpoints)
    started = _started_run(instance, pipeline)  # one from the command line, unknown to any queue
    assert "a manually started run reads it" in skipped(instance, contract, endpoints)
    instance.report_run_failed(started)
    assert len(looked(instance, contract, endpoints).run_requests or []) == 1


@pytest.mark.slow
def test_a_batch_that_nobody_reported_starts_a_run_though_nothing_is_unread(
    world: World, run: Run, instance: DagsterInstance, endpoints: Endpoints
) -> None:
    pipeline = world.new_pipeline("append")
    world.send_and_drain(pipeline, views(4))  # by a run that Dagster does not know, and that is gone
    waiting = to_cursor({pipeline.name: Waiting(time.time() - 3_600, 4)})

    def asked() -> list[str]:
        found = look(instance, [pipeline.contract], Survey(endpoints), waiting, "digest")
        return [request.tags[STARTED_FOR] for request in found.run_requests or []]

    (why,) = asked()
    assert "a run ended before reporting its batches" in why
    assert run(pipeline).success
    assert (world.ledger.unreported(pipeline.contract), asked()) == ([], [])
    lost = "update tidegate.batch set reported_at = null where pipeline = %s"
    world.rows(lost, pipeline.name)  # as if Dagster's storage had failed: no run after run is started for it
    assert asked() == []
    world.rows("update tidegate.batch set report_after = now() where pipeline = %s", pipeline.name)
    assert len(asked()) == 1


def _started_run(instance: DagsterInstance, pipeline: Pipeline, location: str | None = None) -> DagsterRun:
    """Create a materialization as the command line does, or the UI for this code location: of the implicit job,
    without tags, and just started.
    """
    job = compose([pipeline]).resolve_implicit_global_asset_job_def()
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location or ""), "__repository__")
    return instance.create_run_for_job(
        job,
        asset_selection=frozenset(table_keys(pipeline)),
        status=DagsterRunStatus.STARTED,
        remote_job_origin=RemoteJobOrigin(repository, job.name) if location else None,
    )


@pytest.mark.slow
def test_a_topic_created_again_with_nothing_unread_starts_the_run_that_says_so(
    world: World, instance: DagsterInstance, endpoints: Endpoints
) -> None:
    pipeline = world.new_pipeline("append")
    world.send_and_drain(pipeline, views(8))
    admin = world.admin()
    admin.delete_topics([pipeline.contract.topic])[pipeline.contract.topic].result(10)
    wait_for(lambda: pipeline.contract.topic not in admin.list_topics(timeout=5).topics)
    world.create_topic(pipeline.contract.topic)
    assert len(looked(instance, pipeline.contract, endpoints).run_requests or []) == 1


@pytest.mark.longest
def test_a_halt_fails_its_runs_and_keeps_its_check_red_until_it_is_settled(
    world: World, run: Run, instance: DagsterInstance, endpoints: Endpoints
) -> None:
    pipeline = world.caught_up()
    assert run(pipeline).success
    assert check(instance, pipeline, NOT_HALTED).passed
    delete_unread(world, pipeline)
    for _ in range(2):  # the run that halts, and one of the halted pipeline
        failed = run(pipeline).get_step_failure_events()[0].step_failure_data.user_failure_data
        assert failed is not None
        for metadata in (failed.metadata, red(instance, pipeline).metadata):
            assert metadata["halt"].value == "retention_passed"
            assert metadata["resolve with"].value == f"tidegate resolve {pipeline.name}"
            assert [record.data for record in records(metadata["ranges"])] == [UNREAD]
            assert metadata["detail"].value == {"ranges": [UNREAD]}
    assert tick(instance, pipeline, endpoints) == []  # Dagster shows it already
    resolve_halt(world, pipeline)
    assert red(instance, pipeline)
    assert [event.passed for event in tick(instance, pipeline, endpoints)] == [True]
    assert check(instance, pipeline, NOT_HALTED).passed
    assert tick(instance, pipeline, endpoints) == []


@pytest.mark.longest
def test_a_halt_that_dagster_did_not_see_is_told_by_the_sensor_and_settled_by_the_next_run(
    world: World, run: Run, instance: DagsterInstance, endpoints: Endpoints
) -> None:
    pipeline = world.caught_up()
    delete_unread(world, pipeline)
    with pytest.raises(Halt):
        world.drain(pipeline)
    found = tick(instance, pipeline, endpoints)
    assert [(event.passed, event.severity) for event in found] == [(False, dg.AssetCheckSeverity.ERROR)]
    description = red(instance, pipeline).description or ""
    assert "messages were deleted before they were read" in description
    assert f"tidegate resolve {pipeline.name}" in description
    assert f"tidegate resolve {pipeline.name}" in skipped(instance, pipeline.contract, endpoints)
    resolve_halt(world, pipeline)
    assert run(pipeline).success
    assert check(instance, pipeline, NOT_HALTED).passed


UNREAD = {"partition": 2, "from_offset": 2, "until_offset": 5}


def delete_unread(world: World, pipeline: Pipeline) -> None:
    """Send six more messages to partition 2, and delete the first three before they are read."""
    world.send(pipeline, transfers(6), partition=2)
    delete_records(world, pipeline, {2: 5})


def red(instance: DagsterInstance, pipeline: Pipeline) -> dg.AssetCheckEvaluation:
    found = check(instance, pipeline, NOT_HALTED)
    assert not found.passed
    return found


def tick(instance: DagsterInstance, pipeline: Pipeline, endpoints: Endpoints) -> list[Any]:
    """Return the events of a sensor's tick, recorded as Dagster's daemon does."""
    events = looked(instance, pipeline.contract, endpoints).asset_events
    for event in events:
        instance.report_runless_asset_event(event)
    return list(events)


@pytest.mark.slow
def test_an_untagged_run_of_another_code_location_is_left_to_its_sensor(
    world: World, instance: DagsterInstance
) -> None:
    pipeline = world.new_pipeline("append", lag_messages=1)
    world.send(pipeline, views(1))
    run = _started_run(instance, pipeline, "theirs")
    an_hour_ago = "UPDATE dagster.runs SET update_timestamp = update_timestamp - interval '1 h' WHERE run_id = %s"
    world.rows(an_hour_ago, run.run_id)
    assert _tick_of_location("ours", instance, pipeline).run_requests
    assert _status(instance, run) == DagsterRunStatus.STARTED
    _tick_of_location("theirs", instance, pipeline)
    assert _status(instance, run) == DagsterRunStatus.FAILURE


def _tick_of_location(name: str, instance: DagsterInstance, pipeline: Pipeline) -> SensorExecutionData:
    """Evaluate the lag sensor as Dagster's daemon does for the code location."""
    repository = compose([pipeline], spark=KeptSpark()).get_repository_def()
    context = dg.SensorEvaluationContext(
        instance_ref=None,
        last_tick_completion_time=None,
        last_run_key=None,
        cursor=None,
        repository_name=repository.name,
        repository_def=repository,
        instance=instance,
        code_location_origin=RegisteredCodeLocationOrigin(name),
    )
    return repository.get_sensor_def(LAG_SENSOR).evaluate_tick(context)


def _status(instance: DagsterInstance, run: DagsterRun) -> DagsterRunStatus:
    shown = instance.get_run_by_id(run.run_id)
    assert shown
    return shown.status


@pytest.mark.slow
def test_a_run_that_ended_by_itself_is_not_taken_for_dead(world: World, run: Run, instance: DagsterInstance) -> None:
    pipeline = world.new_pipeline("append", lag_messages=1)
    world.send(pipeline, views(1))
    assert run(pipeline).success
    assert report_dead(instance, lambda _: set(), [pipeline.contract], None) == []
