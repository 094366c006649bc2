"""`tidegate demo delivery`: at most once, at least once and exactly once, through the same crashes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_answer, print_line, print_table, progress
from platform_defs.cli.signals import exiting_at_signals


def delivery(
    seed: int | None = typer.Option(
        None, min=0, help="Repeat the transfers and crashes of an earlier run.", show_default="random"
    ),
    keep: bool = typer.Option(False, "--keep", help="Keep the topic and the tables until the next run."),
    output: OutputOption = Output.human,
) -> None:
    """Kill three consumers of the same messages; count losses and duplicates.

    Money transfers are sent to the topic tidegate.demo.transfers. Three
    consumers read them, one after the other, and write two postings for each
    transfer. One uses enable.auto.commit (at most once). One commits offsets
    after it has written the postings (at least once). One keeps its position
    in Postgres and updates it in the transaction that writes the postings
    (exactly once, like Tidegate's engine). Each consumer is a process that is
    killed (SIGKILL) at the same places and restarted until it has read
    everything. The tables are in the schema tidegate_demo. The topic, the
    groups and the schema are deleted at the end, also after Ctrl-C.

    The demo takes about 20 seconds, and starts the embedded stack if needed.
    The exit code is 1 if a consumer violates its delivery semantics, or if
    something could not be deleted.

    \b
    JSON:
      seed       for --seed
      batch      messages that a consumer reads at once
      crashes    transfer (its number, from 1), place (between_postings or
                 after_postings)
      consumers  semantics (at_most_once, at_least_once or exactly_once),
                 crashes, transfers (that were sent),
                 lost (transfers with a missing posting),
                 duplicated (transfers with a duplicate posting),
                 balances_sum (0.00 if debits equal credits),
                 seconds, as_promised
      left       what could not be deleted, and why, as sentences
      seconds    total duration
    """
    import secrets

    from platform_defs.demo.delivery import DeliveryDemo
    from platform_defs.stack import stack
    from platform_defs.stack.endpoints import connection

    chosen = secrets.randbelow(1_000_000) if seed is None else seed
    with exiting_at_signals(), progress() as show:
        stack.up(show)
        report = DeliveryDemo(endpoints=connection(), seed=chosen, show=show, keep=keep).run()
    print_answer(report, lambda: _print(report, keep=keep), output)
    if report["left"] or not all(one["as_promised"] for one in report["consumers"]):
        raise typer.Exit(1)


def _print(report: Mapping[str, Any], *, keep: bool) -> None:
    from platform_defs.demo.delivery import TOPIC, name_of
    from platform_defs.demo.ledger import SCHEMA

    counts = ("crashes", "transfers", "lost", "duplicated", "balances_sum", "seconds")
    rows = [(name_of(one["semantics"]), *(one[count] for count in counts)) for one in report["consumers"]]
    print_line("")
    print_table(("semantics", *counts[:4], "sum of balances", "seconds"), rows)
    print_line("")
    print_line("lost: transfers with a missing posting. duplicated: transfers with a posting written twice.")
    print_line(f"To repeat this run: tidegate demo delivery --seed {report['seed']}")
    if keep:
        print_line(f"Kept until the next run: the topic {TOPIC}, and the schema {SCHEMA} in Postgres")
