"""A replay starts again only if what decides its result has changed. For code, that is what was imported."""

import gc
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from platform_defs.contract.model.contract import stem
from platform_defs.contract.model.digest import definitions_digest, transform_digest
from platform_defs.contract.model.transform_sources import changed_source, transform_sources
from platform_defs.engine.plan.replay_plan import fingerprint
from platform_defs.errors import BadInput
from platform_defs.settings.contracts import find_pipeline
from tests.unit.contract.test_catalogue import add, transform

pytestmark = pytest.mark.long


IMPORTS = """\
import json
import pyspark.sql
from lib import *
from assets.shop import rates, no_module
from assets.web.words import WORD
from assets.resources import units
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project whose transform imports rates (which imports more), words, and what it never runs."""
    assets = tmp_path / "project" / "assets"
    assets.mkdir(parents=True)
    files = {
        "lib.py": "import lib2.inner",
        "lib2/__init__.py": "",
        "lib2/inner.py": "from . import beside",
        "lib2/beside.py": "import lib  # in a circle",
        "assets/__init__.py": "",
        "assets/shop/rates.py": "from ..web import more",
        "assets/shop/sibling.py": "",
        "assets/resources/units.py": "import platform_defs.settings.settings, assets.shop.platform_defs.inner",
        "assets/shop/platform_defs/inner.py": "",
        "assets/web/words.py": "WORD = 1",
        "assets/web/more.py": "def broken(:",
        "platform_defs/__init__.py": "",
        "platform_defs/settings/settings.py": "",
        ".venv/lib/site-packages/json/__init__.py": "",
    }
    for name, text in files.items():
        path = assets.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lazily = "".join(f"    {line}\n" for line in IMPORTS.replace("from lib import *", "import lib").splitlines())
    transform(add(assets, "orders"), f"import platform_defs\ndef transform(messages):\n{lazily}    return messages\n")
    return assets.parent


def of(project: Path, shapes: tuple[str, ...] = ("shape",), from_batch: int = 1) -> str:
    return fingerprint(find_pipeline("orders", project / "assets"), from_batch, shapes)


def test_it_covers_the_transform_and_what_that_imports_from_the_project(project: Path) -> None:
    assert [name for name, _ in find_pipeline("orders", project / "assets").sources] == [
        "assets/__init__.py",
        "assets/resources/units.py",
        "assets/shop/orders.py",
        "assets/shop/platform_defs/inner.py",
        "assets/shop/rates.py",
        "assets/web/more.py",
        "assets/web/words.py",
        "lib.py",
        "lib2/__init__.py",
        "lib2/beside.py",
        "lib2/inner.py",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "assets/__init__.py",
        "assets/shop/orders.py",
        "assets/shop/rates.py",
        "assets/web/more.py",
        "lib2/beside.py",
        "lib2/__init__.py",
    ],
)
def test_a_changed_source_changes_it(project: Path, name: str) -> None:
    before, path = of(project), project / name
    path.write_text(f"{path.read_text()}\n# changed\n")
    assert of(project) != before


@pytest.mark.parametrize("name", ["assets/shop/sibling.py", "platform_defs/__init__.py"])
def test_a_sibling_does_not(project: Path, name: str) -> None:
    before = of(project)
    (project / name).write_text("# changed\n")
    add(project / "assets", "another")
    assert of(project) == before


def test_another_checkout_does_not(project: Path, tmp_path: Path) -> None:
    before = of(project)
    shutil.move(project, tmp_path / "elsewhere")
    assert of(tmp_path / "elsewhere") == before


def test_a_comment_in_the_contract_does_not_and_a_rule_does(project: Path) -> None:
    before, path = of(project), project / "assets" / "shop" / "orders.odcs.yaml"
    text = path.read_text()
    path.write_text(f"# a comment\n{text}")
    assert of(project) == before
    path.write_text(text.replace("required: true}", "required: true, logicalTypeOptions: {maxLength: 9}}", 1))
    assert of(project) != before


