"""`tidegate ack`: show what settles a halted pipeline, and do it."""

import getpass
from enum import StrEnum
from typing import Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, print_table
from platform_defs.errors import BadInput

app = typer.Typer()


class Start(StrEnum):
    """Where in a new log."""

    beginning = "beginning"
    end = "end"


@app.command()
def ack(
    pipeline: str = typer.Argument(help="Such as bank_transfers."),
    execute: bool = typer.Option(False, "--execute", help="Do what is shown."),
    reason: str | None = typer.Option(None, help="Why; kept with who and when."),
    start: Start | None = typer.Option(None, "--from", help="Where in a topic that was created again."),
    expect: str | None = typer.Option(None, help="The fingerprint that was shown: do that, or nothing."),
    output: OutputOption = Output.human,
) -> None:
    """Show what stopped a pipeline and what settles it; with --execute, settle it."""
    from assets import find_pipeline
    from platform_defs.operations import settlement
    from resources.endpoints import connection
    from resources.kafka.broker import KafkaBroker
    from resources.postgres.ledger import Ledger

    if execute and not (reason or "").strip():
        raise typer.BadParameter("--execute needs --reason: it is kept with who and when")
    contract, endpoints = find_pipeline(pipeline).contract, connection()
    ledger = Ledger(endpoints.postgres_url)
    broker = KafkaBroker(endpoints.kafka_options())
    decided = settlement.propose(contract, ledger, broker, start.value if start else None)
    if decided is None:
        _print({"pipeline": pipeline, "state": "active", "settled": False}, output, f"{pipeline} is not halted.")
        return
    if expect is not None and expect != decided.fingerprint:
        raise BadInput(f"{pipeline} is no longer as it was shown (fingerprint {decided.fingerprint}); look again")
    if output is Output.human:
        _show(decided)
    if not execute:
        again = f"tidegate ack {pipeline} --execute --expect {decided.fingerprint} --reason '...'"
        again += f" --from {start.value}" if start else ""
        _print({**decided.to_json(), "settled": False, "command": again}, output, f"To do it: {again}")
        return
    number = settlement.settle(endpoints.postgres_url, contract, decided, reason or "", getpass.getuser())
    done = {**decided.to_json(), "settled": True, "settlement_id": number, "state": "active"}
    _print(done, output, f"Settled (settlement {number}). {pipeline} goes on with its next run.")


def _show(decided: Any) -> None:
    print_line(f"{decided.pipeline} is halted: {decided.code}")
    print_fields(decided.detail.to_json())
    print_line(decided.explanation)
    rows = [(step.partition, _place(step.was), _place(step.becomes), step.skip, step.lost) for step in decided.steps]
    if rows:
        print_table(["partition", "was at", "goes on at", "given up", "no longer in a log"], rows)


def _place(place: Any) -> str | None:
    return None if place is None else f"{place.next_offset} of {place.topic_id}"


def _print(document: dict[str, Any], output: Output, sentence: str) -> None:
    if output is Output.json:
        print_json(document)
    else:
        print_line(sentence)
