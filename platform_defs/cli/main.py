"""The entry point of `tidegate`: composes the commands and turns errors into one sentence.

A command lives in a module of its own, whose `app` (typer.Typer) holds one command, or several under the module's
name. It is listed in COMMANDS and loaded when it is asked for (or when the help lists it), so that `tidegate stack
status` does not wait for what another command imports. A module imports Spark, Dagster and the like inside its
commands. Exit codes: 0, 1 (the command failed), 2 (it was called wrongly), 130 (interrupted).
"""

import importlib
import sys
from typing import Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from platform_defs.cli.output import print_error
from platform_defs.errors import TidegateError

COMMANDS = {
    "demo": "platform_defs.cli.demo",
    "stack": "platform_defs.cli.stack",
    "ui": "platform_defs.cli.ui",
    "produce": "platform_defs.cli.produce",
    "lag": "platform_defs.cli.lag",
    "plan": "platform_defs.cli.plan",
    "dlq": "platform_defs.cli.dlq",
    "verify": "platform_defs.cli.verify",
    "ack": "platform_defs.cli.ack",
    "replay": "platform_defs.cli.replay",
}


class Commands(TyperGroup):
    """The commands of COMMANDS, each imported when it is looked up (Any: typer keeps its click's types private)."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(importlib.import_module(COMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Kafka topics into Postgres tables exactly once.",
)


@app.callback()
def tidegate() -> None:
    """Kafka topics into Postgres tables exactly once."""


def main() -> None:
    """Run `tidegate` with this process's arguments and exit."""
    try:
        app(prog_name="tidegate")
    except TidegateError as error:
        print_error(str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
