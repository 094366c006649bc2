"""The code as text: lines that fit a screen, folders that are not crowded."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("tidegate", "platform_defs", "resources", "assets", "defs", "tests", "bench", "docs")
FILES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def test_no_line_of_the_code_is_longer_than_120_characters() -> None:
    """Ruff allows a line that is long because of its pragma or its string."""
    lines = [(path, n, line) for path in FILES for n, line in enumerate(path.read_text().splitlines(), 1)]
    assert len(FILES) > 100
    assert [f"{path.relative_to(ROOT)}:{n}" for path, n, line in lines if len(line) > 120] == []


def test_no_folder_holds_more_than_twenty_python_files() -> None:
    files = Counter(path.parent.relative_to(ROOT) for path in FILES)
    assert {str(folder): count for folder, count in files.items() if count > 20} == {}
