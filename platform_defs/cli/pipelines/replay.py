"""`tidegate replay`: rebuild a pipeline's tables from the log, show the difference, and swap them in."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from platform_defs.cli.options import PipelineArgument, ReasonOption
from platform_defs.cli.output import Output, OutputOption, print_answer, print_line, print_table, progress
from platform_defs.cli.proposals import required_reason
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from resources.postgres.replay.replacement import Shown


def replay(
    pipeline: PipelineArgument,
    start: str = typer.Option(
        "earliest",
        "--from",
        help="earliest; a batch (12); offsets by partition (0:100,1:250); or a time (2026-11-21T10:00:00Z).",
    ),
    decide_again: list[int] | None = typer.Option(
        None,
        "--decide-again",
        metavar="BATCH",
        help="Check this batch again instead of repeating what tidegate resolve --batch decided. May be repeated.",
    ),
    execute: bool = typer.Option(
        False, "--execute", help="Replace the live rows with the rebuilt ones. Requires --reason."
    ),
    reason: ReasonOption = None,
    discard: bool = typer.Option(False, "--discard", help="Drop a replay that has not replaced the live rows."),
    output: OutputOption = Output.human,
) -> None:
    """Rebuild a pipeline's tables from its topic, and replace the live rows.

    The replay uses the current contract and transform, and shows the
    differences. Without --execute, nothing live changes. With --execute, the
    pipeline is locked, the rebuilt tables catch up to its exact position, and
    their rows, dead letters, batches and offsets replace the live ones in one
    transaction.

    \b
    JSON:
      pipeline, replay_id
      from_batch   the first batch that is replayed
      history      which part of the log it reads, by partition (partitions)
      differences  name (a table, or dead letters), live, rebuilt, only_live,
                   only_rebuilt (rows), samples
      executed     whether the live rows were replaced
      command      without --execute: the command that replaces the live rows
    With --discard: pipeline, discarded (false: there was no replay)
    """
    from assets import find_pipeline
    from platform_defs.cli.systems import open_systems
    from platform_defs.engine.plan.replay_plan import ReplayStart
    from platform_defs.operations.runs.replay import Replay
    from resources.process.current_user import current_user
    from resources.spark.session import spark_config, start_session

    why = required_reason(execute, reason)
    again = frozenset(decide_again or ())
    wanted = Replay(find_pipeline(pipeline), open_systems().endpoints, lambda: start_session(spark_config()), again)
    if discard:
        dropped = wanted.discard()
        sentence = f"The replay of {pipeline} was dropped." if dropped else f"There is no replay of {pipeline} to drop."
        print_answer({"pipeline": pipeline, "discarded": dropped}, sentence, output)
        return
    begin = ReplayStart.parse(start)
    with progress() as say:
        if execute:
            shown = wanted.execute(begin, why, current_user(), say)
        else:
            shown = wanted.show(wanted.first_batch(begin), say)
    if output is Output.human:
        _show(shown)
    document = {**asdict(shown), "pipeline": pipeline, "from_batch": shown.history.from_batch, "executed": execute}
    if execute:
        print_answer(document, "The rebuilt rows are in place.", output)
        return
    options = "".join(f" --decide-again {number}" for number in sorted(again))
    command = f"tidegate replay {pipeline} --from {start}{options} --execute --reason '...'"
    sentence = f"The live tables have not changed. To put the rebuilt rows in place: {command}"
    print_answer({**document, "command": command}, sentence, output)


def _show(shown: Shown) -> None:
    history = shown.history
    print_line(f"Replay {shown.replay_id}, from batch {history.from_batch}: {plural(history.messages, 'message')}")
    spans = [(item.partition, item.from_offset, item.next_offset, item.messages) for item in history.partitions]
    print_table(["partition", "from", "until", "messages"], spans)
    rows = [(item.name, item.live, item.rebuilt, item.only_live, item.only_rebuilt) for item in shown.differences]
    print_table(["", "live", "rebuilt", "only live", "only rebuilt"], rows)
    samples = [
        (item.name, sample["only"], {name: value for name, value in sample.items() if name != "only"})
        for item in shown.differences
        for sample in item.samples
    ]
    if samples:
        print_table(["", "only", "row"], samples)
