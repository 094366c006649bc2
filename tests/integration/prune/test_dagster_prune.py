"""The job `prune`, and its effect on Dagster's own log."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster import AssetKey, DagsterInstance

from platform_defs.code_location import compose
from platform_defs.dagster.run_session import LEDGER_TAG
from platform_defs.errors import BadInput
from platform_defs.prune import ledger as prune_ledger
from platform_defs.prune.dagster_log import PrunedLog, prune_log
from tests.support.dagster_runs import failure
from tests.support.postgres.restricted_roles import Company, new_company
from tests.support.world import KeptSpark, World

CONFIG = """
storage:
  custom: {module: platform_defs.dagster.storage, class: Storage}
"""
LONG_AGO = (
    "UPDATE dagster.runs SET update_timestamp = update_timestamp - interval '60 days'",
    "UPDATE dagster.event_logs SET timestamp = timestamp - interval '60 days'",
    "UPDATE dagster.asset_check_executions"
    " SET evaluation_event_timestamp = evaluation_event_timestamp - interval '60 days'",
)


@pytest.fixture
def company(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Company]:
    """Yield a separate database, in which its owner keeps Dagster's state; the ledger is in another."""
    with new_company(world) as made:
        monkeypatch.setenv("TIDEGATE_POSTGRES_URL", world.endpoints.postgres_url)
        monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", world.endpoints.bootstrap_servers)
        monkeypatch.setenv("TIDEGATE_DAGSTER_URL", made.urls["owner"])
        yield made


@pytest.fixture
def session(company: Company) -> Iterator[psycopg.Connection]:
    """Yield the administrator's session of Dagster's database."""
    with psycopg.connect(company.urls["administrator"], autocommit=True) as found:
        yield found


@pytest.fixture
def instance(company: Company, tmp_path: Path) -> Iterator[DagsterInstance]:  # `company` stores its state
    (tmp_path / "dagster.yaml").write_text(CONFIG)
    with DagsterInstance.from_config(str(tmp_path)) as made:
        yield made


@dg.asset(check_specs=[dg.AssetCheckSpec("sound", asset="rows")])
def rows(context: dg.AssetExecutionContext) -> Iterator[Any]:
    context.log.info("reads")
    yield dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=True)])


def count(session: psycopg.Connection, table: str, where: str = "true") -> int:
    (found,) = session.execute(f"SELECT count(*) FROM dagster.{table} WHERE {where}".encode()).fetchone() or (0,)
    return found


def run(instance: DagsterInstance) -> str:
    return dg.materialize([rows], instance=instance).run_id


def test_old_runs_and_events_go_and_what_the_ui_shows_stays(
    session: psycopg.Connection, instance: DagsterInstance
) -> None:
    old = [run(instance) for _ in range(3)]
    for number in range(4):
        instance.report_runless_asset_event(dg.AssetObservation("topic", metadata={"end": number}))
        instance.report_runless_asset_event(dg.AssetCheckEvaluation(AssetKey("topic"), "there", passed=True))
    unfinished = instance.create_run_for_job(dg.Definitions(assets=[rows]).resolve_implicit_global_asset_job_def())
    manager: Any = instance.compute_log_manager
    logs = manager.get_captured_local_path([old[0], "compute_logs", "step"], "out")
    Path(logs).parent.mkdir(parents=True, exist_ok=True)
    Path(logs).write_text("printed")
    age(session)

    assert prune_log(instance, 61, "ours") == PrunedLog()
    assert prune_log(instance, 30, "ours") == PrunedLog(runs=2, evaluations=5, events=6)
    assert [item.run_id for item in instance.get_runs()] == [unfinished.run_id, old[-1]]
    assert not Path(logs).exists()
    assert count(session, "event_logs", f"run_id IN ('{old[0]}', '{old[1]}')") == 0
    materialized = instance.get_latest_materialization_event(AssetKey("rows"))
    assert materialized
    assert materialized.run_id == old[-1]
    (observed,) = instance.fetch_observations(AssetKey("topic"), limit=10).records
    assert observed.asset_observation
    assert observed.asset_observation.metadata["end"].value == 3
    keys = [dg.AssetCheckKey(AssetKey("rows"), "sound"), dg.AssetCheckKey(AssetKey("topic"), "there")]
    assert set(instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)) == set(keys)

    run(instance)
    assert prune_log(instance, 30, "ours") == PrunedLog(runs=1, evaluations=1), "the next one shows it now"
    assert prune_log(instance, 30, "ours") == PrunedLog()


