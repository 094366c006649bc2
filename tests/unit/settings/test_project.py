"""Where contracts are found: TIDEGATE_CONTRACTS, else `assets/` of the nearest folder upwards that has some."""

import sys
from pathlib import Path

import pytest

from platform_defs.contract.model.transform_sources import changed_source
from platform_defs.errors import BadInput
from platform_defs.settings.contracts import find_all, find_contract, find_pipeline, read_contracts
from platform_defs.settings.project import project_upwards
from platform_defs.settings.settings import settings
from tests.unit.contract.test_catalogue import TRANSFORM, add, transform


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with one contract, in a working directory far below."""
    monkeypatch.delenv("TIDEGATE_CONTRACTS", raising=False)
    folder = tmp_path / "project"
    (folder / "assets").mkdir(parents=True)
    add(folder / "assets", "orders")
    below = folder / "src" / "her" / "assets"
    below.mkdir(parents=True)
    (below / "__init__.py").touch()
    monkeypatch.chdir(below)
    return folder


def test_the_nearest_folder_upwards_that_has_contracts_is_read(project: Path) -> None:
    assert settings().contracts_folder == project / "assets"
    assert find_contract("orders").path == project / "assets" / "shop" / "orders.odcs.yaml"


def test_copies_in_a_hidden_folder_are_no_contracts(project: Path) -> None:
    below = Path.cwd()
    below.joinpath(".ipynb_checkpoints").mkdir()
    add(below, "orders-checkpoint", domain=".ipynb_checkpoints")
    assert settings().contracts_folder == project / "assets"


@pytest.mark.parametrize("table", ["dagster", "dg.project"])
def test_a_project_without_contracts_is_found_by_its_pyproject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.{table}]\n")
    below = tmp_path / "src" / "her"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    for text in ("[tool.ruff]\n", "[tool\n"):  # another package's, and one that cannot be read
        (below / "pyproject.toml").write_text(text)
        assert project_upwards() == tmp_path


def test_a_given_folder_and_then_the_variable_come_first(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("variable", "argument"):
        (tmp_path / name).mkdir()
        add(tmp_path / name, name)
    monkeypatch.setenv("TIDEGATE_CONTRACTS", str(tmp_path / "variable"))
    assert [item.pipeline for item in read_contracts().good] == ["variable"]
    assert [item.name for item in find_all(tmp_path / "argument").pipelines] == ["argument"]


def test_outside_any_project_the_error_names_init_and_no_example_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_CONTRACTS", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"there are no contracts: .*tidegate init"):
        find_all()
    with pytest.raises(BadInput, match="tidegate init"):
        find_contract("bank_transfers")
    assert read_contracts().good == ()  # commands for topics alone go on


def test_a_transform_imports_its_neighbours_though_the_project_has_a_package_assets(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contracts = project / "contracts"
    contracts.mkdir()
    monkeypatch.setattr(sys, "path", [str(project / "src" / "her"), *sys.path])  # her package `assets` comes first
    path = add(contracts, "priced")
    (contracts / "shop" / "rates.py").write_text("RATE = 7\n")
    lines = "from .rates import RATE\nfrom contracts.shop import rates\nassert rates.RATE == RATE\n"
    transform(path, lines + TRANSFORM.replace("return messages", "return RATE"))
    found = find_pipeline("priced", contracts)
    assert found.transform is not None
    assert found.transform(None) == 7  # pyright: ignore[reportArgumentType]  # no Spark here
    assert [name for name, _ in found.sources] == ["contracts/shop/priced.py", "contracts/shop/rates.py"]


def test_a_transform_in_a_kubernetes_volume_keeps_its_name_and_finds_its_neighbours(project: Path) -> None:
    volume = project / "volume"
    volume.mkdir()
    path = add(volume, "priced")
    (volume / "shop" / "rates.py").write_text("RATE = 7\n")
    lines = "from .rates import RATE\nfrom volume.shop import rates\n"
    transform(path, lines + TRANSFORM.replace("return messages", "return RATE"))
    version = path.parent.rename(volume / "..2026_11_28")
    path.parent.mkdir()
    (path.parent / "..data").symlink_to(Path("..", version.name))
    for file in version.iterdir():
        (path.parent / file.name).symlink_to(Path("..data", file.name))
    found = find_pipeline("priced", volume)
    assert found.transform is not None
    assert found.transform(None) == 7  # pyright: ignore[reportArgumentType]  # no Spark here
    assert [name for name, _ in found.sources] == ["volume/shop/priced.py", "volume/shop/rates.py"]
    assert changed_source(found) is None
    (version / "rates.py").write_text("RATE = 8\n")
    assert changed_source(found) == "volume/shop/rates.py"
