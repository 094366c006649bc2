"""`tidegate replay`: rebuild a pipeline's tables from the log, show the difference, and swap them in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from platform_defs.cli.halt_detail import one_line
from platform_defs.cli.options import PipelineArgument, ReasonOption
from platform_defs.cli.output import Output, OutputOption, print_answer, print_line, print_table, progress
from platform_defs.cli.proposals import required_reason
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.replay.replacement import Shown


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
      differences  name (a table, or dead letters), live, rebuilt (rows);
                   rows of one message or key that differ: changed, or
                   new_columns (only where a column that was added later is
                   empty); rows without such a partner: only_live,
                   only_rebuilt; samples (kind, row, live, rebuilt: the
                   columns that differ, or null and the whole row)
      executed     whether the live rows were replaced
      command      without --execute: the command that replaces the live rows
    With --discard: pipeline, discarded (false: there was no replay)
    """
    from platform_defs.engine.plan.replay_plan import ReplayStart
    from platform_defs.replay.replay import Replay
    from platform_defs.settings.contracts import find_pipeline
    from platform_defs.settings.current_user import current_user
    from platform_defs.spark.session import spark_config, start_session
    from platform_defs.stack.open_systems import open_systems

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
    heads = ["", "live", "rebuilt", "changed", "new columns", "only live", "only rebuilt"]
    rows = [
        (d.name, d.live, d.rebuilt, d.changed, d.new_columns, d.only_live, d.only_rebuilt) for d in shown.differences
    ]
    print_table(heads, rows)
    lines = [line for item in shown.differences for sample in item.samples for line in _lines(item.name, sample)]
    if lines:
        print_table(["", "row", "column", "live", "rebuilt"], lines)


def _lines(table: str, sample: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield a line for each column in which the rows of a sample differ, or one line for a row without a partner."""
    live, rebuilt, row = sample["live"], sample["rebuilt"], one_line(sample["row"])
    if live is None or rebuilt is None:
        yield table, row, "(whole row)", one_line(live), one_line(rebuilt)
        return
    for name in live:
        yield table, row, name, one_line(live[name]), one_line(rebuilt[name])
