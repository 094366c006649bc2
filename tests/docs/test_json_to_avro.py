"""docs/how-to/json-to-avro.md, walked like the tutorial, by a pipeline that has read JSON."""

import re
from pathlib import Path

import pytest

from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.reader.odcs import load
from tests.docs.test_tutorial import ROOT, Block, blocks, clone, walk

__all__ = ["clone"]  # the fixture
PAGE = (ROOT / "docs" / "how-to" / "json-to-avro.md").read_text()
BEFORE = """tidegate stack up
tidegate produce web_page_views --count 200 --bad 0
dagster asset materialize -m platform_defs.definitions --select 'group:"web"'
"""
ROWS = """python -c '
import psycopg
from platform_defs.stack.endpoints import connection
with psycopg.connect(connection().postgres_url) as session:
    print(session.execute("select count(*), count(distinct event_id) from web.page_views").fetchone())
'
"""


def changed(block: Block, text: str) -> str:
    """Return the text with each line that a diff removes replaced by the one behind it."""
    pairs = re.findall(r"^-(.*)\n\+(.*)$", block.text, re.MULTILINE)
    assert len(pairs) == 3
    for old, new in pairs:
        assert f"{old}\n" in text
        text = text.replace(f"{old}\n", f"{new}\n", 1)
    return text


def contract_of(page: list[Block]) -> Block:
    (found,) = (block for block in page if block.info == "diff")
    return found


@pytest.mark.longest
@pytest.mark.timeout(900)
def test_the_page_does_what_it_says(clone: Path) -> None:
    page = blocks(PAGE)
    at, diff = page.index(contract_of(page)), contract_of(page)
    walk(clone, [Block("sh", BEFORE, None), *page[:at]])
    path = clone / str(diff.file)
    path.write_text(changed(diff, path.read_text()))
    walk(clone, [*page[at + 1 :], Block("sh", ROWS, None), Block("text", "(300, 300)\n", None)])


def test_the_contract_of_the_page_is_what_it_says_of_it(tmp_path: Path) -> None:
    diff = contract_of(blocks(PAGE))
    shipped = ROOT / str(diff.file)
    path = tmp_path / "page_views.odcs.yaml"
    path.write_text(changed(diff, shipped.read_text()))
    old, new = load(shipped), load(path)
    assert (new.format, new.topic, new.row_table) == ("avro", "web.page_views.avro", old.row_table)
    found = plan(old, new)
    assert found.version_mistake is None
    assert found.statements == ()
