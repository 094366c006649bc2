"""`make bench`: messages per second of each path, the same messages, one machine, one run; then figures and aims.

    python -m bench [MESSAGES] [ROUNDS] [--quick] [--no-peers]

Where the stack is not running it is started, and stopped at the end, also when the benchmark is interrupted or cut off
by a time limit. Prints Markdown tables for docs/explanation/performance.md. The paths and their aims are those of
bench/paths.py, the peers those of bench/peers/measured.py; a figure that a module of its own measures is a line of
OTHERS.
"""

from collections.abc import Callable, Sequence

import typer
from rich.console import Console

from bench import start
from bench.aims import Figure, table
from bench.ending import ended_by_signals
from bench.paths import QUICK_AIMS
from bench.run import MESSAGES, compare

Other = Callable[[Callable[[str], None]], Sequence[Figure]]  # is given what shows progress; starts and ends its stack
OTHERS: tuple[Other, ...] = (start.figures,)
say = Console(stderr=True).print


def main(
    messages: int = typer.Argument(MESSAGES, min=1, help="In each topic."),
    rounds: int = typer.Argument(0, min=0, help="That count; 0: three, or two with --quick."),
    quick: bool = typer.Option(False, "--quick", help="Only the first aims, and the paths that they compare."),
    peers: bool = typer.Option(True, help="Whether others carry the topic as well, in the same rounds."),
) -> None:
    """Measure the paths, and print the results as Markdown."""
    with ended_by_signals():
        figures = _first(messages, rounds or 2) if quick else _all(messages, rounds or 3, peers=peers)
    print(f"\n{table(figures)}")


def _first(messages: int, rounds: int) -> list[Figure]:
    return compare(messages, rounds, say, only={name for aim in QUICK_AIMS for name in (aim.path, aim.against)})


def _all(messages: int, rounds: int, *, peers: bool) -> list[Figure]:
    figures = compare(messages, rounds, say, with_peers=peers)
    return [*figures, *(figure for other in OTHERS for figure in other(say))]


if __name__ == "__main__":
    typer.run(main)
