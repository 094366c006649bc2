"""How every command answers: for a person through rich, for a program as one JSON document on stdout.

Progress and errors go to stderr, so that stdout holds the answer alone.
"""

import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


class Output(StrEnum):
    """The forms of an answer."""

    human = "human"
    json = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="For people, or one JSON document.")]


def print_json(document: Any) -> None:
    """Print one JSON document to stdout; values that JSON lacks (dates, decimals, UUIDs) as their text."""
    print(json.dumps(document, indent=2, default=str))  # noqa: T201 the answer itself


def print_line(text: str) -> None:
    """Print a line for a person to stdout (rich markup is not interpreted: names may hold brackets)."""
    Console(soft_wrap=True).print(text, markup=False, highlight=False)


def print_text(text: str) -> None:
    """Print a text to stdout as it is: a schema, say, which may go into a file."""
    print(text.removesuffix("\n"))  # noqa: T201 the answer itself


def print_answer(document: Mapping[str, Any], sentence: str, output: Output) -> None:
    """Print an answer that is one sentence for a person, and a JSON document for a program."""
    if output is Output.json:
        print_json(document)
    else:
        print_line(sentence)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    """Print a table for a person to stdout; None is shown as a dash."""
    table = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*("-" if value is None else str(value) for value in row))
    Console().print(table)


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print names and values under one another."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        print_line(f"{name:<{width}}  {'-' if value is None else value}")


def print_error(text: str) -> None:
    """Print one sentence to stderr."""
    Console(stderr=True, soft_wrap=True).print(text, markup=False, highlight=False)


@contextmanager
def progress() -> Generator[Callable[[str], None]]:
    """Yield a function that shows what is being done, on stderr: a spinner on a terminal, otherwise plain lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: print(text, file=sys.stderr, flush=True)  # noqa: T201 plain lines for logs
        return
    with console.status("...") as shown:

        def show(text: str) -> None:
            shown.update(text)
            console.print(text, style="dim", markup=False, highlight=False)

        yield show
