"""`tidegate split-batch`: split a batch whose offsets are fixed into smaller ones."""

import typer

from platform_defs.cli.options import ExecuteWithReasonOption, ExpectOption, PipelineArgument, ReasonOption
from platform_defs.cli.output import Output, OutputOption, print_answer
from platform_defs.cli.proposals import print_proposal, refuse_unexpected, required_reason


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
