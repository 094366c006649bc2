"""`tidegate ui`: Dagster's UI with its sensors, in the background."""

import typer

from platform_defs.cli.output import Output, OutputOption, print_json, print_line, progress
from resources.local import dagster

TRICKLING = "bank_transfers"

app = typer.Typer(help="Dagster's UI, sensors and schedules, in the background.", no_args_is_help=True)


@app.command()
def up(
    trickle: float = typer.Option(0.0, min=0, help="Keep so many made-up bank transfers a second flowing."),
    output: OutputOption = Output.human,
) -> None:
    """Start `dagster dev` in the background and print the UI's address."""
    with progress() as show:
        status = dagster.up(show)
        if trickle:
            show(f"$ tidegate produce {TRICKLING} --rate {trickle:g}  (in the background)")
            dagster.trickle(TRICKLING, trickle)
    _print(status, output)


@app.command()
def down(output: OutputOption = Output.human) -> None:
    """Stop it, with the runs in progress: what they had not committed is read again later."""
    with progress() as show:
        show("stopping Dagster")
        status = dagster.down()
    _print(status, output)


@app.command()
def status(output: OutputOption = Output.human) -> None:
    """Say whether it runs, and where."""
    _print(dagster.status(), output)


def _print(status: dagster.UiStatus, output: Output) -> None:
    if output is Output.json:
        print_json(status.as_json())
    elif status.url is None:
        print_line("The UI does not run (to start it: tidegate ui up).")
    else:
        print_line(f"{status.url}  pid {status.pid}")
