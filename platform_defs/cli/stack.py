"""`tidegate stack`: the embedded Kafka and Postgres."""

import re

import typer

from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, progress
from resources.local import stack
from resources.settings import settings

app = typer.Typer(help="The embedded Kafka and Postgres.", no_args_is_help=True)


@app.command()
def up(output: OutputOption = Output.human) -> None:
    """Start the embedded servers that do not run yet (none where TIDEGATE_* names your own)."""
    with progress() as show:
        status = stack.up(show)
    _print(status, output)


@app.command()
def down(output: OutputOption = Output.human) -> None:
    """Stop the embedded servers. Their data stays."""
    with progress() as show:
        show("stopping")
        status = stack.down()
    _print(status, output)


@app.command()
def status(output: OutputOption = Output.human) -> None:
    """Say what runs, and where."""
    _print(stack.status(), output)


@app.command()
def reset(
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."), output: OutputOption = Output.human
) -> None:
    """Stop the embedded servers and delete all their data: everything under TIDEGATE_HOME."""
    home = settings().home
    if not yes:
        typer.confirm(f"Delete everything under {home}?", abort=True, err=True)
    stack.reset()
    if output is Output.json:
        print_json({"home": str(home), "reset": True})
    else:
        print_line(f"{home} is empty.")


def _print(status: stack.StackStatus, output: Output) -> None:
    if output is Output.json:
        print_json(status.as_json())
        return
    print_fields(
        {
            "kafka": _line(status.kafka),
            "postgres": _line(status.postgres),
            "home": status.home,
        }
    )


def _line(server: stack.ServerStatus) -> str:
    if server.address is None:
        return "does not run (to start it: tidegate stack up)"
    address = re.sub(r"(://[^:/@]+):[^@]*@", r"\1:***@", server.address)
    return f"{address}  pid {server.pid}" if server.embedded else f"{address}  (not ours)"
