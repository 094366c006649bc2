"""The gain from prefetch, staging the next batch while one is audited and published: with it and without, by turns.

    python -m bench.ahead [MESSAGES] [BATCHES] [ROUNDS]

Prints Markdown tables for docs/explanation/performance.md.
"""

from collections.abc import Callable

import typer

from bench import formats
from bench.ending import ended_by_signals, say, stack_up
from bench.paths import PARTITIONS, STAGED, TRANSFORMED, Bench, Path
from bench.rounds import conditions, measure, tables
from platform_defs.engine.commit import auditor
from platform_defs.engine.plan.budget import Budget


def main(
    messages: int = typer.Argument(2_000_000, min=1),
    batches: int = typer.Argument(4, min=1, help="That they make."),
    rounds: int = typer.Argument(3, min=1, help="That count; one more is cold."),
) -> None:
    """Measure, and print the results as Markdown."""
    with ended_by_signals(), stack_up(say):
        auditor.load()
        bench = Bench(messages, -(-messages // batches))
        try:
            formats.fill(bench.options, bench.topic, messages, PARTITIONS, (formats.JSON,))
            seen = measure(bench, PATHS, rounds, say)
        finally:
            bench.close()
    print(f"{conditions(messages, rounds)} {batches} batches.\n\n{tables(seen, PATHS)}")


def one_after_the_other(carry: Callable[[Bench], int]) -> Callable[[Bench], int]:
    """Return the same path without prefetch."""

    def alone(bench: Bench) -> int:
        bench.budget = Budget(ahead=False)
        try:
            return carry(bench)
        finally:
            bench.budget = Budget()

    return alone


PATHS = [
    path
    for name, carry in ((STAGED, Bench.staged), (TRANSFORMED, Bench.staged_with_transform))
    for path in (
        Path(name, carry, f"{name}; nothing ahead"),
        Path(f"{name}; nothing ahead", one_after_the_other(carry), None),
    )
]

if __name__ == "__main__":
    typer.run(main)
