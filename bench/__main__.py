"""`make bench`: messages per second of each path, the same messages, one machine, one run; then figures and aims.

    python -m bench [MESSAGES] [ROUNDS] [--quick] [--no-peers] [--write]

Starts the stack if it is not running, and stops it at the end, also when the benchmark is interrupted or ended by a
time limit. Prints Markdown tables for docs/explanation/performance.md. The paths and their aims are in bench/paths.py,
the peers in bench/peers/measured.py; a figure that a separate module measures is a line in OTHERS, and in QUICK_OTHERS
if `make bench-quick` is to measure it as well.
"""

from collections.abc import Callable, Mapping

import typer

from bench import latency, sizes, start, verify
from bench.ending import ended_by_signals, say
from bench.paths import QUICK_AIMS
from bench.reports import picture
from bench.reports.aims import Result, table
from bench.reports.page import draw, write_between
from bench.run import MESSAGES, Compared, compare

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
# Takes a progress callback, and the number of messages for a path; starts and ends its stack.
Other = Callable[[Callable[[str], None], int], Result]
OTHERS: Mapping[str, Other] = {
    "More messages at once": sizes.result,
    "Verify": verify.result,
    "Start": start.result,
    "Low latency": latency.result,
}
QUICK_OTHERS: Mapping[str, Other] = {"Low latency": latency.idle_result}


def main(
    messages: int = typer.Argument(MESSAGES, min=1, help="In each topic of the paths; others have more."),
    rounds: int = typer.Argument(0, min=0, help="That count; 0: three, or two with --quick."),
    quick: bool = typer.Option(False, "--quick", help="Only the first aims, and what they need."),
    peers: bool = typer.Option(True, help="Whether others carry the topic as well, in the same rounds."),
    write: bool = typer.Option(False, "--write", help="Put tables and plots into docs/explanation/performance.md."),
) -> None:
    """Measure the paths, and print the results as Markdown."""
    with ended_by_signals():
        compared = _first(messages, rounds or 2) if quick else compare(messages, rounds or 3, say, with_peers=peers)
        print(compared.result.text)
        others = {name: _printed(other, messages) for name, other in (QUICK_OTHERS if quick else OTHERS).items()}
    everything = [compared.result, *others.values()]
    figures = [figure for one in everything for figure in one.figures]
    print(f"\n{table(figures)}")
    if write:
        aims = draw("bench-aims.svg", "The share of its aim that each figure reaches", picture.aims(figures))
        parts = [compared.result.text, compared.draw(), table(figures), aims]
        parts += [f"### {name}\n\n{other.text}" for name, other in others.items()]
        write_between(BEGIN, "\n\n".join(parts) + "\n", END)


def _first(messages: int, rounds: int) -> Compared:
    return compare(messages, rounds, say, only={name for aim in QUICK_AIMS for name in (aim.path, aim.against)})


def _printed(other: Other, messages: int) -> Result:
    found = other(say, messages)
    print(f"\n{found.text}")
    return found


if __name__ == "__main__":
    typer.run(main)
