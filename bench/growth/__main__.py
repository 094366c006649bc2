"""Does anything grow with the number of batches, or get slower?

    python -m bench.growth [--days 10] [--batches 2000] [--rounds 5] [--write]

Weeks of a trickle in minutes: a day is so many batches, and at its end the job `prune` runs with a retention of one
day. Then real batches are measured there, by turns with those on a new stack. Starts both stacks under TIDEGATE_HOME,
stops them at the end, and deletes what it wrote.
"""

import typer

from bench.ending import ended_by_signals, say
from bench.growth.measure import measure
from bench.growth.report import BEGIN, END, report
from bench.reports.page import write_between


def main(
    days: int = typer.Option(10, min=2, help="How many nights."),
    batches: int = typer.Option(2_000, min=200, help="Of a day."),
    rounds: int = typer.Option(5, min=1, help="How often real batches are measured."),
    write_page: bool = typer.Option(False, "--write", help="Put the tables into docs/explanation/performance.md."),
) -> None:
    """Measure what grows, and print the result as Markdown."""
    with ended_by_signals():
        text = report(measure(days, batches, rounds, say))
    print(text)  # the answer itself
    if write_page:
        write_between(BEGIN, text, END)


if __name__ == "__main__":
    typer.run(main)
