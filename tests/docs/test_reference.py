"""The reference pages agree with the code."""

import re
from pathlib import Path

import pytest

from tests.docs.reference import PART, PARTS, REFERENCE, ledger, pages, written


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)
def test_a_reference_page_is_what_the_code_says(path: Path) -> None:
    text = path.read_text()
    assert written(text) == text, "run `uv run python -m tests.docs.reference`"


def test_every_generated_part_is_on_a_page() -> None:
    named = [name for path in pages() for _, name, _ in PART.findall(path.read_text())]
    assert sorted(named) == sorted(PARTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PARTS))
def test_no_cell_of_a_reference_that_needs_words_is_empty(name: str) -> None:
    rows = [line for line in PARTS[name]().splitlines() if re.match(r"\| \S", line)]
    assert [row for row in rows if re.match(r"\|\s*\|", row)] == []
    if name in ("settings", "contract_keys"):
        assert [row for row in rows if not row.split(" | ")[1].strip()] == []


def test_the_ledger_page_has_every_table_and_column_of_the_migrations() -> None:
    page = (REFERENCE / "ledger.md").read_text()
    sections = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    row = re.compile(r"^\| `(\w+)` \| `([^`]+)` \| \S", re.MULTILINE)
    assert {name: row.findall(text) for name, text in sections if "|---|" in text} == ledger()
