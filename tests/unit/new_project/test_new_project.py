"""`tidegate init` writes a working project, or what an existing one lacks, and never over a file."""

from pathlib import Path

import pytest
import yaml

from platform_defs.contract.reader.catalogue import find_all
from platform_defs.errors import BadInput
from platform_defs.new_project.files import write_project
from platform_defs.settings.imports import require
from tests.support.commands import invoke
from tests.support.shipped import ASSETS

CLONE = ASSETS.parent
NEW = ["pyproject.toml", "definitions.py", "workspace.yaml", ".gitignore", "dagster.yaml"]
DG = '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "her"\n'


@pytest.fixture(autouse=True)
def no_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


def names(paths: tuple[Path, ...]) -> list[str]:
    return [str(path) for path in paths]


def test_a_new_project_has_all_that_dagster_needs_and_a_contract_that_is_valid(tmp_path: Path) -> None:
    project = write_project(tmp_path / "My Shop")
    assert names(project.written) == [*NEW, "assets/web/page_views.odcs.yaml"]
    assert 'name = "my-shop"' in (project.folder / "pyproject.toml").read_text()
    found = find_all(project.folder / "assets")
    assert ([item.name for item in found.pipelines], found.broken) == (["web_page_views"], ())
    assert (project.loads, project.has_tidegate) == ("-m definitions", True)
    again = write_project(project.folder)
    assert (again.written, again.has_tidegate) == ((), True)


def test_a_project_of_dg_gets_a_component_and_keeps_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "src" / "her").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(DG)
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    project = write_project(tmp_path)
    component = tmp_path / "src" / "her" / "defs" / "tidegate" / "defs.yaml"
    assert names(project.written) == [str(component.relative_to(tmp_path)), "assets/web/page_views.odcs.yaml"]
    assert yaml.safe_load(component.read_text())["type"] == "tidegate.TopicsComponent"
    assert names(project.kept) == ["dagster.yaml"]
    assert (tmp_path / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"
    assert (project.loads, project.has_tidegate) == ("-m her.definitions", True)


@pytest.mark.parametrize("file", ["workspace.yaml", "definitions.py"])
def test_any_other_dagster_project_is_told_to_merge(tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / file).write_text("# hers\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))  # her instance is configured there
    called = invoke("init", str(tmp_path), "-o", "json", code=0)
    assert called.document["written"] == ["assets/web/page_views.odcs.yaml"]
    assert called.document["next"][1].startswith("Merge Tidegate into your definitions: ")
    assert (tmp_path / file).read_text() == "# hers\n"


def test_it_says_what_it_wrote_and_what_comes_next(tmp_path: Path) -> None:
    said = invoke("init", str(tmp_path / "shop"), code=0).stdout
    assert "wrote assets/web/page_views.odcs.yaml" in said
    assert f"cd {tmp_path / 'shop'}" in said
    assert "dagster asset materialize -m definitions --select 'group:\"web\"'" in said


def test_a_pyproject_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool\n")
    with pytest.raises(BadInput, match=r"pyproject.toml: cannot be read"):
        write_project(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]


def test_the_instance_of_a_new_project_is_configured_as_that_of_this_clone() -> None:
    template = CLONE / "platform_defs" / "new_project" / "templates" / "dagster.yaml"
    assert template.read_text() == (CLONE / "dagster.yaml").read_text()


def test_a_package_of_an_extra_that_is_missing_is_named_with_the_command() -> None:
    with pytest.raises(BadInput, match=r"pip install 'tidegate\[local\]', or set TIDEGATE_POSTGRES_URL"):
        require("no_such_package", "local", "set TIDEGATE_POSTGRES_URL")
