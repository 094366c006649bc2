"""Dagster's own commands in a project with a broken contract: the good pipelines run beside it.

A pipeline without batch rules does not load what those need.
"""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest
from dagster import AssetKey, DagsterInstance

from platform_defs.settings.contracts import find_pipeline
from platform_defs.settings.settings import PROJECT_ROOT
from tests.chaos.processes.dagster import reported
from tests.support.world import World, transfers

DAGSTER = Path(sys.executable).parent / "dagster"
BROKEN = "assets/web/page_views.odcs.yaml"

WITHOUT_BATCH_RULES = """
import sys
from dataclasses import replace
from dagster import DagsterInstance
from platform_defs.settings.contracts import find_pipeline
from platform_defs.code_location import compose
from platform_defs.settings.settings import PROJECT_ROOT

shipped = find_pipeline("bank_transfers")
tables = tuple(replace(table, batch_rules=()) for table in shipped.contract.tables)
pipeline = replace(shipped, contract=replace(shipped.contract, tables=tables))
with DagsterInstance.from_config(str(PROJECT_ROOT)) as instance:
    job = compose([pipeline]).resolve_job_def("drain")
    assert job.execute_in_process(instance=instance).success
assert "great_expectations" not in sys.modules
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of this project in which the contract of page_views has a typo."""
    root = tmp_path_factory.mktemp("project") / "tidegate"
    for folder in ("assets", "platform_defs", "resources"):
        copytree(PROJECT_ROOT / folder, root / folder, ignore=ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "dagster.yaml", "workspace.yaml"):
        copy(PROJECT_ROOT / file, root)
    contract = root / BROKEN
    contract.write_text(contract.read_text().replace("logicalType: timestamp", "logicalType: timestmp"))
    return root


def dagster(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a Dagster command in that project, whose code takes precedence over the installed one."""
    return subprocess.run(
        [str(DAGSTER), *command, "-m", "platform_defs.definitions"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), "DAGSTER_HOME": str(project)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def with_topic(world: World) -> None:
    """Send eight more messages to bank.transfers, and create the topic if it is missing."""
    pipeline = find_pipeline("bank_transfers")
    if pipeline.contract.topic not in world.admin().list_topics(timeout=10).topics:
        world.create_topic(pipeline.contract.topic)
    world.send(pipeline, transfers(8))


@pytest.mark.slow
def test_asset_list_has_the_good_ones_and_a_line_for_the_bad_one(project: Path) -> None:
    listed = dagster(project, "asset", "list")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.split() == [BROKEN, "bank/balances", "bank/postings", "crm/customers"]
    assert f"{BROKEN}:" in listed.stderr
    assert "did you mean 'timestamp'" in listed.stderr


@pytest.mark.longest
def test_a_good_pipeline_runs_beside_a_broken_one(world: World, project: Path) -> None:
    with_topic(world)
    ran = dagster(project, "asset", "materialize", "--select", "bank/postings")
    assert ran.returncode == 0, ran.stderr
    with DagsterInstance.from_config(str(PROJECT_ROOT)) as instance:
        assert reported(instance, AssetKey(["bank", "postings"]))[0]["messages"] >= 8


@pytest.mark.longest
def test_materializing_the_broken_one_fails_with_file_line_and_field(world: World, project: Path) -> None:
    ran = dagster(project, "asset", "materialize", "--select", f'key:"{BROKEN}"')
    assert ran.returncode == 1
    assert "page_views.odcs.yaml:45 (page_views.viewed_at.logicalType)" in ran.stderr


@pytest.mark.longest
def test_a_run_without_batch_rules_does_not_import_great_expectations(world: World) -> None:
    with_topic(world)
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_BATCH_RULES],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
