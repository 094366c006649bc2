"""`tidegate stack`: the embedded Kafka, Postgres and schema registry."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from platform_defs.cli.output import Output, OutputOption, print_answer, print_fields, print_json, progress

if TYPE_CHECKING:
    from platform_defs.stack.stack import ServerStatus, StackStatus

app = typer.Typer(no_args_is_help=True, add_completion=False)
SHOW_PASSWORD = typer.Option(False, "--show-password", help="Show the password in the Postgres address.")


@app.command()
def up(
    registry: bool = typer.Option(False, "--registry", help="Start the schema registry even if no contract needs it."),
    brokers: int | None = typer.Option(
        None,
        "--brokers",
        min=1,
        max=3,
        help="Number of brokers in the embedded Kafka, fixed by its first start.",
        show_default="1",
    ),
    show_password: bool = SHOW_PASSWORD,
    output: OutputOption = Output.human,
) -> None:
    """Start the embedded servers that are not running, and wait until they answer.

    If TIDEGATE_POSTGRES_URL, TIDEGATE_KAFKA_BOOTSTRAP_SERVERS or
    TIDEGATE_REGISTRY_URL names a server of your own, no embedded server is
    started in its place. The schema registry is started only if a contract's
    messages name their schemas.

    With --brokers 3, Kafka is a cluster of three brokers in three racks. Each
    is also a quorum voter, so the cluster survives the loss of any one of
    them. The first start fixes the number of brokers.

    JSON: as tidegate stack status.
    """
    from platform_defs.stack import stack

    with progress() as show:
        status = stack.up(show, registry=registry or needs_registry(), brokers=brokers)
    _print(status, output, show_password=show_password)


@app.command()
def down(show_password: bool = SHOW_PASSWORD, output: OutputOption = Output.human) -> None:
    """Stop the embedded servers, and keep their data.

    JSON: as tidegate stack status.
    """
    from platform_defs.stack import stack

    with progress() as show:
        show("stopping")
        status = stack.down(show)
    _print(status, output, show_password=show_password)


@app.command()
def restart(
    registry: bool = typer.Option(False, "--registry", help="Start the schema registry even if no contract needs it."),
    show_password: bool = SHOW_PASSWORD,
    output: OutputOption = Output.human,
) -> None:
    """Stop the embedded servers and start them again, with their data.

    JSON: as tidegate stack status.
    """
    from platform_defs.settings.settings import settings
    from platform_defs.stack import stack, state

    started_before = state.load(settings().home).registry.pid is not None  # also if it has crashed since
    wanted = registry or needs_registry() or started_before
    with progress() as show:
        show("stopping")
        stack.down(show)
        status = stack.up(show, registry=wanted)
    _print(status, output, show_password=show_password)


@app.command()
def status(show_password: bool = SHOW_PASSWORD, output: OutputOption = Output.human) -> None:
    """Show which servers are running, their addresses, and the quorum's leader.

    \b
    JSON:
      kafka     bootstrap_servers, pid, embedded, brokers (embedded only: id,
                address, pid, rack), quorum (leader, error; null unless
                there are several embedded brokers)
      postgres  url (its password as ***, or with --show-password as it is),
                pid, embedded
      registry  url, pid, embedded
      home      TIDEGATE_HOME
    The address is null if an embedded server is not running; the pid is also
    null if the server is your own. The leader of the quorum is null, with the
    error, if no broker names it within two seconds.
    """
    from platform_defs.stack import stack

    _print(stack.status(), output, show_password=show_password)


@app.command()
def reset(
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask for confirmation."),
    output: OutputOption = Output.human,
) -> None:
    """Stop the embedded servers and delete what Tidegate created in TIDEGATE_HOME.

    The command refuses a folder that Tidegate did not create (one without the
    file .tidegate-home). Files and folders that Tidegate did not create are
    kept.

    \b
    JSON: home, reset, left (the names of what was kept)
    """
    from platform_defs.settings.settings import settings
    from platform_defs.stack import stack

    home = settings().home
    if not yes:
        typer.confirm(f"Delete what Tidegate created in {home}?", abort=True, err=True)
    left = stack.reset()
    rest = f" Kept, because Tidegate did not create it: {', '.join(left)}" if left else ""
    answer = {"home": str(home), "reset": True, "left": left}
    print_answer(answer, f"Deleted what Tidegate created in {home}.{rest}", output)


def _print(status: StackStatus, output: Output, *, show_password: bool) -> None:
    from platform_defs.stack.stack import with_quorum

    status = with_quorum(status)
    if output is Output.json:
        print_json(status.as_json(show_password=show_password))
        return
    postgres = replace(status.postgres, address=status.as_json(show_password=show_password)["postgres"]["url"])
    servers = {"kafka": _line(status.kafka)}
    if len(status.kafka.brokers) > 1:
        servers = {f"kafka, broker {one.id} in rack {one.rack}": _line(one) for one in status.kafka.brokers}
        if (quorum := status.kafka.quorum) is not None:
            led = f"led by broker {quorum.leader}" if quorum.leader else f"not known: {quorum.error}"
            servers["kafka, quorum"] = led
    servers["postgres"] = _line(postgres)
    if status.registry.address is not None:
        servers["registry"] = _line(replace(status.registry, address=status.registry_url))
    print_fields({**servers, "home": status.home})


def needs_registry() -> bool:
    """Return True if the messages of a contract name their schemas."""
    from platform_defs.settings.contracts import read_contracts

    return any(contract.wire.framed for contract in read_contracts().good)


def _line(server: ServerStatus) -> str:
    if server.address is None:
        return "not running (start it with tidegate stack up)"
    return f"{server.address}  pid {server.pid}" if server.embedded else f"{server.address}  (your own)"
