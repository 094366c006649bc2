"""`tidegate replay`: build a pipeline's tables anew from the log, show the difference, and put them in place."""

import getpass
from dataclasses import asdict
from typing import Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_json, print_line, print_table, progress

app = typer.Typer()


@app.command()
def replay(
    pipeline: str = typer.Argument(help="Such as bank_transfers."),
    start: str = typer.Option(
        "earliest", "--from", help="earliest; a batch, 12; offsets, 0:100,1:250; or a time, 2026-11-21T10:00:00Z."
    ),
    execute: bool = typer.Option(False, "--execute", help="Put what was built in place of the live rows."),
    reason: str | None = typer.Option(None, help="Why; kept with who and when."),
    discard: bool = typer.Option(False, "--discard", help="Drop what was built and not put in place."),
    output: OutputOption = Output.human,
) -> None:
    """Build the tables anew beside the live ones, with the contract and transform of now, and show the difference.

    Nothing live changes without --execute. With it, the pipeline is held, the rest is caught up to its exact position,
    and rows, dead letters, batches and offsets are put in place in one transaction.
    """
    from assets import find_pipeline
    from platform_defs.engine.replay_plan import ReplayStart
    from platform_defs.operations.replay import Replay
    from resources.endpoints import connection
    from resources.spark.session import spark_config, start_session

    if execute and not (reason or "").strip():
        raise typer.BadParameter("--execute needs --reason: it is kept with who and when")
    wanted = Replay(find_pipeline(pipeline), connection(), lambda: start_session(spark_config()))
    if discard:
        dropped = wanted.discard()
        said = f"What was built of {pipeline} is dropped." if dropped else f"Nothing is being built of {pipeline}."
        _print({"pipeline": pipeline, "discarded": dropped}, output, said)
        return
    begin = ReplayStart.parse(start)
    with progress() as say:
        if execute:
            shown = wanted.execute(begin, reason or "", getpass.getuser(), say)
        else:
            shown = wanted.show(wanted.first_batch(begin), say)
    if output is Output.human:
        _show(shown)
    first = shown.history.from_batch
    again = f"tidegate replay {pipeline} --from {start} --execute --reason '...'"
    told = "It is in place." if execute else f"Nothing live has changed. To put it in place: {again}"
    document = {**asdict(shown), "pipeline": pipeline, "from_batch": first, "executed": execute}
    _print(document | ({} if execute else {"command": again}), output, told)


def _show(shown: Any) -> None:
    history = shown.history
    print_line(f"Replay {shown.replay_id}, from batch {history.from_batch}: {history.messages} messages")
    spans = [(item.partition, item.from_offset, item.next_offset, item.messages) for item in history.partitions]
    print_table(["partition", "from", "until", "messages"], spans)
    rows = [(item.name, item.live, item.rebuilt, item.only_live, item.only_rebuilt) for item in shown.differences]
    print_table(["", "live", "rebuilt", "only live", "only rebuilt"], rows)
    samples = [(item.name, sample.pop("only"), sample) for item in shown.differences for sample in item.samples]
    if samples:
        print_table(["", "only", "row"], samples)


def _print(document: dict[str, Any], output: Output, sentence: str) -> None:
    if output is Output.json:
        print_json(document)
    else:
        print_line(sentence)
