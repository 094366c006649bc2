"""`tidegate demo`: the whole way once, with the commands that a user would type, and a report of the result.

Each run adds transfers; the report is about all of them, from the tables and the broker, not from what was sent.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, progress
from platform_defs.errors import TidegateError

app = typer.Typer(add_completion=False)

PIPELINE = "bank_transfers"
SELECTION = 'group:"bank"'


@app.command()
def demo(
    count: int = typer.Option(200_000, min=1, help="How many transfers this run adds."),
    output: OutputOption = Output.human,
) -> None:
    """Start the stack, produce transfers, materialize them, and report.

    Each run adds transfers; the report is about all of them. The exit code is
    1 where a message is lost or doubled, or some are left unread.

    \b
    JSON:
      messages, postings, dead_letters, accounts
      dead_letters_by_reason
      balances_sum         0 where every transfer is posted on both accounts
      exact                every message is two postings or one dead letter
      lag                  unread messages
      messages_per_second  in the last batch
      sent                 the answer of tidegate produce
      seconds              total duration
    """
    report = _run(count)
    if output is Output.json:
        print_json(report)
    else:
        _print(report)
    if not report["exact"] or report["lag"]:
        raise typer.Exit(1)


def _run(count: int) -> dict[str, Any]:
    from resources.endpoints import connection
    from resources.local import stack
    from resources.settings import settings

    started = time.monotonic()
    with progress() as show:
        stack.up(show)
        sent = _produce(count, show)
        _materialize(settings().home / "logs" / "demo.log", show)
    answer = {**_report(connection().postgres_url), "lag": _lag(), "sent": sent}
    return {**answer, "seconds": round(time.monotonic() - started, 1)}


def _produce(count: int, show: Callable[[str], None]) -> dict[str, Any]:
    command = ["tidegate", "produce", PIPELINE, "--count", str(count), "-o", "json"]
    show(f"$ {shlex.join(command[:-2])}")
    return json.loads(_output_of(command))


def _lag() -> int:
    return json.loads(_output_of(["tidegate", "lag", PIPELINE, "-o", "json"]))["lag"]


def _output_of(command: list[str]) -> str:
    done = subprocess.run([_installed(command[0]), *command[1:]], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise TidegateError(f"`{shlex.join(command)}` failed (exit code {done.returncode}); see its output above")
    return done.stdout


def _materialize(log: Path, show: Callable[[str], None]) -> None:
    """Materialize as a user would; the output of Dagster and Spark goes to `log`, the batches are shown."""
    command = ["dagster", "asset", "materialize", "-m", "platform_defs.definitions", "--select", SELECTION]
    show(f"$ {shlex.join(command)}")
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("w") as kept,
        subprocess.Popen(
            [_installed(command[0]), *command[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "DAGSTER_DISABLE_TELEMETRY": "1"},
        ) as run,
    ):
        assert run.stdout is not None  # noqa: S101  # a pipe was asked for
        for line in run.stdout:
            kept.write(line)
            if ": batch " in line:
                show("  " + line.rpartition(" - ")[2].strip())
    if run.returncode:
        last = "".join(log.read_text().splitlines(keepends=True)[-15:])
        raise TidegateError(f"materializing failed. The end of {log}:\n{last}")


def _installed(program: str) -> str:
    """A program of this environment, whether or not it is active."""
    return str(Path(sys.executable).with_name(program))


def _report(url: str) -> dict[str, Any]:
    """What the tables say, in one snapshot."""
    from resources.postgres.demo import read_totals

    totals, reasons = read_totals(url)
    sums = None if totals.balances_sum is None else str(totals.balances_sum)
    return {**asdict(totals), "balances_sum": sums, "dead_letters_by_reason": reasons, "exact": totals.exact}


def _print(report: dict[str, Any]) -> None:
    print_line("")
    print_fields(
        {
            "messages": f"{report['messages']:,}, of which {report['sent']['produced']:,} by this run",
            "postings": f"{report['postings']:,}, two for each transfer",
            "dead letters": f"{report['dead_letters']:,}",
            **{f"  {reason}": f"{count:,}" for reason, count in report["dead_letters_by_reason"].items()},
            "balances": f"of {report['accounts']:,} accounts, sum {report['balances_sum']}",
            "lag": report["lag"],
            "speed": f"{report['messages_per_second']:,} messages a second in the last batch (Spark was cold)",
            "took": f"{report['seconds']} s",
        }
    )
    print_line("")
    exact = "Every message is two postings or one dead letter."
    print_line(exact if report["exact"] else f"NOT EXACT: compare with tidegate verify {PIPELINE}")
    _print_next()


def _print_next() -> None:
    print_line("")
    print_line("What to type next (prefix each with `uv run`, except make):")
    print_fields(
        {
            "make up": "the Dagster UI, sensors on, a trickle of transfers",
            "tidegate verify bank_transfers": "compare every message with the tables, apart from the engine",
            "tidegate dlq list bank_transfers": "the messages that could not become rows, and why",
            "make down": "stop everything",
        }
    )
