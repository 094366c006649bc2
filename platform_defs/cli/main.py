"""The entry point of `tidegate`: composes the commands and turns errors into one sentence.

A command is the function with its name in the module that COMMANDS gives; a module with several commands, or with one
that needs settings of typer, has them in `app` (typer.Typer). COMMANDS also has its line in `tidegate --help`, and it
is imported when it is called: the help and `tidegate stack status` do not wait for what another command imports. For
the same reason a module imports contracts, clients, Spark and Dagster inside its commands
(tests/unit/cli/test_cli_imports.py).
"""

import importlib
import signal
import sys
from threading import Event
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typing_extensions import override

from platform_defs.cli.output import print_error
from platform_defs.errors import InternalError, TidegateError

# The module of each command, below platform_defs (a feature's `cli.py`, or a file of its `cli/`), and the first
# sentence of the command's docstring, or a group's help.
COMMANDS = {
    "init": ("new_project.cli", "Write a small working project, or what a Dagster project lacks."),
    "demo": ("demo.cli.demo", "Start the stack, produce transfers, materialize them, and print a report."),
    "stack": ("stack.cli.stack", "Start, stop and inspect the embedded Kafka, Postgres and schema registry."),
    "psql": ("database.cli.psql", "Open psql on the database that Tidegate writes to."),
    "ui": ("stack.cli.ui", "Run Dagster's UI, sensors and schedules in the background."),
    "produce": ("samples.cli.produce", "Send generated messages, and report which dead letters to expect."),
    "send": ("messages.cli.send", "Send your own messages, and report the partition and offset of each."),
    "presets": ("producers.cli", "Show producer presets: what each promises, and which options it sets."),
    "lag": ("status.cli", "Show how far each pipeline is behind its topic."),
    "plan": ("runs.cli", "Show what the next batch would read and do, without changing anything."),
    "dlq": ("dead_letters.cli", "List and inspect dead letters."),
    "unsent": ("producers.unsent.cli", "List, resend and discard messages that producers could not deliver."),
    "doctor": ("doctor.cli", "Check Kafka, Postgres and this machine, and report what to fix."),
    "verify": ("verify.cli", "Read the topic again and compare every message with the tables."),
    "resolve": ("resolve.cli", "Show how to resolve a halted pipeline; with --execute, resolve it."),
    "split-batch": ("resolve.cli", "Split a batch that is too large to complete."),
    "replay": ("replay.cli", "Rebuild a pipeline's tables from its topic, and replace the live rows."),
    "adopt": ("adopt.cli", "Re-attach restored or moved tables to their pipeline."),
    "cluster": ("cluster.cli.cluster", "Show broker health and skew, elect leaders, and move replicas."),
    "contract": (
        "contract_changes.cli.contract",
        "Diff, apply and check contracts; export, register and import schemas.",
    ),
    "schema": ("schemas.cli", "List, show and fetch the writer schemas of a contract's messages."),
    "topics": ("topics.cli.topics", "Plan, apply and import the topics that contracts and topics.yaml declare."),
    "peek": ("messages.cli.peek", "Show messages from a topic, decoded and checked against its contract."),
    "groups": ("groups.cli", "List, describe, watch, reset and delete consumer groups."),
    "prune": ("prune.cli", "Remove records of old batches that the ledger no longer needs."),
    "migrate": ("database.cli.migrate", "Create the ledger in Postgres, or bring it up to date."),
    "rights": ("database.cli.rights", "Print the GRANT statements for the owner, publisher and reader roles."),
}

# Options by their names in other commands and tools, with their names in commands that have that option.
OTHER_NAMES = {"--count": "--limit", "--max-messages": "--limit", "--limit": "--count"}

INTERRUPTED = 130  # the exit code


def load(name: str) -> Any:
    """Return the command `name`, imported. Any: typer keeps its click's types private."""
    stem, (module_name, sentence) = name.replace("-", "_"), COMMANDS[name]
    module = importlib.import_module(f"platform_defs.{module_name}")
    commands = getattr(module, "app", None)
    if commands is None:
        commands = typer.Typer(add_completion=False)
        commands.command()(getattr(module, stem))
    command = typer.main.get_command(commands)
    command.name, command.help = name, command.help or sentence
    return command


class Commands(TyperGroup):
    """The commands of COMMANDS: the help needs only name and sentence; a command is imported when it is called."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1]) if cmd_name in COMMANDS else None

    @override
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TyperException as error:
            wrong: Any = error  # typer keeps its click's types private
            meant = OTHER_NAMES.get(getattr(wrong, "option_name", ""))
            if meant and any(meant in param.opts for param in wrong.ctx.command.params):
                wrong.possibilities = [meant]
            raise

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args[:2] in (["dlq", "send"], ["dlq", "discard"]) or (args[:2] == ["dlq", "list"] and "--unsent" in args):
            former = "dlq list --unsent" if args[1] == "list" else f"dlq {args[1]}"
            print_error(f"tidegate {former} is now tidegate unsent {args[1]}; the former name works until version 0.4")
            args = ["unsent", *(arg for arg in args[1:] if arg != "--unsent")]
        name, found, rest = super().resolve_command(ctx, args)
        return name, load(name) if name is not None and found is not None else found, rest


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"tidegate {version('tidegate')}")  # noqa: T201  # the answer itself
        raise typer.Exit


@app.callback(
    epilog=(
        "Every command except psql takes -o json, which prints one JSON document to stdout. Progress and errors go to "
        "stderr.\n\n"
        "Exit codes: 0: done; 1: the command failed, plan found a halt, verify found a difference, or doctor found an "
        "error; 2: wrong usage, or contract check could not compare; 3: verify could not compare; 10: the "
        "cluster is unhealthy, a reassignment has not "
        "ended, or topics plan --exit-code found changes; 128 + N: signal N ended the command (130: interrupted)."
    )
)
def tidegate(
    version: Annotated[  # handled by its callback
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Load Kafka topics into Postgres tables, exactly once."""


def main() -> None:
    """Run `tidegate` with this process's arguments and exit."""
    if sys.argv[1:2] == ["verify"]:  # reads messages in its own process
        from platform_defs.cli.ended_by_signal import continue_in_a_child

        continue_in_a_child(sys.argv[1:])
    interrupted = _interrupted()
    try:
        app(prog_name="tidegate")
    except TidegateError as error:
        stopped = interrupted.is_set() and isinstance(error, InternalError)  # confluent-kafka raised in its place
        print_error("interrupted" if stopped else str(error))
        sys.exit(INTERRUPTED if interrupted.is_set() else error.exit_code)
    except Exception as error:  # any error that a client raised in place of an interrupt, or during clean-up
        if not interrupted.is_set():
            raise
        print_error(f"interrupted, and then: {type(error).__name__}: {error}")
        sys.exit(INTERRUPTED)


def _interrupted() -> Event:
    """Return an event that Ctrl-C sets, unless a command or Spark handles the signal itself. confluent-kafka's C code
    may raise an error of its own in place of KeyboardInterrupt, such as a ValueError about the option that it was
    reading.
    """
    came = Event()

    def note(_number: int, _frame: object) -> None:
        came.set()
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
    return came


if __name__ == "__main__":
    main()
