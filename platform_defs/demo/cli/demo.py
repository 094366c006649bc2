"""`tidegate demo`: the whole way once, with the commands that a user would type, and a report of the result.

Each run adds transfers; the report is about all of them, from the tables and the broker, not from what was sent.
`tidegate demo delivery` and `tidegate demo groups` are in demo_delivery.py and demo_groups.py.
"""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_answer, print_fields, print_line, progress
from platform_defs.demo.cli import demo_delivery, demo_groups
from platform_defs.errors import BadInput, TidegateError

app = typer.Typer(add_completion=False)
app.command("delivery")(demo_delivery.delivery)
app.command("groups")(demo_groups.groups)

PIPELINE = "bank_transfers"
SELECTION = 'group:"bank"'
DEFINITIONS = "platform_defs.definitions"  # of a clone: not in the wheel


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    count: int = typer.Option(200_000, min=1, help="Number of transfers to add."),
    output: OutputOption = Output.human,
) -> None:
    """Start the stack, produce transfers, materialize them, and print a report.

    Each run adds transfers; the report covers all of them. The exit code is 1
    if a message is lost or duplicated, or if some are unread.

    \b
    JSON:
      messages, postings, dead_letters, accounts
      dead_letters_by_reason
      balances_sum         0 if every transfer is posted to both accounts
      exact                every message is two postings or one dead letter
      lag                  unread messages
      messages_per_second  in the last batch
      sent                 the JSON of tidegate produce
      seconds              total duration
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    report = _run(count)
    print_answer(report, lambda: _print(report), output)
    if not report["exact"] or report["lag"]:
        raise typer.Exit(1)


def _refuse_options(context: typer.Context) -> None:
    """Raise typer.BadParameter for an option before the name of another demo, which would ignore it."""
    command = f"tidegate demo {context.invoked_subcommand}"
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"give the options of `{command}` after its name; `{command} --help` lists them")


def _run(count: int) -> dict[str, Any]:
    """Return the results of all messages: the document of `tidegate demo -o json`."""
    from platform_defs.demo.ledger import read_totals
    from platform_defs.settings.settings import settings
    from platform_defs.stack import stack
    from platform_defs.stack.endpoints import connection

    if importlib.util.find_spec(DEFINITIONS) is None:
        raise BadInput(
            "the demo loads the example contracts of Tidegate's repository, so it runs in a clone (make demo). In a "
            "project of your own, use tidegate init"
        )
    started = time.monotonic()
    with progress() as show:
        stack.up(show)
        produce = ["tidegate", "produce", PIPELINE, "--count", str(count)]
        show(f"$ {shlex.join(produce)}")
        sent = _answer_of(produce)
        _materialize(settings().home / "logs" / "demo.log", show)
    return {
        **read_totals(connection().postgres_url),
        "lag": _answer_of(["tidegate", "lag", PIPELINE])["lag"],
        "sent": sent,
        "seconds": round(time.monotonic() - started, 1),
    }


def _answer_of(command: list[str]) -> dict[str, Any]:
    command = [*command, "-o", "json"]
    done = subprocess.run([_installed(command[0]), *command[1:]], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise TidegateError(f"`{shlex.join(command)}` failed (exit code {done.returncode}); see its output above")
    return json.loads(done.stdout)


def _materialize(log: Path, show: Callable[[str], None]) -> None:
    """Materialize as a user would; the output of Dagster and Spark goes to `log`, the batches are shown."""
    command = ["dagster", "asset", "materialize", "-m", DEFINITIONS, "--select", SELECTION]
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
        assert run.stdout is not None  # noqa: S101  # a pipe was requested
        for line in run.stdout:
            kept.write(line)
            if ": batch " in line:
                show("  " + line.rpartition(" - ")[2].strip())
    if run.returncode:
        last = "".join(log.read_text().splitlines(keepends=True)[-15:])
        raise TidegateError(f"the materialization failed. The end of {log}:\n{last}")


def _installed(program: str) -> str:
    """Return the path of a program of this environment, even if that is not active."""
    return str(Path(sys.executable).with_name(program))


def _print(report: Mapping[str, Any]) -> None:
    print_line("")
    print_fields(
        {
            "messages": f"{report['messages']:,}, of which {report['sent']['produced']:,} by this run",
            "postings": f"{report['postings']:,}, two for each transfer",
            "dead letters": f"{report['dead_letters']:,}",
            **{f"  {reason}": f"{count:,}" for reason, count in report["dead_letters_by_reason"].items()},
            "balances": f"of {report['accounts']:,} accounts, sum {report['balances_sum']}",
            "lag": report["lag"],
            "speed": f"{report['messages_per_second'] or 0:,} messages a second in the last batch (Spark was cold)",
            "took": f"{report['seconds']} s",
        }
    )
    print_line("")
    exact = "Every message became two postings or one dead letter."
    print_line(exact if report["exact"] else f"NOT EXACT: to find the differences, run tidegate verify {PIPELINE}")
    print_line("")
    print_line("Next steps (prefix each command with `uv run`, except make):")
    print_fields(
        {
            "make up": "start the Dagster UI and sensors, with a trickle of transfers",
            "tidegate verify bank_transfers": "compare every message with the tables, independently of the engine",
            "tidegate dlq list bank_transfers": "list the messages that could not become rows, and why",
            "make down": "stop everything",
        }
    )
