"""`tidegate verify`: the tables against the topic, message by message."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from platform_defs.cli.options import PipelinesArgument
from platform_defs.cli.output import (
    Output,
    OutputOption,
    print_fields,
    print_json,
    print_line,
    print_table,
    progress,
    results_by_name,
)
from platform_defs.errors import InternalError, TidegateError
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.verify.compare.report import Report

NOT_COMPARED = 3  # the exit code


def verify(
    pipelines: PipelinesArgument,
    new: bool = typer.Option(False, "--new", help="Compare only what was committed since the last check with --new."),
    output: OutputOption = Output.human,
) -> None:
    """Read the topic again and compare every message with the tables.

    The comparison shares no code with the engine that wrote the tables. It
    reads the tables in one Postgres snapshot, and writes nothing. The exit
    code is 1 if topic and tables differ, and 3 if they could not be compared:
    a server is unavailable, the topic was recreated, the transform cannot run,
    or Tidegate has a bug.

    With --new, the command compares the batches that were committed since the
    last check with --new, in windows with one snapshot each. It records in the
    ledger up to which batch the tables are exact. Dagster runs this check
    every night. It does not find rows of older batches that were changed
    since; run the command without --new to find those.

    \b
    JSON with one PIPELINE (with several: ok, true if all are, null if one could
    not be compared, and pipelines, a list of such):
      pipeline
      ok            true if the tables match the topic exactly; null if they
                    could not be compared
      error         why not; then there are no other keys
      explanation   the result in a sentence
      messages      compared: delivered between the first position and the last
      rows, keys    correct, in the row table and in the accumulates
      dead_letters, filtered, skipped  messages without rows, each for a reason
      gaps          offsets that the broker never delivered
      compacted     messages removed by compaction since
      lost, duplicated, wrong  messages without their rows, rows present
                    more than once, rows that differ
      uncovered     offsets that no committed batch read, or beyond the position
      unverifiable  messages that are no longer in the topic, or that the
                    transform no longer accepts, plus those in partly
      partly        messages compared in some columns only
      not_compared  how many of these were not compared, by column
      seconds       duration
      digest        of the tables' contents, whatever the batch boundaries
      samples       of what is wrong: kind, what, partition, offset
      new           with --new: after_batch, until_batch (those between are
                    exact), snapshots, left (messages for the next check),
                    began_again (why it began at the first message), hint
      ended_by, reading  if a signal ended it, with ok and explanation only:
                    the signal's name, and the ranges read last
    """
    names = list(dict.fromkeys(pipelines))

    def compare(name: str) -> Report:
        report = _compare(name, new=new)
        if output is Output.human:
            _show(report, name if len(names) > 1 else "")
        return report

    try:
        reports = results_by_name(names, compare)
    except TidegateError as error:  # of the only one
        if output is Output.json:
            print_json(_document(names[0], error))
        error.exit_code = NOT_COMPARED
        raise
    documents = [_document(name, report) for name, report in reports.items()]
    outcomes = [document["ok"] for document in documents]
    if output is Output.json:
        ok = None if None in outcomes else all(outcomes)
        print_json(documents[0] if len(names) == 1 else {"ok": ok, "pipelines": documents})
    if not all(outcomes):
        raise typer.Exit(NOT_COMPARED if None in outcomes else 1)


def _compare(pipeline: str, *, new: bool) -> Report:
    """Compare the pipeline's tables with its topic. Raises TidegateError if they could not be compared."""
    from platform_defs.contract.redaction import redacting
    from platform_defs.settings.contracts import find_pipeline
    from platform_defs.stack.open_systems import open_systems
    from platform_defs.verify.incremental import verify_new
    from platform_defs.verify.verify import verify as verify_whole

    compare = verify_new if new else verify_whole
    with redacting(None, partial(InternalError.in_command, f"verify {pipeline}")):
        wanted, endpoints = find_pipeline(pipeline), open_systems().endpoints
        with redacting(wanted.contract), progress() as show:

            def compared(done: int, messages: int) -> None:
                show(f"{pipeline}: {done:,} of {plural(messages, 'message')} compared")

            return compare(wanted, endpoints, progress=compared)


def _document(pipeline: str, report: Report | TidegateError) -> dict[str, Any]:
    if isinstance(report, TidegateError):
        return {"pipeline": pipeline, "ok": None, "error": str(report)}
    return report.to_json()


def _show(report: Report, name: str) -> None:
    print_line(f"{name}: {report.explanation}" if name else report.explanation)
    print_fields({name: value for name, value in report.to_json().items() if isinstance(value, int) and name != "ok"})
    if report.samples:
        print_table(["kind", "what"], [(sample.kind, sample.what) for sample in report.samples])
