"""Definitions of contracts can be merged with any others, and with each other."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

import tidegate
from platform_defs.code_location import compose
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.reserved import CONTRACT_LOADS
from platform_defs.dagster.keys import CONTINUOUS_JOB, DRAIN_JOB, table_keys, topic_key
from platform_defs.dagster.runs import dead, selected
from platform_defs.pipelines.scheduler.waiting import Waiting
from platform_defs.pipelines.sensors import Working, keep_one, start
from tests.support.shipped import ASSETS
from tests.unit.contract.test_catalogue import add
from tests.unit.pipelines.test_continuous_sensor import NOW, seen

HERS = ["spark", "run_session", "kafka_producer"]


@dg.asset(key=["bank", "report"], required_resource_keys={"spark"})
def report() -> None: ...


@dg.op(name="drain_topics")
def drain_topics() -> None: ...


def job(name: str) -> dg.JobDefinition:
    @dg.job(name=name)
    def graph() -> None:
        drain_topics()

    return graph


def hers() -> dg.Definitions:
    """Return another project's definitions: an executor, and every name that the shipped location has."""

    jobs = [job(name) for name in ("drain", "verify", "prune")]

    @dg.sensor(name="lag", job=jobs[0])
    def lag() -> dg.SkipReason:
        return dg.SkipReason()

    return dg.Definitions(
        assets=[report],
        jobs=jobs,
        sensors=[lag],
        resources=dict.fromkeys(HERS, object()),
        executor=dg.multi_or_in_process_executor.configured({"multiprocess": {}}),
    )


def names(definitions: dg.Definitions) -> set[str]:
    repository = definitions.get_repository_def()
    jobs = {name for name in repository.job_names if not name.startswith("__")}
    return jobs | {item.name for item in (*repository.sensor_defs, *repository.schedule_defs)}


def broken(definitions: dg.Definitions) -> set[str]:
    """Return the keys of the assets whose contract cannot be used."""
    checks = definitions.resolve_asset_graph().asset_check_keys
    return {check.asset_key.to_user_string() for check in checks if check.name == CONTRACT_LOADS}


def test_they_merge_with_an_executor_and_with_every_name_of_another_project() -> None:
    ours = tidegate.definitions(ASSETS)
    assert ours.executor is None
    merged = dg.Definitions.merge(hers(), ours)
    dg.Definitions.validate_loadable(merged)
    assert {name.partition("_")[0] for name in names(ours)} == {"tidegate"}
    assert {"drain", "tidegate_drain", "verify", "tidegate_verify", "lag", "tidegate_lag"} <= names(merged)
    assert merged.resolve_job_def("tidegate_drain").executor_def is dg.in_process_executor
    assert set(ours.resources or {}) == {"tidegate_spark", "tidegate_run_session", "tidegate_kafka_producer"}


def test_two_folders_of_contracts_are_one_code_location(tmp_path: Path) -> None:
    add(tmp_path, "transfers", topic="bank.transfers", table="bank.entries")  # the topic of another of the shipped ones
    eu = tidegate.definitions(tmp_path, key_prefix=["eu", "north-1"], group="europe", schedules=False)
    merged = dg.Definitions.merge(tidegate.definitions(ASSETS), eu)
    dg.Definitions.validate_loadable(merged)
    assert "tidegate_eu_north_1_drain" in names(eu)
    assert eu.get_repository_def().schedule_defs == []
    graph = eu.resolve_asset_graph()
    keys = {"eu/north-1/kafka/bank.transfers", "eu/north-1/bank/entries"}
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == keys
    assert {graph.get(key).group_name for key in graph.get_all_asset_keys()} == {"europe"}
    assert {key.asset_key.to_user_string() for key in graph.asset_check_keys} == keys


