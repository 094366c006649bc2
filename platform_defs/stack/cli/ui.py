"""`tidegate ui`: Dagster's UI with its sensors, in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from platform_defs.cli.output import Output, OutputOption, print_answer, progress

if TYPE_CHECKING:
    from platform_defs.stack.dagster_dev import UiStatus

TRICKLING = "bank_transfers"

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command()
def up(
    trickle: float = typer.Option(0.0, min=0, help="Keep producing this many generated bank transfers per second."),
    output: OutputOption = Output.human,
) -> None:
    """Start `dagster dev` in the background and print the address of the UI.

    \b
    JSON: url, pid; both null if it is not running
    """
    from platform_defs.stack import dagster_dev as dagster
    from platform_defs.stack.endpoints import connection

    connection()  # without Kafka or Postgres, say so at once
    if trickle:
        from platform_defs.settings.contracts import find_contract

        find_contract(TRICKLING)  # another project does not have it
    with progress() as show:
        status = dagster.up(show)
        if trickle:
            show(f"$ tidegate produce {TRICKLING} --rate {trickle:g}  (in the background)")
            dagster.trickle(TRICKLING, trickle)
    _print(status, output)


@app.command()
def down(output: OutputOption = Output.human) -> None:
    """Stop the UI, its sensors and the runs in progress.

    The next run reads again what the stopped runs had not committed.

    JSON: as tidegate ui up.
    """
    from platform_defs.stack import dagster_dev as dagster

    with progress() as show:
        show("stopping Dagster")
        status = dagster.down()
    _print(status, output)


@app.command()
def status(output: OutputOption = Output.human) -> None:
    """Show whether the UI is running, and where.

    JSON: as tidegate ui up.
    """
    from platform_defs.stack import dagster_dev as dagster

    _print(dagster.status(), output)


@app.command()
def reload(output: OutputOption = Output.human) -> None:
    """Reload contracts and transforms after you add or change one.

    Runs in progress finish with the contracts and transforms that they loaded.

    JSON: as tidegate ui up.
    """
    from platform_defs.stack import dagster_dev as dagster

    with progress() as show:
        show("loading the definitions")
        dagster.reload()
    _print(dagster.status(), output)


def _print(status: UiStatus, output: Output) -> None:
    running = f"{status.url}  pid {status.pid}"
    sentence = running if status.url else "The UI is not running (start it with tidegate ui up)."
    print_answer(status.as_json(), sentence, output)
