"""Markdown tables."""

from collections.abc import Iterable


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a `|` in a cell is escaped."""
    lines = [list(heads), *map(list, rows)]
    cells = [[cell.replace("|", r"\|").replace("\n", " ").strip() for cell in line] for line in lines]
    written = [f"| {' | '.join(line)} |\n" for line in cells]
    return "".join([written[0], f"|{'---|' * len(cells[0])}\n", *written[1:]])


def code(text: str) -> str:
    """`text` as code, whatever backticks it holds; nothing where there is none."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}" if text else ""