@pytest.mark.parametrize("claim", ["id", "table"])
def test_a_pipeline_or_table_of_two_folders_is_red_in_the_second_and_names_both_files(
    tmp_path: Path, claim: str, caplog: pytest.LogCaptureFixture
) -> None:
    others, table = ({"table": "shop.other"}, "us/shop/other") if claim == "id" else ({"id": "other"}, "us/shop/visits")
    for folder in ("eu", "us"):
        (tmp_path / folder).mkdir()
    first, second = add(tmp_path / "eu", "visits"), add(tmp_path / "us", "visits", **others)
    add(tmp_path / "us", "returns")
    for _ in range(2):  # a folder that is loaded again is not compared with itself
        assert broken(tidegate.definitions(tmp_path / "eu", key_prefix="eu")) == set()
        us = tidegate.definitions(tmp_path / "us", key_prefix="us")
        assert broken(us) == {table}
        assert dg.AssetKey(["us", "shop", "returns"]) in us.resolve_asset_graph().get_all_asset_keys()
    kind = "pipeline visits" if claim == "id" else "table shop.visits"
    assert f"{second}:" in caplog.text
    assert f"{kind} is also defined in {first}; give one of them another name" in caplog.text


def test_a_folder_that_is_loaded_with_two_prefixes_is_red_the_second_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(tmp_path, "baskets")
    assert broken(tidegate.definitions(tmp_path, key_prefix="eu")) == set()
    assert broken(tidegate.definitions(tmp_path, key_prefix="us")) == {"us/shop/baskets"}
    assert "pipeline baskets is loaded twice from this file, with two prefixes; load its folder once" in caplog.text


def test_a_written_topic_has_the_prefix_too(tmp_path: Path) -> None:
    add(tmp_path, "orders")

    @tidegate.topic_asset(tidegate.find_contract("orders", tmp_path))
    def orders(context: dg.AssetExecutionContext) -> Iterator[tidegate.Message]:
        yield tidegate.Message(b"{}")

    graph = tidegate.definitions(tmp_path, key_prefix="eu", include=[orders]).resolve_asset_graph()
    assert {key for key in graph.get_all_asset_keys() if graph.get(key).is_materializable} == {
        topic_key("shop.orders", ["eu"]),
        dg.AssetKey(["eu", "shop", "orders"]),
    }


def test_the_op_of_a_written_topic_has_the_names_and_all_else_of_the_asset(tmp_path: Path) -> None:
    add(tmp_path, "orders")
    days = dg.StaticPartitionsDefinition(["monday"])

    @tidegate.topic_asset(tidegate.find_contract("orders", tmp_path), partitions_def=days, deps=[report])
    def orders(context: dg.AssetExecutionContext) -> Iterator[tidegate.Message]:
        yield tidegate.Message(b"{}")

    given = orders.with_attributes(backfill_policy=dg.BackfillPolicy.single_run())
    for key_prefix, op in (([], "tidegate_write_orders"), (["eu"], "tidegate_eu_write_orders")):
        graph = tidegate.definitions(tmp_path, key_prefix=key_prefix, include=[given]).resolve_asset_graph()
        asset = graph.get(topic_key("shop.orders", key_prefix)).assets_def
        assert all(item.op.name.startswith("tidegate_") for item in graph.assets_defs if item.is_executable)
        assert (asset.op.name, asset.partitions_def, asset.backfill_policy) == (op, days, given.backfill_policy)
        assert [dep.asset_key for spec in asset.specs for dep in spec.deps] == [report.key]
    shipped = compose([], written=[orders]).resolve_asset_graph().get(topic_key("shop.orders"))
    assert shipped.assets_def.op.name == "write_orders"


def test_a_broken_contract_keeps_the_prefix(tmp_path: Path) -> None:
    add(tmp_path, "orders", "kind: nothing")
    keys = tidegate.definitions(tmp_path, key_prefix="eu").resolve_asset_graph().get_all_asset_keys()
    assert {key.path[0] for key in keys} == {"eu"}


