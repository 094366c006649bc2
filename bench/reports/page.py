"""The page of the benchmarks' results: docs/explanation/performance.md."""

from pathlib import Path
from textwrap import fill

from platform_defs.settings.settings import PROJECT_ROOT

IMAGES = PROJECT_ROOT / "docs" / "images"
PAGE = PROJECT_ROOT / "docs" / "explanation" / "performance.md"
WIDTH = 120  # of a page's lines
_WHOLE = ("|", "#", "!", " ")  # tables, headings, images: lines that stay as they are


def write_between(begin: str, text: str, end: str, page: Path = PAGE) -> None:
    """Put `text`, its long lines broken, between two lines of the page. Raises ValueError if they are missing."""
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no lines {begin} and {end} to write between")
    lines = [line if line.startswith(_WHOLE) else fill(line, WIDTH) for line in text.split("\n")]
    broken = "\n".join(lines)
    page.write_text(f"{before}{begin}\n\n{broken}\n{end}{after}")


def draw(name: str, shows: str, plot: str) -> str:
    """Keep an SVG among the images of the docs. Return the page's line that shows it, described as `shows`."""
    (IMAGES / name).write_text(plot)
    return f"![{shows}](../images/{name})"
