"""One run and one sensor for many pipelines, with the real broker, database and Spark."""

import threading
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from dagster import AssetKey, DagsterEventType, DagsterInstance, DagsterRun, DagsterRunStatus, EventLogEntry

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.keys import DEFINITIONS, DRAIN_JOB, LEAVE, STARTED_FOR, job_tag
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import BadInput, PipelineHeld, TopicMissing
from platform_defs.groups.dagster_checks import GroupSurvey
from platform_defs.kafka.topic_views import KafkaTopics
from platform_defs.pipelines.scheduler.survey import Survey
from platform_defs.pipelines.sensors import look
from platform_defs.runs.open_run import open_run
from platform_defs.topics.dagster.sensor import observations
from tests.chaos.processes.dagster import reported, views
from tests.support.dagster_runs import check, execute, failure, table_keys, with_rule_renamed
from tests.support.waiting import wait_for
from tests.support.world import World, transfers

SCHEDULED = {STARTED_FOR: "they are due"}  # the tag of a sensor's run


class Trickle:
    """A message every 50 ms, up to `most` of them, while the block runs."""

    def __init__(self, world: World, pipeline: Pipeline, most: int) -> None:
        self._world, self._pipeline, self._most = world, pipeline, most
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> "Trickle":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()

    def _send(self) -> None:
        for _ in range(self._most):
            self._world.send(self._pipeline, views(1))
            if self._stop.wait(0.05):
                return


def missing_topic(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, contract=replace(pipeline.contract, topic=f"{pipeline.name}.missing"))


@pytest.mark.slow
def test_a_run_for_what_is_due_ends_although_messages_go_on_arriving(world: World, instance: DagsterInstance) -> None:
    pipeline = world.new_pipeline("append", lag_messages=1_000)
    world.send(pipeline, views(40))
    with Trickle(world, pipeline, most=5_000) as trickle:
        assert execute(instance, pipeline, tags=SCHEDULED).success
        assert trickle.goes_on
    assert sum(world.position(pipeline).values()) >= 40


@pytest.mark.slow
def test_a_backlog_is_read_in_one_turn_where_nobody_waits_for_one(world: World, instance: DagsterInstance) -> None:
    pipeline = world.new_pipeline("append", batch_messages=40)
    world.send(pipeline, views(40 * 5))
    assert execute(instance, pipeline).success
    asked = "select count(*) as batches, count(distinct epoch) as turns from tidegate.batch where pipeline = %s"
    assert world.rows(asked, pipeline.name) == [{"batches": 5, "turns": 1}]


@pytest.mark.longest
def test_a_pipeline_that_fails_fails_neither_the_others_nor_what_they_materialized(
    world: World, instance: DagsterInstance
) -> None:
    good, bad = world.new_pipeline("append"), missing_topic(world.new_pipeline("append"))
    world.send(good, views(10))
    for tags in (None, SCHEDULED):
        result = execute(instance, bad, good, tags=tags)
        assert not result.success
        message = failure(result).description or ""
        assert bad.contract.topic in message
        assert good.name not in message
    (shown,) = reported(instance, table_keys(good)[0])
    assert shown["messages"] == 10
    assert reported(instance, table_keys(bad)[0]) == []


@pytest.mark.longest
def test_a_run_takes_up_what_becomes_due_although_it_was_not_asked_for_it(
    world: World, instance: DagsterInstance
) -> None:
    asked, other = world.new_pipeline("append"), world.new_pipeline("append", lag_messages=5)
    world.send(asked, views(3))
    world.send(other, views(5))
    assert execute(instance, asked, other, selected=table_keys(asked), tags=SCHEDULED).success
    assert [item["messages"] for key in (asked, other) for item in reported(instance, table_keys(key)[0])] == [3, 5]


@pytest.mark.slow
def test_a_live_owner_is_not_fenced_by_a_run_that_asks_for_leave(world: World) -> None:
    pipeline = world.caught_up()
    world.send(pipeline, transfers(4))
    with world.open_run(pipeline) as context:
        with pytest.raises(PipelineHeld, match="a run that Dagster did not start"), _leave_asked(world, pipeline):
            pass
        assert not context.ledger.fenced()
    with _leave_asked(world, pipeline) as context:
        context.ledger.connection.close()  # as a run whose process dies
        wait_for(lambda: not world.ledger.status(pipeline.name).held)
        with _leave_asked(world, pipeline) as taken_over:
            assert not taken_over.ledger.fenced()


@pytest.mark.slow
def test_a_pipeline_that_run_after_run_dies_of_waits_longer_each_time(world: World) -> None:
    pipeline = world.caught_up()
    world.send(pipeline, transfers(4))
    pauses: list[float] = []
    for _ in range(4):
        acquire(world.ledger.url, pipeline.contract).connection.close()  # as a run whose process dies
        pauses.append(_pause(world, pipeline))
    assert pauses[0] == 0
    assert 0 < pauses[1] < pauses[2] < pauses[3]
    world.drain(pipeline)
    assert _pause(world, pipeline) == 0


def _pause(world: World, pipeline: Pipeline) -> float:
    """Return the seconds from the last change of the pipeline to its next try."""
    asked = "SELECT extract(epoch FROM retry_at - updated_at)::float8 AS pause FROM tidegate.pipeline WHERE name = %s"
    (row,) = world.rows(asked, pipeline.name)
    return row["pause"] or 0.0


