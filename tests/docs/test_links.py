"""Files, functions, tests and halts that the pages point at exist."""

import re
from pathlib import Path

import pytest

from platform_defs.errors.halts import DETAILS

ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
GUARANTEES = (ROOT / "docs" / "explanation" / "guarantees.md").read_text()
# `name`, or `one` and `another`, with the file right behind: `name` (engine/x.py), (`name`, resources/x.py)
PLACED = re.compile(r"((?:`[\w.]+`(?:,\s+|\s+and\s+)?)+)[,\s(]+([\w/]+\.py)")


def test_every_relative_link_of_the_pages_leads_to_a_file() -> None:
    links = [
        (page, link) for page in PAGES for link in re.findall(r"\]\(([^)\s#]+)", page.read_text()) if "://" not in link
    ]
    missing = [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert links
    assert missing == []


def test_every_function_that_the_guarantees_name_is_in_the_file_beside_it() -> None:
    named = [(name, path) for names, path in PLACED.findall(GUARANTEES) for name in re.findall(r"`([\w.]+)`", names)]
    strays = [f"{name} in {path}" for name, path in named if not _defines(_file(path), name.split(".")[-1])]
    assert len(named) > 15
    assert strays == []


def test_every_file_and_every_test_that_the_guarantees_name_is_there() -> None:
    assert [
        path
        for path in re.findall(r"[\w./]+/\w+\.(?:py|sql)", GUARANTEES)
        if not _file(path.removeprefix("../")).exists()
    ] == []
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in re.findall(r"`(test_\w+)`", GUARANTEES) if f"def {name}(" not in tests] == []


@pytest.mark.parametrize("code", DETAILS)
def test_every_halt_stands_in_the_table_of_operations(code: str) -> None:
    assert f"\n| `{code}` | " in (ROOT / "docs" / "how-to" / "halts.md").read_text()


def _file(path: str) -> Path:
    inside = ROOT / "platform_defs" / path  # engine/x.py
    return inside if inside.exists() else ROOT / path


def _defines(path: Path, name: str) -> bool:
    return re.search(rf"(?:def|class) {name}\b", path.read_text()) is not None


def test_the_guarantees_name_every_fault_class_with_its_scenarios_and_no_other() -> None:
    from tests.chaos.catalogue import SCENARIOS
    from tests.chaos.fault_classes import FaultClass

    chapter = GUARANTEES.partition("## Fault by fault")[2].partition("\n## ")[0]
    named = {
        heading: re.findall(r"^  - `([^`]+)`$", text.partition("\n- Scenarios:\n")[2], re.MULTILINE)
        for heading, text in (part.split("\n", 1) for part in chapter.split("\n### ")[1:])
    }
    of_class = {of: sorted(name for name in SCENARIOS if SCENARIOS[name].fault_class == of) for of in FaultClass}
    assert {heading: sorted(names) for heading, names in named.items()} == {
        f"{of[0].upper()}{of[1:]}": names for of, names in of_class.items()
    }
    assert chapter.count("\n  - ") == sum(map(len, named.values()))  # an entry of another form would be missed