@pytest.mark.slow
def test_the_latest_materialization_of_each_partition_stays(
    session: psycopg.Connection, instance: DagsterInstance
) -> None:
    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a", "b"]))
    def daily() -> None: ...

    old = [dg.materialize([daily], instance=instance, partition_key=key).run_id for key in ("a", "a", "b")]
    for key in ("a", "a", "b"):
        instance.report_runless_asset_event(dg.AssetObservation("topic", partition=key))
    age(session)
    assert prune_log(instance, 30, "ours") == PrunedLog(runs=1, events=1)
    assert [run_id for run_id in old if instance.has_run(run_id)] == old[1:]
    assert instance.get_materialized_partitions(AssetKey("daily")) == {"a", "b"}


@pytest.mark.slow
def test_snapshots_of_selections_go_with_the_last_run_of_them(
    session: psycopg.Connection, instance: DagsterInstance
) -> None:
    @dg.multi_asset(specs=[dg.AssetSpec(name) for name in "abcd"], can_subset=True)
    def tables(context: dg.AssetExecutionContext) -> Iterator[Any]:
        for key in context.selected_asset_keys:
            yield dg.MaterializeResult(asset_key=key)

    old = [
        dg.materialize([tables], instance=instance, selection=[*keys]).run_id
        for keys in ("abcd", "ab", "ac", "ac", "bcd", "bcd", "a")
    ]
    stored = count(session, "snapshots")
    age(session)
    assert prune_log(instance, 30, "ours") == PrunedLog(runs=5)
    for run_id in (old[5], old[6]):
        kept = instance.get_run_by_id(run_id)
        assert kept
        assert kept.job_snapshot_id
        assert kept.execution_plan_snapshot_id
        instance.get_historical_job(kept.job_snapshot_id)
        instance.get_execution_plan_snapshot(kept.execution_plan_snapshot_id)
    assert stored - count(session, "snapshots") == 3, "of the jobs of abcd, ab and ac"


@pytest.mark.slow
def test_output_that_cannot_be_deleted_keeps_nothing_else_from_being_pruned(
    session: psycopg.Connection, instance: DagsterInstance, tmp_path: Path
) -> None:
    old = [run(instance) for _ in range(3)]
    instance.report_runless_asset_event(dg.AssetObservation("topic"))
    instance.report_runless_asset_event(dg.AssetObservation("topic"))
    manager: Any = instance.compute_log_manager
    folder = Path(manager.get_captured_local_path([old[0], "compute_logs", "step"], "out")).parents[1]
    moved = folder.rename(tmp_path / "moved")
    folder.symlink_to(moved)
    age(session)
    why = "except for 1 run whose output could not be deleted: Cannot call rmtree on a symbolic link"
    with pytest.raises(BadInput, match=why) as error:
        prune_log(instance, 30, "ours")
    assert str(error.value).endswith(f"in Dagster's compute logs: {old[0]}")
    assert [run_id for run_id in old if instance.has_run(run_id)] == [old[0], old[-1]]
    folder.unlink()
    assert prune_log(instance, 30, "ours") == PrunedLog(runs=1)


def test_the_runs_of_another_ledger_and_their_evaluations_stay(
    session: psycopg.Connection, instance: DagsterInstance
) -> None:
    ours, others, untagged, _ = [run(instance) for _ in range(4)]
    instance.add_run_tags(ours, {LEDGER_TAG: "ours"})
    instance.add_run_tags(others, {LEDGER_TAG: "another"})
    age(session)
    assert prune_log(instance, 30, "ours") == PrunedLog(runs=2, evaluations=2)
    assert [run_id for run_id in (ours, others, untagged) if instance.has_run(run_id)] == [others]
    assert count(session, "asset_check_executions", f"run_id = '{others}'") == 1


