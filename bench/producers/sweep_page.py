"""The table and the plot of sweeps, in docs/explanation/producers.md between two marks."""

from collections.abc import Sequence
from dataclasses import astuple, fields
from pathlib import Path

from bench.producers.page import PAGE, between, machine, markdown_table, table_rows
from bench.producers.sweep_picture import sweep_picture
from bench.producers.sweeps import VARIED, Swept, settings_of

BEGIN, END = "<!-- bench.producers --vary: begin -->", "<!-- bench.producers --vary: end -->"
PICTURE = Path("images/producers-speed.svg")
COLUMNS = (
    *("varied", "value", "load", "rounds", "a second", "slowest", "fastest", "p50 ms", "p99 ms", "least p99 ms"),
    *("messages a batch", "bytes a batch", "bytes a message", "ratio"),
)


def write_sweeps(docs: Path, swept: Sequence[Swept]) -> None:
    """Update the page and the plot in this folder; rows of other settings stay. Raises BadInput as `between`."""
    before, old, after = between(docs / PAGE, BEGIN, END)
    every = merged(rows(old), swept)
    (docs / PAGE).write_text(f"{before}{BEGIN}\n\n{machine()}\n\n{table(every)}\n{END}{after}")
    (docs / PICTURE).write_text(sweep_picture(every))


def merged(old: Sequence[Swept], new: Sequence[Swept]) -> list[Swept]:
    """Return the rows of both in the order of VARIED; `new` ones replace old ones of the same setting."""
    found = {(one.vary, one.value, one.load): one for one in (*old, *new)}
    wanted = ((setting.vary, str(setting.value), setting.load) for setting in settings_of(["all"]))
    return [found[place] for place in wanted if place in found]


def table(swept: Sequence[Swept]) -> str:
    """Return a Markdown table, a row a setting."""
    return markdown_table(COLUMNS, map(astuple, swept))


def rows(text: str) -> list[Swept]:
    """Return the settings of a table that `table` wrote, wherever it is in the text."""
    return [_row(cells) for cells in table_rows(text) if cells[0] in VARIED]


def _row(cells: Sequence[str]) -> Swept:
    kinds = [float if field.type is float else int for field in fields(Swept)[3:]]
    numbers = [kind(cell.replace(",", "")) for kind, cell in zip(kinds, cells[3:], strict=True)]
    return Swept(cells[0], cells[1], cells[2], *numbers)  # pyright: ignore[reportArgumentType]  # of the fields' kinds
