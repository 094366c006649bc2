"""Contracts and transforms that cannot be used, as Dagster shows them beside those that can."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copy

import dagster as dg
import pytest
from dagster import AssetCheckKey, AssetKey, DagsterInstance

from platform_defs.code_location import composable, compose
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.reserved import CONTRACT_LOADS
from platform_defs.pipelines.broken import broken_assets, evaluation, not_shown
from platform_defs.settings.contracts import BrokenContract, Catalogue, find_all
from tests.support.shipped import ASSETS

PAGE_VIEWS = ASSETS / "web" / "page_views.odcs.yaml"
TRANSFERS = ASSETS / "bank" / "transfers.odcs.yaml"


def written(folder: Path, name: str, source: Path, *changes: tuple[str, str]) -> Path:
    """Write a copy of the shipped contract as `name` (domain/file), with each of `changes` made."""
    text = source.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def typo(tmp_path: Path) -> Catalogue:
    """Return two good contracts and one with a type that does not exist."""
    folder = tmp_path / "assets"
    written(folder, "web/page_views.odcs.yaml", PAGE_VIEWS, ("logicalType: timestamp", "logicalType: timestmp"))
    written(folder, "bank/transfers.odcs.yaml", TRANSFERS)
    written(folder, "crm/customers.odcs.yaml", ASSETS / "crm" / "customers.odcs.yaml")
    copy(ASSETS / "bank" / "transfers.py", folder / "bank")
    return find_all(folder)


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as found:
        yield found


def key_of(*path: str) -> AssetKey:
    return AssetKey(path)


def keys(found: Catalogue) -> set[str]:
    """Return the keys of every asset of a repository that Dagster has checked."""
    defs = compose(found.pipelines, found.broken)
    defs.get_repository_def().load_all_definitions()
    return {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}


def test_a_contract_with_a_typo_is_an_asset_beside_the_good_ones(typo: Catalogue) -> None:
    assert keys(typo) == {
        "assets/web/page_views.odcs.yaml",
        *("kafka/bank.transfers", "bank/postings", "bank/balances", "kafka/crm.customers", "crm/customers"),
    }
    repository = compose(typo.pipelines, typo.broken).get_repository_def()
    assert {job.name for job in repository.get_all_jobs()} >= {"drain", "verify"}
    assert "broken_contracts" in {sensor.name for sensor in repository.sensor_defs}


def test_the_check_says_file_line_and_field(typo: Catalogue) -> None:
    (shown,) = broken_assets(typo.broken)
    found = evaluation(shown)
    assert not found.passed
    assert found.severity == dg.AssetCheckSeverity.ERROR
    assert found.description == str(typo.broken[0].error)
    assert "timestmp" in (found.description or "")
    path = typo.broken[0].path
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "timestmp" in text)
    assert found.metadata["line"].value == str(line)
    assert str(found.metadata["file"].value).endswith("web/page_views.odcs.yaml")
    assert "viewed_at" in str(found.metadata["field"].value)


def test_materializing_a_broken_one_fails_with_its_sentence(typo: Catalogue, instance: DagsterInstance) -> None:
    job = compose(typo.pipelines, typo.broken).resolve_implicit_global_asset_job_def()
    (shown,) = broken_assets(typo.broken)
    result = job.execute_in_process(instance=instance, asset_selection=[shown.key], raise_on_error=False)
    assert not result.success
    failure = result.get_step_failure_events()[0].step_failure_data.user_failure_data
    assert failure is not None
    assert failure.description == shown.sentence
    assert not_shown(instance, [shown]) == []  # the run reported the check as well
    assert instance.get_latest_materialization_event(shown.key) is None


def test_a_check_that_a_run_has_planned_and_not_evaluated_is_reported(
    typo: Catalogue, instance: DagsterInstance
) -> None:
    job = compose(typo.pipelines, typo.broken).resolve_implicit_global_asset_job_def()
    (shown,) = broken_assets(typo.broken)
    instance.create_run_for_job(job.get_subset(asset_selection={shown.key}))
    assert not_shown(instance, [shown]) == [evaluation(shown)]


def test_the_sensor_reports_once_and_again_when_the_error_is_another(
    typo: Catalogue, instance: DagsterInstance
) -> None:
    sensor = compose(typo.pipelines, typo.broken).get_repository_def().get_sensor_def("broken_contracts")

    def tick() -> list[AssetCheckKey]:
        events = sensor.evaluate_tick(dg.build_sensor_context(instance)).asset_events
        for event in events:
            instance.report_runless_asset_event(event)
        return [event.asset_check_key for event in events if isinstance(event, dg.AssetCheckEvaluation)]

    assert tick() == [AssetCheckKey(key_of("assets", "web", "page_views.odcs.yaml"), CONTRACT_LOADS)]
    assert tick() == []
    path = typo.broken[0].path
    path.write_text(path.read_text().replace("timestmp", "datetim"))
    changed = broken_assets(find_all(path.parents[1]).broken)
    (again,) = not_shown(instance, changed)
    assert "datetim" in (again.description or "")


def test_a_corrected_contract_leaves_nothing_behind(typo: Catalogue) -> None:
    path = typo.broken[0].path
    path.write_text(path.read_text().replace("timestmp", "timestamp"))
    found = find_all(path.parents[1])
    assert found.broken == ()
    assert "assets/web/page_views.odcs.yaml" not in keys(found)
    repository = compose(found.pipelines, found.broken).get_repository_def()
    assert "broken_contracts" not in {sensor.name for sensor in repository.sensor_defs}


def test_a_broken_transform_keeps_the_place_of_its_table(typo: Catalogue) -> None:
    folder = typo.broken[0].path.parents[1]
    (folder / "bank" / "transfers.py").write_text("import no_such_module\n")
    found = find_all(folder)
    shown = {item.key.to_user_string(): item for item in broken_assets(found.broken)}
    assert "no_such_module" in shown["bank/postings"].sentence
    assert {"crm/customers", "bank/postings"} < keys(found)


def test_contracts_that_claim_the_same_pipeline_or_table_are_each_shown(typo: Catalogue) -> None:
    folder = typo.broken[0].path.parents[1]
    written(folder, "bank/again.odcs.yaml", TRANSFERS)
    found = find_all(folder)
    assert {"assets/bank/again.odcs.yaml", "assets/bank/transfers.odcs.yaml", "crm/customers"} < keys(found)


@pytest.mark.parametrize("name", ["my-domain/x y.odcs.yaml", "Kunden.und.Käufer/überweisung.odcs.yaml"])
def test_any_file_name_has_an_asset(typo: Catalogue, name: str) -> None:
    folder = typo.broken[0].path.parents[1]
    written(folder, name, TRANSFERS, ("version:", "wersion:"))
    written(folder, name.replace("x y", "x&y").replace("ü", "ö"), TRANSFERS, ("version:", "wersion:"))
    found = find_all(folder)
    assert len(found.broken) == 3
    assert len(keys(found)) == 8
    assert all(isinstance(item, BrokenContract) for item in found.broken)


def _changed(pipeline: Pipeline, name: str, topic: str, **limits: float) -> Pipeline:
    contract = pipeline.contract
    names = [f"{name}.{table.name.partition('.')[2]}" for table in contract.tables]
    tables = tuple(replace(t, name=n, batch_rules=()) for t, n in zip(contract.tables, names, strict=True))
    changed = replace(contract.limits, **limits)
    return replace(pipeline, contract=replace(contract, pipeline=name, topic=topic, tables=tables, limits=changed))


def test_a_pipeline_that_dagster_refuses_stops_no_other() -> None:
    shipped = find_all().pipelines
    endless = _changed(shipped[0], "endless", "endless", freshness_seconds=1e18)
    good, refused = composable([endless, *shipped])
    assert good == shipped
    assert [item.name for item in refused] == ["endless"]
    assert "Dagster cannot load it" in str(refused[0].error)
    compose(good, refused)


def test_of_two_pipelines_that_dagster_cannot_tell_apart_one_is_refused_and_the_others_are_loaded() -> None:
    shipped = find_all().pipelines
    first = _changed(shipped[0], "q", "t")
    second = replace(first, contract=replace(first.contract, pipeline="r"))  # the same tables
    good, refused = composable([first, *shipped, second])
    assert len(good) == len(shipped) + 1
    assert len(refused) == 1
