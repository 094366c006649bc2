"""`tidegate verify`: the tables against the topic, message by message."""

import typer

from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, print_table, progress

app = typer.Typer(add_completion=False)


@app.command()
def verify(
    pipeline: str = typer.Argument(help="A pipeline, such as bank_transfers."), output: OutputOption = Output.human
) -> None:
    """Read the topic again and compare every message with the tables.

    The comparison shares no code with the engine that wrote the tables. The
    exit code is 1 where they differ.

    \b
    JSON:
      pipeline
      ok            whether the tables are exactly what the topic says
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
                    transform takes no more
      seconds       duration
      digest        of the tables' contents, however the batches were cut
      samples       of what is wrong: kind, what, partition, offset
    """
    from assets import find_pipeline
    from platform_defs.cli.outside import outside
    from platform_defs.verification.verify import verify as compare

    wanted, endpoints = find_pipeline(pipeline), outside().endpoints
    with progress() as show:
        report = compare(wanted, endpoints, progress=lambda done, total: show(f"{done} of {total} messages compared"))
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