def test_the_old_runs_of_a_ledger_without_a_run_for_a_year_go(
    session: psycopg.Connection, instance: DagsterInstance
) -> None:
    idle, gone = [run(instance) for _ in range(2)], [run(instance) for _ in range(2)]
    run(instance)  # the one that the UI shows
    for ledger, runs in (("idle", idle), ("gone", gone)):
        for run_id in runs:
            instance.add_run_tags(run_id, {LEDGER_TAG: ledger})
    age(session)
    older = "UPDATE dagster.runs SET update_timestamp = update_timestamp - interval '%s days' WHERE run_id = '%s'"
    for days, run_id in ((310, idle[0]), (304, idle[1]), (310, gone[0]), (306, gone[1])):
        session.execute((older % (days, run_id)).encode())
    assert prune_log(instance, 30, "ours") == PrunedLog(runs=2, evaluations=2)
    assert [run_id for run_id in (*idle, *gone) if instance.has_run(run_id)] == idle


def test_a_storage_of_another_kind_is_left_alone() -> None:
    with DagsterInstance.ephemeral() as other:
        run(other)
        assert prune_log(other, 0.000001, "ours") is None
        assert other.get_runs_count() == 1


def age(session: psycopg.Connection) -> None:
    for statement in LONG_AGO:
        session.execute(statement.encode())


def prune_nightly(world: World, instance: DagsterInstance) -> dg.ExecuteInProcessResult:
    world.ledger.migrate()
    job = compose([world.new_pipeline("append")], spark=KeptSpark()).resolve_job_def("prune")
    return job.execute_in_process(instance=instance, raise_on_error=False)


def test_the_job_prunes_dagsters_log_in_its_own_database_as_its_own_user(
    world: World, session: psycopg.Connection, instance: DagsterInstance
) -> None:
    old = [run(instance) for _ in range(3)]
    age(session)
    assert prune_nightly(world, instance).success
    assert [run_id for run_id in old if instance.has_run(run_id)] == old[-1:]


@pytest.mark.slow
def test_the_job_names_the_right_that_dagsters_user_lacks(
    world: World, company: Company, session: psycopg.Connection, instance: DagsterInstance
) -> None:
    old = [run(instance) for _ in range(2)]
    age(session)
    session.execute(f"REVOKE DELETE ON dagster.runs FROM {company.roles.owner}".encode())
    message = failure(prune_nightly(world, instance)).description or ""
    assert "Dagster's log: Postgres refuses: permission denied for table runs" in message
    assert "GRANT" in message
    assert all(instance.has_run(run_id) for run_id in old)


@pytest.mark.slow
def test_a_pipeline_that_cannot_be_pruned_keeps_no_other_from_it_and_the_run_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_POSTGRES_URL", world.endpoints.postgres_url)
    monkeypatch.setenv("TIDEGATE_KAFKA_BOOTSTRAP_SERVERS", world.endpoints.bootstrap_servers)
    monkeypatch.setattr(prune_ledger, "WAIT", "50ms")
    world.ledger.migrate()
    pipelines = [world.new_pipeline("append") for _ in range(2)]
    with world.session() as held, DagsterInstance.ephemeral() as instance, held.transaction():
        for pipeline in pipelines:
            world.rows("insert into tidegate.pipeline (name) values (%s)", pipeline.name)
            world.rows(
                "insert into tidegate.batch (batch_id, pipeline, epoch, owner, messages, rows, dead_letters,"
                " unknown_fields, contract_version, timings, committed_at) values (nextval('tidegate.batch_id'), %s, 1,"
                " gen_random_uuid(), 0, 0, 0, 0, '1', '{}', now() - interval '60 days')",
                pipeline.name,
            )
        held.execute("select from tidegate.pipeline where name = %s for update", [pipelines[0].name])
        job = compose(pipelines, spark=KeptSpark()).resolve_job_def("prune")
        result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not result.success
    message = failure(result).description or ""
    assert pipelines[0].name in message
    assert pipelines[1].name not in message
    done = "select checks_pruned_until > 0 as done from tidegate.pipeline where name = %s"
    assert [world.rows(done, pipeline.name)[0]["done"] for pipeline in pipelines] == [False, True]
