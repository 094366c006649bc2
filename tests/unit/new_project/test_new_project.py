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
from tests.unit.contract.test_catalogue import add

CLONE = ASSETS.parent
NEW = ["pyproject.toml", "definitions.py", "workspace.yaml", ".gitignore", "dagster.yaml"]
DG = '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "her"\n'


@pytest.fixture(autouse=True)
def no_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "TIDEGATE_CONTRACTS"):
        monkeypatch.delenv(name, raising=False)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


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


LOADED = [
    (
        {"workspace.yaml": "load_from: [{python_file: {relative_path: her.py, working_directory: src}}]"},
        "-f her.py -d src",
    ),
    ({"workspace.yaml": "load_from: [{python_module: her.definitions}]"}, "-m her.definitions"),
    ({"workspace.yaml": "load_from: [{grpc_server: {port: 4266}}]"}, None),
    ({"pyproject.toml": '[tool.dagster]\nmodules = [{type = "module", name = "her"}]'}, "-m her"),
]


@pytest.mark.parametrize(("files", "loads"), LOADED)
def test_the_next_steps_load_what_the_project_loads(tmp_path: Path, files: dict[str, str], loads: str | None) -> None:
    write(tmp_path, files)
    steps = invoke("init", str(tmp_path), "-o", "json", code=0).document["next"]
    materialize = [step for step in steps if step.startswith("dagster asset materialize")]
    assert materialize == ([f"dagster asset materialize {loads} --select 'group:\"web\"'"] if loads else [])
    assert loads or "Materialize the assets of the group web in the UI" in steps


def test_the_next_steps_are_for_a_pipeline_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "her shop" / "assets").mkdir(parents=True)
    add(tmp_path / "her shop" / "assets", "orders")
    steps = invoke("init", str(tmp_path / "her shop"), "-o", "json", code=0).document["next"]
    assert f"cd '{tmp_path / 'her shop'}'" in steps
    assert "tidegate produce orders --count 1000" in steps
    assert "dagster asset materialize -m definitions --select 'group:\"shop\"'" in steps
    (tmp_path / "contracts").mkdir()
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path / "contracts"))
    called = invoke("init", str(tmp_path / "new"), "-o", "json", code=0).document
    assert called["written"] == NEW
    assert any(step.startswith(f"Add a contract to {tmp_path / 'contracts'}") for step in called["next"])
    add(tmp_path / "contracts", "visits")
    (tmp_path / "dg").mkdir()
    (tmp_path / "dg" / "pyproject.toml").write_text(DG)
    called = invoke("init", str(tmp_path / "dg"), "-o", "json", code=0).document
    assert "tidegate verify visits" in called["next"]
    component = yaml.safe_load((tmp_path / "dg" / "her" / "defs" / "tidegate" / "defs.yaml").read_text())
    assert component["attributes"] == {"contracts": "../contracts"}


USES = [
    ("import tidegate\ndefs = tidegate.definitions()", True),
    ("import tidegate as t\ndefs = t.definitions()", True),
    ("from tidegate import definitions", True),
    ("# TODO: merge tidegate.definitions()", False),
    ("import tidegate\nProducer = tidegate.Producer", False),
]


@pytest.mark.parametrize(("text", "uses"), USES)
def test_only_definitions_that_use_tidegate_need_no_merge(tmp_path: Path, text: str, *, uses: bool) -> None:
    write(tmp_path, {"definitions.py": text, "dg/pyproject.toml": DG, "dg/src/her/definitions.py": text})
    assert write_project(tmp_path).has_tidegate is uses
    component = Path("src/her/defs/tidegate/defs.yaml")  # would load the same contracts again
    assert (component not in write_project(tmp_path / "dg").written) is uses


def test_a_project_that_is_not_found_is_told_that_a_new_one_was_written_next_to_it(tmp_path: Path) -> None:
    write(tmp_path, {"shop/definitions.py": "", "pyproject.toml": "[project]\nname = 'shop'\n"})
    steps = invoke("init", str(tmp_path), "-o", "json", code=0).document["next"]
    assert steps[0].startswith("No Dagster project was found here")
    assert any(step.startswith("Add to pyproject.toml") for step in steps)
    (tmp_path / "new" / ".git").mkdir(parents=True)
    steps = invoke("init", str(tmp_path / "new"), "-o", "json", code=0).document["next"]
    assert steps[0].startswith("cd ")


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


@pytest.mark.parametrize("text", ["tool = 1", "[tool]\ndg = 1", "[tool]\ndagster = 1", "[tool.dg]\nproject = 1"])
def test_a_value_in_place_of_a_table_is_named(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"pyproject.toml": text})
    with pytest.raises(BadInput, match=r"pyproject.toml \(tool.*\): (tool|dg|dagster|project) is not a table"):
        write_project(tmp_path)


def test_a_project_of_dg_without_a_root_module_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"pyproject.toml": "[tool.dg.project]\ncode_location_name = 'her'\n"})
    with pytest.raises(BadInput, match="has no root_module"):
        write_project(tmp_path)


@pytest.mark.parametrize("name", [*NEW, "assets", "assets/web"])
@pytest.mark.parametrize("kind", ["file", "folder", "link to nothing"])
def test_what_is_in_the_place_of_a_file_or_folder_is_named_before_anything_is_written(
    tmp_path: Path, name: str, kind: str
) -> None:
    place = tmp_path / "project" / name
    place.parent.mkdir(parents=True)
    if kind == "file":
        place.touch()
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(tmp_path / "elsewhere")
    if place.is_dir() == (name in ("assets", "assets/web")):  # what should be there
        return
    with pytest.raises(BadInput, match=f"{name}: "):
        write_project(tmp_path / "project")
    assert {path for path in (tmp_path / "project").rglob("*") if path not in place.parents} == {place}
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_in_place_of_the_project_is_named(tmp_path: Path) -> None:
    (tmp_path / "shop").touch()
    with pytest.raises(BadInput, match="shop is a file; give a folder"):
        write_project(tmp_path / "shop")


def test_the_instance_of_a_new_project_is_configured_as_that_of_this_clone() -> None:
    template = CLONE / "platform_defs" / "new_project" / "templates" / "dagster.yaml"
    assert template.read_text() == (CLONE / "dagster.yaml").read_text()


def test_a_package_of_an_extra_that_is_missing_is_named_with_the_command() -> None:
    with pytest.raises(BadInput, match=r"pip install 'tidegate\[local\]', or set TIDEGATE_POSTGRES_URL"):
        require("no_such_package", "local", "set TIDEGATE_POSTGRES_URL")
