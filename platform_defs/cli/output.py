"""The output of every command: for a person through rich, for a program as one JSON document on stdout.

Progress and errors go to stderr, so that stdout has the answer alone. Text for a person may quote a message: it passes
`harmless`, and none of it is interpreted as rich's markup.
"""

import json
import sys
import unicodedata
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from platform_defs.errors import TidegateError

Answer = TypeVar("Answer")


class Output(StrEnum):
    """The forms of an answer."""

    human = "human"
    json = "json"


OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="Output format: text for people, or one JSON document.")
]


UNLIMITED = 100_000  # columns if stdout is no terminal

# Characters that hide or reorder text: direction marks and overrides, separators that only some terminals honour.
_HIDDEN = frozenset("\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2028\u2029\u2066\u2067\u2068\u2069\ufeff")


def harmless(text: str) -> str:
    """Return `text` safe for a terminal: without escape sequences and other controls (C0, C1, DEL), without characters
    that reorder it, without half a surrogate pair. Each of these is shown as \\x1b or \\u202e; line ends and tabs stay.
    """
    return "".join(_shown(one) for one in text) if not text.isascii() or not text.isprintable() else text


def _shown(one: str) -> str:
    if one in "\n\t":
        return one
    return ascii(one)[1:-1] if one in _HIDDEN or unicodedata.category(one) in ("Cc", "Cs") else one


def _text(value: Any) -> Text:
    return Text("-" if value is None else harmless(str(value)))


def print_json(document: Any) -> None:
    """Print one JSON document to stdout; values that JSON lacks (dates, decimals, UUIDs) as their text."""
    print(json.dumps(document, indent=2, default=str))  # noqa: T201 the answer itself


def print_json_line(document: Mapping[str, Any]) -> None:
    """Print one JSON document on a line of its own, at once: for a command that prints one for each event."""
    print(json.dumps(document, default=str), flush=True)  # noqa: T201 the answer itself


def print_line(text: str) -> None:
    """Print a line for a person to stdout (rich markup is not interpreted: names may hold brackets)."""
    Console(soft_wrap=True).print(_text(text))


def print_text(text: str) -> None:
    """Print a text to stdout as it is, a schema, say, which may go into a file; `harmless` on a terminal."""
    shown = harmless(text) if sys.stdout.isatty() else text
    print(shown.removesuffix("\n"))  # noqa: T201 the answer itself


def print_answer(document: Any, shown: str | Callable[[], None], output: Output) -> None:
    """Print an answer: a JSON document for a program; a sentence for a person, or what `shown` prints."""
    if output is Output.json:
        print_json(document)
    elif isinstance(shown, str):
        print_line(shown)
    else:
        shown()


def print_each(
    names: Iterable[str], show: Callable[[str], dict[str, Any]], output: Output
) -> Mapping[str, dict[str, Any]]:
    """Show each pipeline, or print one JSON document: that of the only name as it is; for several, `pipelines`, and
    `failed` with the errors. Return the documents by name. Exit with 1 at the end if one failed.
    """
    results, documents, failed = results_by_name(names, show), dict[str, dict[str, Any]](), list[dict[str, str]]()
    for name, result in results.items():
        if isinstance(result, TidegateError):
            failed.append({"pipeline": name, "message": str(result)})
        else:
            documents[name] = result
    if output is Output.json:
        shown = [*documents.values()]
        print_json(shown[0] if len(results) == 1 else {"pipelines": shown, "failed": failed})
    if failed:
        raise typer.Exit(1)
    return documents


def results_by_name(names: Iterable[str], answer: Callable[[str], Answer]) -> dict[str, Answer | TidegateError]:
    """Return the answer for each name, or the error in its place, which is also printed. Raises the error of a name
    that is the only one.
    """
    answers, several = dict[str, Answer | TidegateError](), list(dict.fromkeys(names))
    for name in several:
        try:
            answers[name] = answer(name)
        except TidegateError as error:
            if len(several) == 1:
                raise
            print_error(f"{name}: {error}")
            answers[name] = error
    return answers


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None, *, dense: bool = False
) -> None:
    """Print a table for a person to stdout; None is shown as a dash. Nothing is truncated: a terminal folds long cells,
    and elsewhere lines have any length. `dense`: one space between columns, not two.
    """
    table = Table(
        title=title, title_justify="left", box=None, pad_edge=False, collapse_padding=dense, header_style="bold"
    )
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(_text, row))
    console = Console()
    (console if console.is_terminal else Console(width=UNLIMITED)).print(table)


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print names and values under one another."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        lines = "-" if value is None else str(value).replace("\n", "\n" + " " * (width + 2))  # none looks like a field
        print_line(f"{name:<{width}}  {lines}")


def print_error(text: str) -> None:
    """Print one sentence to stderr."""
    Console(stderr=True, soft_wrap=True).print(_text(text))


@contextmanager
def progress() -> Generator[Callable[[str], None]]:
    """Yield a function that shows what is being done, on stderr: a spinner on a terminal, otherwise plain lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: print(harmless(text), file=sys.stderr, flush=True)  # noqa: T201 plain lines for logs
        return
    with console.status("...") as shown:

        def show(text: str) -> None:
            shown.update(_text(text))
            console.print(_text(text), style="dim")

        yield show
