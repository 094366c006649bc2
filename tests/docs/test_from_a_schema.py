"""docs/how-to/from-a-schema.md, walked like the tutorial: from a registered schema to rows, and from a contract."""

import re
from pathlib import Path

import pytest

from platform_defs.contract.reader.odcs import load
from tests.docs.test_tutorial import ROOT, blocks, clone, walk

__all__ = ["clone"]  # the fixture
PAGE = ROOT / "docs" / "how-to" / "from-a-schema.md"
COMMANDS = (ROOT / "docs" / "reference" / "cli.md").read_text()


@pytest.mark.longest
@pytest.mark.timeout(900)
def test_the_page_does_what_it_says(clone: Path) -> None:
    walk(clone, blocks(PAGE.read_text()))


def test_from_a_registered_schema_to_rows_takes_five_commands() -> None:
    first = PAGE.read_text().partition("## Begin with a contract")[0].partition("it takes five commands")[2]
    commands = [line for block in blocks(first) if block.info == "sh" for line in block.text.splitlines()]
    assert [" ".join(line.split()[:3]) for line in commands] == [
        "tidegate contract import",
        "tidegate contract check",
        "tidegate produce market_orders",
        "dagster asset materialize",
        "tidegate verify market_orders",
    ]


def test_the_commands_of_the_page_are_in_the_reference_with_their_options() -> None:
    for name, rest in re.findall(r"^tidegate ([a-z]+(?: [a-z]+)?)(.*)$", PAGE.read_text(), re.MULTILINE):
        sections = [name, name.partition(" ")[0]]
        (section, *_) = [one for one in sections if f"## tidegate {one}\n" in COMMANDS]
        text = COMMANDS.partition(f"## tidegate {section}\n")[2].partition("\n## ")[0]
        assert [option for option in re.findall(r"--[a-z-]+", rest) if f"`{option}" not in text] == []


def test_the_contract_of_the_page_loads(tmp_path: Path) -> None:
    (contract,) = (block for block in blocks(PAGE.read_text()) if block.info == "yaml")
    path = tmp_path / "refunds.odcs.yaml"
    path.write_text(contract.text)
    assert load(path).wire.subject == "market.refunds-value"
