"""The contracts that `tidegate.definitions` and `tidegate.find_contract` read, from any working directory."""

import runpy
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

import tidegate
from platform_defs.new_project.files import write_project
from tests.unit.contract.test_catalogue import add

LOADS = "import tidegate\ndefs = tidegate.definitions({0})\nfound = tidegate.find_contract('orders', {0})\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Start in a folder outside any project."""
    monkeypatch.delenv("TIDEGATE_CONTRACTS", raising=False)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def module(folder: Path, argument: str) -> Path:
    """Write a module that loads definitions and a contract with this argument."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "definitions.py"
    path.write_text(LOADS.format(argument))
    return path


def contracts(folder: Path) -> Path:
    folder.mkdir(parents=True)
    add(folder, "orders")
    return folder


def test_a_new_project_is_loaded_from_anywhere(tmp_path: Path) -> None:
    write_project(tmp_path / "shop")
    loaded = runpy.run_path(str(tmp_path / "shop" / "definitions.py"))["defs"]
    assert dg.AssetKey(["web", "page_views"]) in loaded.resolve_asset_graph().get_all_asset_keys()


@pytest.mark.parametrize("argument", [None, "contracts"])
def test_contracts_of_the_module_that_calls_come_before_those_of_the_working_directory(
    tmp_path: Path, elsewhere: Path, argument: str | None
) -> None:
    path = module(tmp_path / "shop" / "src", repr(argument))
    there = contracts(elsewhere / (argument or "assets"))
    assert runpy.run_path(str(path))["found"].path == there / "shop" / "orders.odcs.yaml"
    here = contracts(path.parent / (argument or "assets"))
    loaded = runpy.run_path(str(path))
    assert loaded["found"].path == here / "shop" / "orders.odcs.yaml"
    assert dg.AssetKey(["shop", "orders"]) in loaded["defs"].resolve_asset_graph().get_all_asset_keys()


def test_the_error_names_the_folders_that_were_searched_and_what_to_do(tmp_path: Path, elsewhere: Path) -> None:
    path = module(tmp_path / "shop", "None")
    with pytest.raises(tidegate.BadInput, match=f"neither {tmp_path / 'shop'} nor {elsewhere} nor .* Pass the folder"):
        runpy.run_path(str(path))
    path = module(tmp_path / "shop", "'contracts'")
    with pytest.raises(tidegate.BadInput) as refused:
        runpy.run_path(str(path))
    assert f"there is no folder {tmp_path / 'shop' / 'contracts'} or {elsewhere / 'contracts'} (" in str(refused.value)


@dg.asset(key=["bank", "report"])
def report() -> None: ...


ODD: list[tuple[str, object]] = [
    *(("key_prefix", odd) for odd in ("", "a/b", "ü", ["eu", ""], None, [3])),
    *(("group", odd) for odd in ("", "a b", 3)),
    *(("schedules", odd) for odd in ("no", None)),
    *(("include", odd) for odd in (report, [report], ["report"], None)),
]


@pytest.mark.parametrize(("name", "odd"), ODD)
def test_an_argument_that_cannot_be_used_is_named(tmp_path: Path, name: str, odd: object) -> None:
    with pytest.raises(tidegate.BadInput) as refused:
        tidegate.definitions(contracts(tmp_path / "eu"), **{name: odd})  # pyright: ignore[reportArgumentType]
    assert refused.value.field == name


def test_an_asset_that_writes_a_topic_of_another_folder_is_named(tmp_path: Path) -> None:
    add(contracts(tmp_path / "eu"), "visits")

    @tidegate.topic_asset(tidegate.find_contract("visits", tmp_path / "eu"))
    def visits(context: dg.AssetExecutionContext) -> Iterator[tidegate.Message]:
        yield tidegate.Message(b"{}")

    with pytest.raises(tidegate.BadInput, match=r"kafka/shop\.visits is no topic of the contracts"):
        tidegate.definitions(contracts(tmp_path / "us"), include=[visits])
    with pytest.raises(tidegate.BadInput, match="pass a contract: "):
        tidegate.topic_asset("visits")  # pyright: ignore[reportArgumentType]


def test_a_folder_without_contracts_of_its_own_is_refused(tmp_path: Path) -> None:
    folder = contracts(tmp_path / "eu")
    (tmp_path / "empty").mkdir()
    refusals = {
        folder / "shop": f"is the folder of a domain; pass the one above, {folder}",
        str(tmp_path / "empty"): "has no contract <domain>/<name>.odcs.yaml",
        str(tmp_path / "nothing"): f"there is no folder {tmp_path / 'nothing'}$",
        "": "pass the path of a folder",
        3: "pass the path of a folder",
    }
    for given, message in refusals.items():
        with pytest.raises(tidegate.BadInput, match=message) as refused:
            tidegate.definitions(given)  # pyright: ignore[reportArgumentType]
        assert refused.value.field == "contracts"
        with pytest.raises(tidegate.BadInput, match=message):
            tidegate.find_contract("orders", given)  # pyright: ignore[reportArgumentType]
    assert tidegate.find_contract("orders", str(folder)).pipeline == "orders"
