"""`tidegate unsent`: the messages that producers could not deliver, listed, sent again or discarded."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from platform_defs.cli.options import (
    DEFAULT_LIMIT,
    ExecuteAsShownOption,
    ExpectOption,
    PipelineArgument,
    PipelinesArgument,
    ReasonOption,
)
from platform_defs.cli.output import Output, OutputOption, print_answer, print_each, print_line, print_table, progress
from platform_defs.cli.proposals import print_proposal, refuse_unexpected, required_reason
from platform_defs.errors.words import plural
from platform_defs.producers.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from platform_defs.producers.unsent.ledger import UnsentCount, UnsentLedger
    from platform_defs.producers.unsent.resend import Resending, Resent


app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command("list")
def list_(
    pipelines: PipelinesArgument,
    reason: str | None = typer.Option(
        None, help="Only messages with this error, such as _MSG_TIMED_OUT.", show_default="all"
    ),
    outcome: Outcome | None = typer.Option(None, help="Only messages with this outcome.", show_default="all"),
    limit: int = typer.Option(DEFAULT_LIMIT, min=1, help="List at most this many messages."),
    output: OutputOption = Output.human,
) -> None:
    """List the messages that producers could not deliver.

    \b
    JSON with one PIPELINE (with several: pipelines, a list of such, and failed,
    a list: pipeline, message):
      pipeline
      unsent     how many are open
      by_reason  topic, outcome (poison, not_written or unknown), error_name,
                 status (open, found, sent or discarded), messages
      messages   unsent_id, topic, partition, error_code, error_name, outcome,
                 tries, failed_at, bytes, status, settled_at, settled_by,
                 settled_reason, settled_partition, settled_offset
    """
    print_each(pipelines, lambda pipeline: _list(pipeline, reason, outcome, limit, output), output)


def _list(pipeline: str, reason: str | None, outcome: Outcome | None, limit: int, output: Output) -> dict[str, Any]:
    """Return the messages that producers could not deliver, and print them for a person."""
    ledger = taken_in(pipeline)
    counts = ledger.counts(pipeline, reason, outcome)
    found = ledger.lines(pipeline, reason, outcome, limit)
    still_open = sum(count.messages for count in counts if count.status == "open")
    if output is Output.json:
        by_reason = [asdict(count) for count in counts]
        return {"pipeline": pipeline, "unsent": still_open, "by_reason": by_reason, "messages": found}
    print_line(f"{pipeline} has {plural(still_open, 'message that was', 'messages that were')} not delivered")
    if counts:
        heads = ["topic", "outcome", "error", "status", "messages"]
        print_table(heads, [(c.topic, c.outcome, c.error_name, c.status, c.messages) for c in counts])
        heads = ["id", "partition", "outcome", "error", "failed at", "tries", "bytes", "status"]
        names = ("unsent_id", "partition", "outcome", "error_name", "failed_at", "tries", "bytes", "status")
        rows = [{**item, "failed_at": item["failed_at"].isoformat(" ", "seconds")} for item in found]
        print_table(heads, [[row[name] for name in names] for row in rows])
    return {}


@app.command()
def send(
    pipeline: PipelineArgument,
    outcome: Outcome | None = typer.Option(
        None, help="Only messages with this outcome; poison is sent only if named.", show_default="all but poison"
    ),
    may_double: bool = typer.Option(
        False, "--may-double", help="Also send messages that cannot be searched for: they may already be in the log."
    ),
    may_overwrite: bool = typer.Option(
        False, "--may-overwrite", help="Also send messages that may be older than the last one with the same key."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Resend messages that producers could not deliver.

    The command first searches the log for each message, by its header
    tidegate-id. Messages found there are recorded as found; the rest are sent
    with the same ids, to their original partitions. If the command is
    interrupted, run it again: it finds what it has already sent. The exit code
    is 1 if messages were refused, failed or were not tried.

    \b
    JSON:
      pipeline
      found    messages that were already in the log
      sent     messages sent now
      refused  code, why, messages: neither searched for nor sent
      failed   messages that failed again, by error name
      stopped  whether the rest was not tried because of a failure
      poison   messages that no broker accepts; sent only with --outcome poison
    """
    from platform_defs.producers.unsent.resend import DEFAULT_OUTCOMES, Choice

    ledger = taken_in(pipeline)
    outcomes = DEFAULT_OUTCOMES if outcome is None else (outcome,)
    choice = Choice(outcomes, may_double=may_double, may_overwrite=may_overwrite)
    with progress() as show:
        done = _resending(pipeline, ledger, show).run(choice)
    poison = [count for count in ledger.counts(pipeline, None, "poison") if count.status == "open"]
    answer = {
        "pipeline": pipeline,
        "found": done.found,
        "sent": done.sent,
        "refused": [{"code": r.code, "why": r.why, "messages": number} for r, number in done.refused.items()],
        "failed": dict(done.failed),
        "stopped": done.stopped,
        "poison": sum(count.messages for count in poison),
    }
    print_answer(answer, lambda: _print(pipeline, done, poison), output)
    if not done.is_complete:
        raise typer.Exit(1)


