"""`tidegate verify`: the tables against the topic, message by message."""

import typer

from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, print_table, progress
from platform_defs.errors import InternalError, TidegateError

app = typer.Typer(add_completion=False)

NOT_COMPARED = 3  # the exit code


@app.command()
def verify(
    pipeline: str = typer.Argument(help="A pipeline, such as bank_transfers."),
    new: bool = typer.Option(False, "--new", help="Only what was committed since the last check with --new."),
    output: OutputOption = Output.human,
) -> None:
    """Read the topic again and compare every message with the tables.

    The comparison shares no code with the engine that wrote the tables. It sees
    everything in one snapshot of Postgres, and writes nothing. The exit code is
    1 where they differ, and 3 where they could not be compared: a server is
    unavailable, the topic was created again, the transform cannot run, or
    Tidegate has a bug.

    With --new it compares the batches that were committed since the last check
    of this kind, in windows with a snapshot each, and keeps in the ledger how
    far they are exact: Dagster does that every night. Rows of older batches
    that were changed since are found without --new only.

    \b
    JSON:
      pipeline
      ok            whether the tables are exactly what the topic says; null
                    where they could not be compared
      error         why they could not: then there are no other keys
      explanation   the same in a sentence
      messages      compared: delivered between the first position and the last
      rows, keys    right, in the row table and in the accumulates
      dead_letters, filtered, skipped  messages without rows, each for a reason
      gaps          offsets that the broker never delivered
      compacted     removed by compaction since
      lost, duplicated, wrong  messages without their rows, rows that are there
                    more than once, rows that differ
      uncovered     offsets that no committed batch read, or beyond the position
      unverifiable  messages that the topic no longer holds, or that the
                    transform takes no more, and those in partly
      partly        messages compared in some of the columns only
      not_compared  of these, how many were not compared, by column
      seconds       duration
      digest        of the tables' contents, however the batches were cut
      samples       of what is wrong: kind, what, partition, offset
      new           with --new: after_batch, until_batch (those between are
                    exact), snapshots, left (messages for the next check),
                    began_again (why at the first message), hint
      ended_by, reading  if a signal ended it, with ok and explanation only:
                    the signal's name, and the ranges read last
    """
    from assets import find_pipeline
    from platform_defs.cli.outside import outside
    from platform_defs.engine.task.redaction import place_of
    from platform_defs.verification.incremental import verify_new
    from platform_defs.verification.verify import verify as verify_whole

    compare = verify_new if new else verify_whole
    try:
        wanted, endpoints = find_pipeline(pipeline), outside().endpoints
        with progress() as show:
            report = compare(wanted, endpoints, progress=lambda done, of: show(f"{done} of {of} messages compared"))
    except TidegateError as error:
        _report_not_compared(pipeline, output, error)
        raise
    except Exception as error:  # its text could quote what is classified
        bug = InternalError.in_command(f"verify {pipeline}", place_of(error))
        _report_not_compared(pipeline, output, bug)
        raise bug from error
    if output is Output.json:
        print_json(report.to_json())
    else:
        print_line(report.explanation)
        print_fields(
            {name: value for name, value in report.to_json().items() if isinstance(value, int) and name != "ok"}
        )
        if report.samples:
            print_table(["kind", "what"], [(sample.kind, sample.what) for sample in report.samples])
    if not report.ok:
        raise typer.Exit(1)


def _report_not_compared(pipeline: str, output: Output, error: TidegateError) -> None:
    if output is Output.json:
        print_json({"pipeline": pipeline, "ok": None, "error": str(error)})
    error.exit_code = NOT_COMPARED
