"""The site builds without a warning: every page is in a table of contents, every internal link leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    (command,) = re.findall(r"python -m sphinx (.*) docs \.site", makefile)
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *command.split(), "docs", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    assert "ten minutes" in (tmp_path / "index.html").read_text()


def test_no_line_of_a_page_is_longer_than_120_characters() -> None:
    """Except tables, which Markdown cannot write in another way, and commands, which are copied line by line."""
    lines = [(page, n, line) for page in PAGES for n, line in enumerate(page.read_text().splitlines(), 1)]
    assert [
        (page.name, n) for page, n, line in lines if len(line) > 120 and not line.startswith(("|", "tidegate "))
    ] == []
