"""The component `tidegate.TopicsComponent` in a project of `dg`: scaffolded, and loaded."""

import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster.components.component_scaffolding import scaffold_object

from platform_defs.new_project.files import write_project
from tests.docs.test_tutorial import ROOT, blocks
from tests.unit.contract.test_catalogue import add

PAGE = (ROOT / "docs" / "how-to" / "write-from-dagster.md").read_text()
TYPE = "tidegate.TopicsComponent"
DG = '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{root}"\n'


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty project of dg, with a module of a name that no other test imports."""
    for name in ("DAGSTER_HOME", "TIDEGATE_CONTRACTS"):
        monkeypatch.delenv(name, raising=False)
    root = f"root_{abs(hash(request.node.nodeid))}"
    (tmp_path / root / "defs").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(DG.format(root=root))
    for folder in (root, f"{root}/defs"):
        (tmp_path / folder / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def defs_folder(project: Path) -> Path:
    (folder,) = project.glob("root_*/defs")
    return folder


def scaffold(project: Path, name: str) -> dict[str, object]:
    """Scaffold a component as `dg scaffold defs` does; return its attributes."""
    target = defs_folder(project) / name
    target.mkdir(exist_ok=True)
    scaffold_object(target, TYPE, None, "yaml", project)
    return yaml.safe_load((target / "defs.yaml").read_text())["attributes"]


def load(project: Path) -> dg.Definitions:
    return dg.load_from_defs_folder(path_within_project=project)


def test_a_second_component_has_a_folder_and_a_prefix_of_its_own_and_both_are_loaded(project: Path) -> None:
    write_project(project)
    assert scaffold(project, "eu") == {"contracts": "eu", "key_prefix": "eu"}
    keys = {key.to_user_string() for key in load(project).resolve_asset_graph().get_all_asset_keys()}
    assert keys == {"kafka/web.page_views", "web/page_views", "eu/kafka/eu.page_views", "eu/eu/page_views"}


def test_the_page_about_written_topics_replaces_the_component(project: Path) -> None:
    (project / "assets").mkdir()
    add(project / "assets", "transfers", id="bank_transfers", domain="bank")
    (text,) = (block.text for block in blocks(PAGE) if block.info == "python")
    (defs_folder(project) / "topics.py").write_text(text)
    graph = load(project).resolve_asset_graph()
    written = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).is_materializable}
    assert written == {"kafka/bank.transfers", "bank/transfers"}


def test_the_first_component_reads_assets(project: Path) -> None:
    assert scaffold(project, "topics") == {"contracts": "assets"}
    assert dg.AssetKey(["web", "page_views"]) in load(project).resolve_asset_graph().get_all_asset_keys()
