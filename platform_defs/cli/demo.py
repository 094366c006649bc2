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
from decimal import Decimal
from pathlib import Path
from typing import Any, LiteralString

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
      seconds              that all of it took
    """
    from resources.endpoints import connection
    from resources.local import stack
    from resources.settings import settings

    started = time.monotonic()
    with progress() as show:
        stack.up(show)
        sent = _produce(count, show)
        _materialize(settings().home / "logs" / "demo.log", show)
    report = {
        **_report(connection().postgres_url),
        "lag": _lag(),
        "sent": sent,
        "seconds": round(time.monotonic() - started, 1),
    }
    if output is Output.json:
        print_json(report)
    else:
        _print(report)
    if not report["exact"] or report["lag"]:
        raise typer.Exit(1)


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
            if " - batch " in line:
                show("  " + line.rpartition(" - ")[2].strip())
    if run.returncode:
        last = "".join(log.read_text().splitlines(keepends=True)[-15:])
        raise TidegateError(f"materializing failed. The end of {log}:\n{last}")


def _installed(program: str) -> str:
    """A program of this environment, whether or not it is active."""
    return str(Path(sys.executable).with_name(program))


_REPORT: dict[str, LiteralString] = {
    "messages": (
        "SELECT coalesce(sum(messages), 0)::bigint FROM tidegate.batch WHERE pipeline = 'bank_transfers' AND"
        " replaced_by IS NULL"
    ),
    "postings": "SELECT count(*) FROM bank.postings",
    "dead_letters": "SELECT count(*) FROM tidegate.dead_letter WHERE pipeline = 'bank_transfers'",
    "accounts": "SELECT count(*) FROM bank.balances",
    "balances_sum": "SELECT sum(balance)::text FROM bank.balances",
    "messages_per_second": (
        """SELECT round(messages / (SELECT sum(value::numeric) FROM jsonb_each_text(timings)))::bigint
        FROM tidegate.batch WHERE pipeline = 'bank_transfers' ORDER BY batch_id DESC LIMIT 1"""
    ),
}
_REASONS: LiteralString = """SELECT stage || ': ' || error_class AS reason, count(*) AS count FROM tidegate.dead_letter
    WHERE pipeline = 'bank_transfers' GROUP BY 1 ORDER BY 2 DESC, 1"""


def _report(url: str) -> dict[str, Any]:
    """What the tables say, in one snapshot."""
    import psycopg

    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        answers: dict[str, Any] = {
            name: (connection.execute(query).fetchone() or (None,))[0] for name, query in _REPORT.items()
        }
        reasons = dict(connection.execute(_REASONS).fetchall())
    postings = 2 * (answers["messages"] - answers["dead_letters"])
    exact = answers["postings"] == postings and Decimal(answers["balances_sum"] or 0) == 0
    return {**answers, "dead_letters_by_reason": reasons, "exact": exact}


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
            "speed": (f"{report['messages_per_second']:,} messages a second in the last batch (Spark was cold)"),
            "took": f"{report['seconds']} s",
        }
    )
    print_line("")
    print_line(
        "Every message is two postings or one dead letter."
        if report["exact"]
        else "NOT EXACT: compare with tidegate verify bank_transfers"
    )
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
