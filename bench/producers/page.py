"""The tables and the picture of docs/explanation/producers.md, between two marks; rows of other pairs are kept."""

import os
import platform
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from datetime import UTC, datetime
from pathlib import Path

from bench.producers.faults import FAULTS
from bench.producers.measured import Measured
from bench.producers.picture import picture
from platform_defs.errors import BadInput
from platform_defs.producer_options.presets import PRESETS

BEGIN, END = "<!-- bench.producers: begin -->", "<!-- bench.producers: end -->"
PAGE, PICTURE = Path("explanation/producers.md"), Path("images/producers.svg")
COLUMNS = (
    *("preset", "fault", "rounds", "fired", "sent", "delivered", "failed", "lost", "doubled", "reordered", "ghosts"),
    *("a second", "p50 ms", "p99 ms", "max ms", "stall ms"),
)


def write(docs: Path, measured: Sequence[Measured]) -> None:
    """Update the page and the picture in this folder with new measurements. Raises BadInput as `between`."""
    before, old, after = between(docs / PAGE, BEGIN, END)
    every = merged(rows(old), measured)
    (docs / PAGE).write_text(f"{before}{BEGIN}\n\n{machine()}\n\n{table(every)}\n{END}{after}")
    (docs / PICTURE).write_text(picture(every))


def between(page: Path, begin: str, end: str) -> tuple[str, str, str]:
    """Return the page's text before, between and after the marks. Raises BadInput if the page or its marks are
    missing.
    """
    text = page.read_text() if page.exists() else ""
    if begin not in text or end not in text:
        raise BadInput(f"{page} lacks the lines {begin} and {end}; the measurements go between them")
    before, rest = text.split(begin)
    old, after = rest.split(end)
    return before, old, after


def merged(old: Sequence[Measured], new: Sequence[Measured]) -> list[Measured]:
    """Return the rows of both by fault and preset; `new` ones replace old ones of the same pair."""
    by_pair = {(one.fault, one.preset): one for one in (*old, *new)}
    return [by_pair[fault, preset] for fault in FAULTS for preset in PRESETS if (fault, preset) in by_pair]


def table(measured: Sequence[Measured]) -> str:
    """Return a Markdown table, a row a pair."""
    return markdown_table(COLUMNS, map(astuple, measured))


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str | int | float]]) -> str:
    """Return a Markdown table; numbers have commas between thousands."""
    texts = ([value if isinstance(value, str) else f"{value:,}" for value in row] for row in rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in (columns, ["---"] * len(columns), *texts))


def rows(text: str) -> list[Measured]:
    """Return the pairs of a table that `table` wrote, wherever it is in the text."""
    return [_row(cells) for cells in table_rows(text) if cells[0] in PRESETS]


def table_rows(text: str) -> list[list[str]]:
    """Return the cells of each row of the tables in a text."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def _row(cells: Sequence[str]) -> Measured:
    kinds = [float if field.name.endswith("_ms") else int for field in fields(Measured)[2:]]
    numbers = [kind(cell.replace(",", "")) for kind, cell in zip(kinds, cells[2:], strict=True)]
    return Measured(cells[0], cells[1], *numbers)  # pyright: ignore[reportArgumentType]  # by the kinds of its fields


def machine() -> str:
    """Return the sentence about the time and the machine of a measurement."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    kind = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    text = (
        f"Last written {datetime.now(UTC).date()}; {os.cpu_count()} cores ({platform.machine()}, {kind}), Python "
        f"{platform.python_version()}, three brokers and the producer on the same cores."
    )
    return textwrap.fill(text, 119)
