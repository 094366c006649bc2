"""`tidegate adopt`: re-attach restored or moved tables to their pipeline."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from platform_defs.cli.options import ExecuteWithReasonOption, ExpectOption, PipelineArgument, ReasonOption
from platform_defs.cli.output import Output, OutputOption, print_answer, print_line, print_table, progress
from platform_defs.cli.proposals import print_proposal, refuse_unexpected, required_reason
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.adopt.adopt import Adoption
    from platform_defs.contract.model.pipeline import Pipeline
    from platform_defs.stack.endpoints import Endpoints


def adopt(
    pipeline: PipelineArgument,
    execute: ExecuteWithReasonOption = False,
    reason: ReasonOption = None,
    expect: ExpectOption = None,
    output: OutputOption = Output.human,
) -> None:
    """Re-attach restored or moved tables to their pipeline.

    After a dump is restored or a database is moved, every table has a new
    OID, and runs refuse the tables. This command verifies the tables against
    the topic, and binds the tables of the same names to the pipeline. It also
    advances the ledger's sequences if they are behind the ids in the ledger.
    Nothing changes without --execute.

    \b
    JSON: pipeline, adopted; if there is something to adopt, also
      bindings      table, was, becomes (OIDs)
      sequences     sequence, was, becomes
      unverified    tables to rebuild before the next run (tidegate replay)
      found         the result of verify; digest of the tables
      newest_batch, fingerprint
      command       without --execute: the command that adopts them
      adoption_id   with --execute: the record in tidegate.adoption
    """
    from platform_defs.adopt import adopt as adoption
    from platform_defs.settings.contracts import find_pipeline
    from platform_defs.settings.current_user import current_user
    from platform_defs.stack.open_systems import open_systems

    why = required_reason(execute, reason)
    wanted, endpoints = find_pipeline(pipeline), open_systems().endpoints
    decided = adoption.propose(endpoints.postgres_url, wanted.contract)
    if decided is None:
        print_answer(
            {"pipeline": pipeline, "adopted": False}, f"{pipeline} already has its tables: nothing to do.", output
        )
        return
    decided = _verified(wanted, endpoints, decided)
    command = f"tidegate adopt {pipeline}"
    refuse_unexpected(pipeline, expect, decided.fingerprint, command)
    if output is Output.human:
        _show(decided)
    if not execute:
        answer = {**decided.to_json(), "adopted": False}
        print_proposal(answer, "To adopt them", command, decided.fingerprint, output)
        return
    number = adoption.adopt(endpoints.postgres_url, wanted.contract, decided, why, current_user())
    done = {**decided.to_json(), "adopted": True, "adoption_id": number}
    print_answer(
        done, f"Adopted (adoption {number}). The next run of {pipeline} continues at its last position.", output
    )


def _verified(wanted: Pipeline, endpoints: Endpoints, decided: Adoption) -> Adoption:
    from platform_defs.adopt.adopt import to_verify
    from platform_defs.contract.redaction import redacting
    from platform_defs.errors import InternalError
    from platform_defs.verify.verify import verify

    whole = replace(wanted, contract=to_verify(wanted.contract, decided))
    bug = partial(InternalError.in_command, f"adopt {wanted.name}")
    with progress() as show, redacting(wanted.contract, bug):
        report = verify(
            whole,
            endpoints,
            progress=lambda done, total: show(f"{done:,} of {plural(total, 'message')} compared"),
            hides=wanted.contract,
        )
    return decided.verified(ok=report.ok, digest=report.digest, found=report.explanation)


def _show(decided: Adoption) -> None:
    print_line(decided.found)
    print_table(["table", "OID", "new OID"], [(item.table, item.was, item.becomes) for item in decided.bindings])
    if decided.sequences:
        rows = [(item.sequence, item.was, item.becomes) for item in decided.sequences]
        print_table(["sequence", "value", "new value"], rows)
    if decided.unverified:
        print_line(f"Not verified, because the next run requires them to be rebuilt: {', '.join(decided.unverified)}")
