"""The speed of peers that carry the same topic into the same database, beside us and a loop written by hand, in one
run.

    python -m bench.peers [MESSAGES] [ROUNDS]

Each peer is in its own environment below TIDEGATE_HOME, which is kept, with the versions in bench/peers/versions.py. A
peer that is unavailable, as without a network, is skipped. What was started is stopped at the end.
"""

import typer

from bench.ending import ended_by_signals, say
from bench.paths import BY_HAND, STAGED
from bench.reports.aims import table
from bench.run import MESSAGES, compare


def main(
    messages: int = typer.Argument(MESSAGES, min=1, help="In the topic."),
    rounds: int = typer.Argument(3, min=1, help="That count; one more, cold, does not."),
) -> None:
    """Measure ours, by hand and the peers, and print the results as Markdown."""
    with ended_by_signals():
        result = compare(messages, rounds, say, only={STAGED, BY_HAND}, with_peers=True).result
    print(f"{result.text}\n\n{table(result.figures)}")


if __name__ == "__main__":
    typer.run(main)
