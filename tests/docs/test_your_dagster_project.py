"""docs/how-to/your-dagster-project.md, walked like the tutorial, in an empty folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_tutorial import ROOT, Block, blocks, clone, run, walk
from tests.support.waiting import wait_for

__all__ = ["clone"]  # the fixture
PAGE = (ROOT / "docs" / "how-to" / "your-dagster-project.md").read_text()
PRODUCE = "tidegate produce web_page_views --count 100 --bad 0\n"
INIT = "tidegate init shop\ncd shop\n"
# One tick of the automation sensor before the table gets new rows, and one after.
AUTOMATION = """python - <<'END'
import subprocess
import dagster as dg
from definitions import defs

with dg.DagsterInstance.from_config(".") as instance:
    before = dg.evaluate_automation_conditions(defs=defs, instance=instance)
    for command in (
        "tidegate produce web_page_views --count 100 --bad 0",
        "dagster asset materialize -m definitions --select web/page_views",
    ):
        subprocess.run(command.split(), check=True)
    after = dg.evaluate_automation_conditions(defs=defs, instance=instance, cursor=before.cursor)
    print("requested", after.total_requested)
END
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of the page's project, empty, with this environment; stop its servers in the end."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / ".venv").symlink_to(Path(os.environ.get("VIRTUAL_ENV", ROOT / ".venv")))
    try:
        yield folder
    finally:
        run("tidegate ui down; tidegate stack down", folder)


@pytest.mark.longest
@pytest.mark.timeout(1200)
def test_the_page_does_what_it_says(shop: Path) -> None:
    assert INIT in PAGE
    *page, stop = blocks(PAGE.replace(INIT, "tidegate init\n"))
    walk(shop, [*page, Block("sh", AUTOMATION, None), Block("text", "requested 1\n", None)])
    walk(shop, [Block("sh", f"tidegate ui up\ntidegate ui reload\n{PRODUCE}", None)])
    wait_for(lambda: "web_page_views: 0 messages behind" in run("tidegate lag", shop).stdout, "the sensor starts a run")
    assert "1,200 messages" in run("tidegate verify web_page_views", shop).stdout
    walk(shop, [stop])


@pytest.mark.slow
def test_dg_scaffolds_an_asset_in_the_clone_and_dagster_loads_it(clone: Path) -> None:
    keys = "from platform_defs.definitions import defs; print(defs.resolve_asset_graph().get_all_asset_keys())"
    walk(clone, [Block("sh", f"dg scaffold defs dagster.asset x.py\npython -c '{keys}'\n", None)])
    assert "AssetKey(['x'])" in run(f"python -c '{keys}'", clone).stdout


def test_the_definitions_of_the_page_are_those_of_a_new_project() -> None:
    template = (ROOT / "platform_defs" / "new_project" / "templates" / "definitions.py.txt").read_text()
    (shown,) = (block.text for block in blocks(PAGE) if block.info == "python" and block.file is None)
    assert [line.partition("  #")[0] for line in template.splitlines() if '"""' not in line][1:] == [
        line.partition("  #")[0] for line in shown.splitlines()
    ]
