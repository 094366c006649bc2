"""`tidegate prune`: removes what is no longer needed from the ledger's history."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from platform_defs.cli.options import AnyPipelinesArgument
from platform_defs.cli.output import Output, OutputOption, print_error, print_json, print_line
from platform_defs.errors import TidegateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from platform_defs.contract.model.contract import Contract


def prune(
    pipelines: AnyPipelinesArgument = None,
    execute: bool = typer.Option(False, "--execute", help="Remove what is shown."),
    output: OutputOption = Output.human,
) -> None:
    """Remove records of old batches that the ledger no longer needs.

    Old means older than the contract's retention. Old lineage events are
    removed. Old batches are removed once the topic has none of their messages.
    Old dead letters are removed once they are no longer open and the topic
    does not have their messages. Old undelivered messages are removed once
    they are no longer open. Checks that passed are replaced by their counts.
    The results of verify and replay do not change, and the tables keep every
    row. Nothing is removed without --execute. A Dagster job prunes every
    night.

    \b
    JSON: pipelines, a list of
      pipeline, retention_seconds
      executed            true if they were removed, false if only counted
      batches, checks, lineage_events, dead_letters, unsent
      lineage_never_sent  how many of lineage_events were never sent
      kept                older than the retention but kept, by reason: held
                          (the topic still has their messages), unknown (Kafka
                          did not answer), dead_letters (open), unreported,
                          newest, replay; settled_letters (messages still there)
      log_unknown         null, or why it is unknown what the topic has
    failed, a list: pipeline, message. If it is not empty, the exit code is 1
    """
    from platform_defs.prune.prune import Pruned
    from platform_defs.prune.prune import prune as prune_pipeline
    from platform_defs.settings.contracts import find_contract, read_contracts
    from platform_defs.stack.open_systems import open_systems

    contracts: Sequence[Contract] = [find_contract(name) for name in pipelines or ()] or read_contracts().good
    systems, found, failed = open_systems(), list[Pruned](), dict[str, str]()
    for contract in contracts:
        try:
            found.append(
                prune_pipeline(systems.endpoints.postgres_url, contract, systems.broker.describe, execute=execute)
            )
        except TidegateError as error:
            failed[contract.pipeline] = str(error)
    if output is Output.json:
        failures = [{"pipeline": name, "message": message} for name, message in failed.items()]
        print_json({"pipelines": [asdict(item) for item in found], "failed": failures})
    else:
        for item in found:
            print_line(f"{item.pipeline}: {item.sentence()}")
        for name, message in failed.items():
            print_error(f"{name}: {message}")
        if not execute and any(item.any for item in found):
            print_line(f"To remove these: tidegate prune {' '.join([*(pipelines or ()), '--execute'])}")
    if failed:
        raise typer.Exit(1)
