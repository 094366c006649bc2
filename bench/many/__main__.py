"""Many pipelines at once: do any starve, and what do they cost when nothing happens?

    python -m bench.many [--pipelines 200] [--minutes 10] [--idle 60] [--write]

Starts a stack and Dagster of its own under TIDEGATE_HOME, stops both at the end, and deletes what they wrote.
"""

import typer

from bench.ending import ended_by_signals, say
from bench.many.measure import measure
from bench.many.report import BEGIN, END, report
from bench.reports.page import write_between


def main(
    pipelines: int = typer.Option(200, min=5, max=999, help="How many, three of them broken."),
    minutes: float = typer.Option(10.0, min=0.1, help="For how long messages are sent."),
    idle: float = typer.Option(60.0, min=1, help="Seconds without messages at the end, for the idle CPU."),
    write_page: bool = typer.Option(False, "--write", help="Put the tables into docs/explanation/performance.md."),
) -> None:
    """Measure many pipelines at once and print the result as Markdown."""
    with ended_by_signals():
        text = report(measure(pipelines, minutes, idle, say))
    print(text)
    if write_page:
        write_between(BEGIN, text, END)


if __name__ == "__main__":
    typer.run(main)