@app.command()
def discard(
    pipeline: PipelineArgument,
    execute: ExecuteAsShownOption = False,
    reason: ReasonOption = None,
    outcome: Outcome | None = typer.Option(None, help="Only messages with this outcome.", show_default="all"),
    error: str | None = typer.Option(
        None, help="Only messages with this error, such as MSG_SIZE_TOO_LARGE.", show_default="all"
    ),
    unsent_id: UUID | None = typer.Option(None, "--id", help="Only the message with this id.", show_default="all"),
    expect: ExpectOption = None,
    output: OutputOption = Output.human,
) -> None:
    """Show messages that producers could not deliver; with --execute, discard them.

    Nothing changes without --execute, which requires the fingerprint that was
    shown: if another message has failed since then, or one is no longer open,
    nothing changes. Discarded messages are not sent; they stay in the ledger,
    with the user and the reason.

    \b
    JSON:
      pipeline
      messages     how many open messages are selected
      by_reason    topic, outcome, error_name, status (open), messages
      fingerprint
      discarded    0, or with --execute how many were discarded
      command      without --execute: the command that discards them
    """
    from platform_defs.producers.unsent.ledger import Chosen
    from platform_defs.settings.current_user import current_user

    why, ledger = required_reason(execute, reason), taken_in(pipeline)
    if execute and expect is None:
        raise typer.BadParameter("--execute requires --expect, the fingerprint that is shown without --execute")
    options = {"outcome": outcome, "error": error, "id": unsent_id}
    command = f"tidegate unsent discard {pipeline}"
    command += "".join(f" --{name} {value}" for name, value in options.items() if value is not None)
    chosen = Chosen(outcome, error, unsent_id)
    found = ledger.discardable(pipeline, chosen)
    refuse_unexpected(pipeline, expect, found.fingerprint, command)
    answer: dict[str, Any] = {
        "pipeline": pipeline,
        "messages": found.messages,
        "by_reason": [asdict(count) for count in found.counts],
        "fingerprint": found.fingerprint,
        "discarded": found.messages if execute else 0,
    }
    if execute:
        with ledger.hold(pipeline) as held:
            held.discard(chosen, found, why, current_user())
        print_answer(answer, f"{plural(found.messages, 'message')} of {pipeline} discarded", output)
        return
    if output is Output.human and found.counts:
        heads = ["topic", "outcome", "error", "messages"]
        print_table(heads, [(one.topic, one.outcome, one.error_name, one.messages) for one in found.counts])
    if output is Output.human and not found.messages:
        print_line("There is nothing to discard.")
        return
    purpose = f"{plural(found.messages, 'message')} would be discarded without being sent. To do it"
    print_proposal(answer, purpose, command, found.fingerprint, output)


def taken_in(pipeline: str) -> UnsentLedger:
    """Return the ledger, with the files written while it was unavailable. Raises BadInput for an unknown pipeline."""
    from platform_defs.producers.unsent.files import unsent_files
    from platform_defs.producers.unsent.ledger import UnsentLedger
    from platform_defs.settings.contracts import find_contract
    from platform_defs.stack.endpoints import ledger_alone

    find_contract(pipeline)
    ledger = UnsentLedger(ledger_alone())
    unsent_files().take_in(ledger.keep)
    return ledger


def _resending(pipeline: str, ledger: UnsentLedger, show: Callable[[str], None]) -> Resending:
    from platform_defs.kafka.broker import KafkaBroker
    from platform_defs.kafka.source import KafkaSource
    from platform_defs.producers.unsent.resend import Resender, Resending
    from platform_defs.settings.contracts import find_contract
    from platform_defs.settings.current_user import current_user
    from platform_defs.stack.endpoints import connection

    contract, options = find_contract(pipeline), connection().kafka_options()
    return Resending(
        pipeline=pipeline,
        ledger=ledger,
        broker=KafkaBroker(options),
        source=KafkaSource(options, patience=90.0),
        senders=lambda topic: Resender(options, topic, contract.producing.options, f"tidegate.{pipeline}.dlq"),
        who=current_user(),
        show=show,
        of_state=contract.row_table.disposition == "upsert",
    )


def _print(pipeline: str, done: Resent, poison: Sequence[UnsentCount]) -> None:
    from platform_defs.producers.unsent.resend import GONE, NEWER, TOMBSTONE

    print_line(f"{pipeline}: {plural(done.found, 'message')} found in the log, {plural(done.sent, 'message')} sent")
    for refused, number in done.refused.items():
        option = "--may-overwrite" if refused in (NEWER, GONE, TOMBSTONE) else "--may-double"
        lifted = f"To send them anyway, add {option}. " if refused.may_be_lifted else ""
        print_line(
            f"{plural(number, 'message')} not sent: {refused.why}. {lifted}To discard them: tidegate unsent discard "
            f"{pipeline}"
        )
    for name, number in done.failed.items():
        print_line(f"{plural(number, 'message')} failed again: {name}")
    if done.stopped:
        print_line(f"The rest was not tried. Once Kafka accepts messages again: tidegate unsent send {pipeline}")
    if number := sum(count.messages for count in poison):
        names = ", ".join(sorted({count.error_name for count in poison}))
        print_line(
            f"{plural(number, 'message')} not tried, because no broker accepts them as they are ({names}). Once "
            f"the topic accepts them: tidegate unsent send {pipeline} --outcome poison. Otherwise: tidegate unsent "
            f"discard {pipeline} --outcome poison"
        )