def test_a_run_of_any_job_counts_for_the_tables_that_it_selects() -> None:
    contract = tidegate.find_contract("crm_customers", ASSETS)
    table = frozenset([dg.AssetKey(["crm", "customers"])])
    assert selected(dg.DagsterRun(job_name="nightly", asset_selection=table), [contract]) == ["crm_customers"]
    assert selected(dg.DagsterRun(job_name="nightly"), [contract]) == []
    assert selected(dg.DagsterRun(job_name="drain"), [contract]) == []


def test_a_run_without_a_selection_counts_for_the_pipelines_of_its_own_folder_of_contracts() -> None:
    contract = tidegate.find_contract("crm_customers", ASSETS)
    eu = replace(contract, asset_prefix=("eu",))
    drain = tidegate.definitions(ASSETS).resolve_job_def("tidegate_drain")
    run = dg.DagsterRun(drain.name, tags=dict(drain.tags))
    assert selected(run, [contract]) == ["crm_customers"]
    assert selected(run, [eu]) == []


def test_the_runs_that_the_sensor_requests_are_of_jobs_with_the_names() -> None:
    contract = replace(seen("a").contract, asset_prefix=("eu",))
    item = replace(seen("a"), contract=contract)
    placed = compose([Pipeline(item.contract)], prefix=["eu"], names="tidegate_eu_")
    idle, waits = Working(0, frozenset(), (), "digest", 0.0), {"a": Waiting(NOW - 9, 0)}
    for request in (
        start([item], waits, idle, 1, NOW, "tidegate_eu_"),
        keep_one([item], waits, idle, lambda: 0.0, NOW, "tidegate_eu_"),
    ):
        assert isinstance(request, dg.RunRequest)
        assert request.job_name is not None
        assert dg.validate_run_config(placed.resolve_job_def(request.job_name), request.run_config)
        run = dg.DagsterRun(
            request.job_name,
            run_config=request.run_config,
            asset_selection=frozenset(request.asset_selection) if request.asset_selection else None,
            tags=dict(placed.resolve_job_def(request.job_name).tags),
        )
        assert selected(run, [contract]) == ["a"]


def test_observed_topics_have_the_prefix_and_an_op_with_the_names() -> None:
    item = seen("a")
    placed = compose([Pipeline(item.contract)], prefix=["eu"], names="tidegate_eu_", group="europe")
    graph, key = placed.resolve_asset_graph(), topic_key(item.contract.topic, ["eu"])
    assert graph.observable_asset_keys == {key}
    assert graph.get(key).group_name == "europe"
    assert "tidegate_eu_observe_topics" in {asset.node_def.name for asset in graph.assets_defs if asset.is_executable}


def test_a_run_with_other_steps_too_may_be_without_a_session_for_as_long_as_they_take() -> None:
    contract, hers = tidegate.find_contract("crm_customers", ASSETS), dg.AssetKey(["bank", "report"])
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)

    def died(*keys: dg.AssetKey) -> bool:
        run = dg.DagsterRun("nightly", asset_selection=frozenset(keys), status=dg.DagsterRunStatus.STARTED)
        record = dg.RunRecord(1, run, long_ago, long_ago)
        return bool(dead([record], set(), [contract], datetime.now(UTC)))

    assert died(*table_keys(contract))
    assert not died(*table_keys(contract), hers)
    assert not died(hers)
    placed = compose([Pipeline(replace(contract, limits=replace(contract.limits, lag_seconds=1.0)))])
    for job_name in (DRAIN_JOB, CONTINUOUS_JOB):
        tags = dict(placed.resolve_job_def(job_name).tags)
        for run_tags, ours in ((tags, True), ({}, False)):  # a user's own job may have the name
            run = dg.DagsterRun(job_name, status=dg.DagsterRunStatus.STARTED, tags=run_tags)
            record = dg.RunRecord(1, run, long_ago, long_ago)
            assert (dead([record], set(), [contract], datetime.now(UTC)) == [record]) is ours, job_name


def test_a_folder_that_is_not_there_is_refused() -> None:
    with pytest.raises(tidegate.BadInput, match="there is no folder"):
        tidegate.definitions("no/such/folder")
