"""Markdown tables."""

from collections.abc import Iterable


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; a `|` in a cell is escaped."""
    lines = [list(heads), *map(list, rows)]
    cells = [[cell.replace("|", r"\|").replace("\n", " ").strip() for cell in line] for line in lines]
    written = [f"| {' | '.join(line)} |\n" for line in cells]
    return "".join([written[0], f"|{'---|' * len(cells[0])}\n", *written[1:]])


def code(text: str) -> str:
    """Return `text` as code, whatever backticks it contains; an empty text for an empty one."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}" if text else ""