def test_the_tables_and_the_beginning_do(project: Path) -> None:
    assert len({of(project), of(project, ("other",)), of(project, ("shape", "more")), of(project, from_batch=2)}) == 4


def test_without_a_transform_there_are_no_sources(tmp_path: Path) -> None:
    add(tmp_path, "orders")
    assert find_pipeline("orders", tmp_path).sources == ()


def test_it_is_of_the_code_that_was_imported_whatever_becomes_of_its_files(project: Path) -> None:
    running = find_pipeline("orders", project / "assets")
    before = transform_digest(running), definitions_digest([running]), fingerprint(running, 1, ())
    (project / "assets/shop/orders.py").write_text("def transform(messages):\n    return messages.limit(1)\n")
    (project / "assets/shop/rates.py").unlink()
    assert (transform_digest(running), definitions_digest([running]), fingerprint(running, 1, ())) == before
    assert transform_digest(find_pipeline("orders", project / "assets")) != before[0]


def test_a_module_that_stays_imported_is_what_it_was(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transform is imported again each time; the modules that it imports are not."""
    monkeypatch.syspath_prepend(project)
    (project / "rate_of_vat.py").write_text("RATE = 1\n")
    text = "import rate_of_vat\ndef transform(messages):\n    return rate_of_vat.RATE\n"
    path = transform(add(project / "assets", "bills"), text)
    first = find_pipeline("bills", project / "assets")
    assert changed_source(first) is None
    try:
        (project / "rate_of_vat.py").write_text("RATE = 2\n")
        again = find_pipeline("bills", project / "assets")
        assert [one.transform(None) for one in (first, again) if one.transform] == [1, 1]  # pyright: ignore
        assert transform_digest(again) == transform_digest(first)
        assert changed_source(first) == changed_source(again) == "rate_of_vat.py"
    finally:
        del sys.modules["rate_of_vat"]
    assert transform_digest(find_pipeline("bills", project / "assets")) != transform_digest(first)
    path.write_text(f"{text}# changed\n")
    (project / "rate_of_vat.py").write_text("RATE = 1\n")
    assert changed_source(first) is None  # workers get the transform itself from the run


def test_a_file_that_changes_while_it_is_imported_is_refused(project: Path) -> None:
    contract = add(project / "assets", "bills")
    rewrites = "import pathlib\npathlib.Path(__file__).write_text('def transform(messages): ...')\n"
    transform(contract, f"{rewrites}def transform(messages):\n    return messages\n")
    with pytest.raises(BadInput, match=rf"{stem(contract)}.py changed while it was being imported"):
        find_pipeline("bills", project / "assets")
    assert find_pipeline("bills", project / "assets").transform is not None


def test_a_change_of_what_a_transform_imports_changes_the_digest_of_definitions(project: Path) -> None:
    first = definitions_digest([find_pipeline("orders", project / "assets")])
    assert definitions_digest([find_pipeline("orders", project / "assets")]) == first
    (project / "assets/web/words.py").write_text("WORD = 2")
    assert definitions_digest([find_pipeline("orders", project / "assets")]) != first


@pytest.fixture
def finalizers() -> Iterator[None]:
    """Run Python code in each garbage collection, as finalizers do: other threads may continue there."""

    def finalize(*_: object) -> None:
        sum(range(200))

    gc.callbacks.append(finalize)
    yield
    gc.callbacks.remove(finalize)


@pytest.mark.slow
@pytest.mark.usefixtures("finalizers")
def test_pipelines_of_several_threads_are_read_at_once(project: Path) -> None:
    (project / "assets/web/words.py").write_text("def function(a):\n    return [a + 1, {'b': a}]\n" * 1500)
    pipeline = find_pipeline("orders", project / "assets")
    with ThreadPoolExecutor(4) as threads:
        found = [*threads.map(transform_sources, [pipeline.contract] * 8)]
    assert found == found[:1] * 8
