"""docs/how-to/change-partitions.md, walked like the tutorial."""

from pathlib import Path

import pytest

from tests.docs.test_tutorial import ROOT, Block, blocks, clone, walk

__all__ = ["clone"]  # the fixture
PAGE = (ROOT / "docs" / "how-to" / "change-partitions.md").read_text()


def changed(block: Block, text: str) -> str:
    """Return the text with the diff applied, which has to fit."""
    lines = block.text.splitlines(keepends=True)
    before, behind = ("".join(line[1:] for line in lines if line[0] in f" {sign}") for sign in "-+")
    assert text.count(before) == 1
    return text.replace(before, behind)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_page_does_what_it_says(clone: Path) -> None:
    steps = list[Block]()
    for block in blocks(PAGE):
        if block.info == "diff":
            walk(clone, steps)
            path = clone / str(block.file)
            path.write_text(changed(block, path.read_text()))
            steps = []
        else:
            steps.append(block)
    walk(clone, steps)