def _leave_asked(world: World, pipeline: Pipeline) -> Any:
    return open_run(pipeline, world.endpoints, world.spark, unless_held=True)


@pytest.mark.longest
def test_one_tick_looks_at_all_and_what_is_wrong_with_one_topic_hides_no_other(
    world: World, instance: DagsterInstance
) -> None:
    bad, busy, idle = (
        missing_topic(world.new_pipeline()),
        world.new_pipeline("append", lag_messages=2),
        world.caught_up(),
    )
    world.send(busy, views(2))
    contracts = [item.contract for item in (bad, busy, idle)]
    found = look(instance, contracts, Survey(world.endpoints), None, "")
    (request,) = found.run_requests or []
    assert request.asset_selection == table_keys(busy)
    neither = look(instance, [bad.contract, idle.contract], Survey(world.endpoints), None, "")
    assert not neither.run_requests
    assert bad.contract.topic in str(neither.skip_reason)


@pytest.mark.slow
def test_a_tick_tells_a_run_to_leave_whose_contracts_or_transforms_have_changed(
    world: World, instance: DagsterInstance
) -> None:
    pipeline = world.caught_up()
    runs = [DagsterRun(DRAIN_JOB, status=DagsterRunStatus.STARTED, tags=tags(name)) for name in ("earlier", "now")]
    for run in runs:
        instance.add_run(run)
    look(instance, [pipeline.contract], Survey(world.endpoints), None, "now")
    found = [instance.get_run_by_id(run.run_id) for run in runs]
    assert [LEAVE in run.tags for run in found if run] == [True, False]
    for run in runs:  # to other tests they would look alive
        instance.delete_run(run.run_id)


def tags(definitions: str) -> dict[str, str]:
    """Return the tags of a run that the sensor started with these definitions."""
    return {STARTED_FOR: "something due", DEFINITIONS: definitions, **job_tag(DRAIN_JOB, ())}


@pytest.mark.longest
def test_the_ledger_knows_how_long_ago_one_of_these_pipelines_committed_last(world: World) -> None:
    early, late = world.caught_up().name, world.caught_up().name
    world.rows("UPDATE tidegate.batch SET committed_at = committed_at - interval '1 day' WHERE pipeline = %s", early)
    assert world.ledger.seconds_since_commit([early, late]) < 60
    assert world.ledger.seconds_since_commit([early]) > 3600  # whatever others commit
    assert world.ledger.seconds_since_commit(["never ran"]) == inf


def test_the_topics_that_can_be_seen_are_recorded_beside_one_that_cannot(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, transfers(8))
    asked = ["missing.topic", "no name of a topic!", pipeline.contract.topic]
    found = observations(asked, KafkaTopics(world.endpoints.kafka_options()), GroupSurvey(), [])
    (seen,) = found.seen
    assert seen.asset_key == AssetKey(["kafka", pipeline.contract.topic])
    assert (seen.metadata["messages"].value, seen.metadata["partitions"].value) == (8, "4")
    assert isinstance(found.unseen["missing.topic"], TopicMissing)
    assert isinstance(found.unseen["no name of a topic!"], BadInput)


@pytest.mark.longest
def test_a_batch_whose_rule_was_renamed_before_it_was_reported_stops_nothing(
    world: World, instance: DagsterInstance
) -> None:
    pipeline = world.new_pipeline()
    # Outside Dagster: as a run that was killed after its COMMIT.
    (batch,) = world.send_and_drain(pipeline, transfers(4))
    renamed = with_rule_renamed(pipeline, "postings_sum_to_zero", "debits_equal_credits")
    world.send(pipeline, transfers(4, start=4))
    assert execute(instance, renamed).success
    assert [item["messages"] for item in reported(instance, table_keys(pipeline)[0])] == [4, 4]
    assert world.ledger.unreported(pipeline.contract) == []
    assert check(instance, renamed, "debits_equal_credits").passed
    assert reported(instance, table_keys(pipeline)[0])[1]["batch_id"] == str(batch.batch_id)


@pytest.mark.slow
def test_what_dagster_refuses_to_be_told_is_a_warning_and_no_failure(
    world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = world.new_pipeline("append")
    world.send(pipeline, views(4))

    storage: Any = instance.event_log_storage
    store = storage.store_asset_check_event

    def refused(event: EventLogEntry, event_id: int | None) -> None:
        if event.get_dagster_event().event_type == DagsterEventType.ASSET_CHECK_EVALUATION:
            raise ValueError("no such check")
        store(event, event_id)

    monkeypatch.setattr(storage, "store_asset_check_event", refused)
    assert execute(instance, pipeline).success
    assert len(reported(instance, table_keys(pipeline)[0])) == 1
    assert world.ledger.unreported(pipeline.contract) == []


def test_all_looks_share_one_connection(world: World) -> None:
    contracts = [world.new_pipeline().contract for _ in range(3)]
    survey, others = Survey(world.endpoints), _kept(world)  # another test's may not have ended yet
    for _ in range(3):
        assert [item.lag for item in survey.look(contracts)] == [0, 0, 0]
        assert survey.live_runs(["none"]) == set()
        assert len(_kept(world) - others) == 1
    survey.close()


def _kept(world: World) -> set[int]:
    """Return the process ids of the pooled sessions."""
    return {
        row["pid"] for row in world.rows("SELECT pid FROM pg_stat_activity WHERE application_name = 'tidegate/kept'")
    }
