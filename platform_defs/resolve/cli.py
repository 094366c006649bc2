"""`tidegate resolve` and `tidegate split-batch`: change how a pipeline goes on, shown first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from platform_defs.cli.halt_detail import print_halt_detail
from platform_defs.cli.options import ExecuteWithReasonOption, ExpectOption, PipelineArgument, ReasonOption
from platform_defs.cli.output import Output, OutputOption, print_answer, print_line, print_table
from platform_defs.cli.proposals import print_proposal, refuse_unexpected, required_reason
from platform_defs.resolve.choices import BatchChoice, ResumeAt

if TYPE_CHECKING:
    from platform_defs.resolve.ledger import LogPosition
    from platform_defs.resolve.settlement import Settlement


def resolve(
    pipeline: PipelineArgument,
    execute: ExecuteWithReasonOption = False,
    reason: ReasonOption = None,
    start: ResumeAt | None = typer.Option(
        None,
        "--from",
        help="Where to continue: beginning or end of another log; cut or position in a truncated log.",
        show_default=False,
    ),
    batch: BatchChoice | None = typer.Option(
        None,
        help="What to do with a batch that fails a blocking check, or whose schemas the registry does not return. "
        "The default is retry.",
        show_default=False,
    ),
    expect: ExpectOption = None,
    output: OutputOption = Output.human,
) -> None:
    """Show how to resolve a halted pipeline; with --execute, resolve it.

    Nothing changes without --execute. The next run continues from the
    positions shown. A batch that fails a blocking check can be resolved before
    it halts the pipeline: --batch publish publishes it despite the failed
    checks, --batch dead-letters turns all its messages into dead letters. If
    the pipeline halted because the registry does not return a schema, --batch
    dead-letters turns only the messages that name that schema into dead
    letters. If the log no longer has the messages of a batch, nothing can be
    decided about it: the command shows where reading resumes instead.

    \b
    JSON: pipeline, state (active or halted), resolved; if there is something
    to resolve, also
      code, detail   why it is halted, or which checks fail
      explanation    what --execute does
      steps          partition, was, becomes (null, or topic, cluster_id,
                     topic_id, start_offset, next_offset), skip, lost
                     (from, until), read_first_to
      accept         whether the batch is published with all its dead letters
      checks_accepted  blocking checks that the batch may fail
      set_aside      null, or why all its messages become dead letters
      without_schemas  whether its messages without a schema become dead letters
      registry       null, or the registry in which ids are looked up again
                     from these positions on
      keep_pending   whether the same batch is read again
      epoch, fingerprint
      command        without --execute: the command that resolves it
      settlement_id  with --execute: the record in tidegate.settlement
    """
    from platform_defs.resolve import settlement
    from platform_defs.settings.contracts import find_contract
    from platform_defs.settings.current_user import current_user
    from platform_defs.stack.open_systems import open_systems

    why = required_reason(execute, reason)
    contract, systems = find_contract(pipeline), open_systems()
    decided = settlement.propose(contract, systems.ledger, systems.broker, start, batch)
    if decided is None:
        answer = {"pipeline": pipeline, "state": "active", "resolved": False}
        print_answer(answer, f"{pipeline} is not halted.", output)
        return
    command = f"tidegate resolve {pipeline}"
    command += (f" --from {start}" if start else "") + (f" --batch {batch}" if batch else "")
    refuse_unexpected(pipeline, expect, decided.fingerprint, command)
    if output is Output.human:
        _show(decided)
    if not execute:
        answer = {**decided.to_json(), "resolved": False}
        print_proposal(answer, "To resolve it", command, decided.fingerprint, output)
        return
    number = settlement.settle(systems.endpoints.postgres_url, contract, decided, why, current_user())
    done: dict[str, Any] = {**decided.to_json(), "resolved": True, "settlement_id": number, "state": "active"}
    print_answer(done, f"Resolved (settlement {number}). The next run of {pipeline} continues as shown above.", output)


def split_batch(
    pipeline: PipelineArgument,
    messages: int = typer.Option(
        help="Approximate number of messages in each smaller batch.", min=1, show_default=False
    ),
    execute: ExecuteWithReasonOption = False,
    reason: ReasonOption = None,
    expect: ExpectOption = None,
    output: OutputOption = Output.human,
) -> None:
    """Split a batch that is too large to complete.

    The offsets of a planned batch are fixed: every retry reads the same
    messages until the batch commits. If it is too large for a time or memory
    limit, split it: the same messages are then read in smaller batches, in the
    same order within each partition. Nothing changes without --execute, which
    fences a run in progress. A pipeline that halted because the batch kept
    failing becomes active again.

    \b
    JSON: pipeline, batch_id, offsets, messages, batches, epoch, fingerprint;
    command without --execute; settlement_id with --execute, the record in
    tidegate.settlement
    """
    from platform_defs.resolve import split_batch as operation
    from platform_defs.settings.contracts import find_contract
    from platform_defs.settings.current_user import current_user
    from platform_defs.stack.open_systems import open_systems

    why, contract, systems = required_reason(execute, reason), find_contract(pipeline), open_systems()
    decided = operation.propose(systems.ledger, contract.pipeline, messages)
    operation.refuse_unreadable(decided, contract, systems.ledger, systems.broker)
    command = f"tidegate split-batch {pipeline} --messages {messages}"
    refuse_unexpected(pipeline, expect, decided.fingerprint, command)
    answer = decided.to_json()
    becomes = f"Batch {decided.was.batch_id} of {decided.offsets:,} offsets becomes about {decided.parts:,} batches."
    if not execute:
        print_proposal(answer, f"{becomes} To do it", command, decided.fingerprint, output)
        return
    number = operation.cut(systems.endpoints.postgres_url, decided, why, current_user())
    print_answer({**answer, "settlement_id": number}, f"{becomes} (settlement {number})", output)


def _show(decided: Settlement) -> None:
    state = "halted" if decided.state == "halted" else "not halted yet"
    print_line(f"{decided.pipeline} is {state}: {decided.detail.code}")
    print_halt_detail(decided.detail.to_json())
    print_line(decided.explanation)
    rows = [
        (step.partition, _place(step.was), _place(step.becomes), _span(step.skip), _span(step.lost))
        for step in decided.steps
    ]
    if rows:
        print_table(["partition", "position", "new position", "skipped", "no longer in the log"], rows)


def _place(place: LogPosition | None) -> str | None:
    return None if place is None else f"{place.next_offset} of {place.topic} ({place.topic_id})"


def _span(span: tuple[int, int] | None) -> str | None:
    return span and f"[{span[0]}, {span[1]})"
