"""Every line of the code fits a screen: ruff lets a line through that is long by its pragma or its string."""

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_no_line_of_the_code_is_longer_than_120_characters() -> None:
    rooms = ("platform_defs", "resources", "assets", "tests", "bench", "docs")
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    lines = [(path, n, line) for path in files for n, line in enumerate(path.read_text().splitlines(), 1)]
    assert len(files) > 100
    assert [f"{path.relative_to(ROOT)}:{n}" for path, n, line in lines if len(line) > 120] == []
