"""Step 6: the checks of a whole batch, and the gate that they form.

The contract's batch rules are evaluated by an Auditor (engine/commit/auditor.py), on the rows that publish
would write. The row rules were applied in the tasks; here they are counted, so that each of them is a check result as
well. No connection is opened here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from platform_defs.contract.model.classified import HIDDEN, classified, names_any
from platform_defs.contract.model.contract import CheckResult, Contract
from platform_defs.contract.model.reserved import MESSAGE_DECODES, ROW_IS_ACCEPTED
from platform_defs.errors import GateFailed, Halt
from platform_defs.errors.halts import BlockingCheckFailed
from platform_defs.errors.words import plural

if TYPE_CHECKING:  # Dagster's definitions have the descriptions, and do not wait for Arrow's import
    from platform_defs.engine.interfaces.staged import FaultGroup, Staged

SAMPLES = 10
GATE_TRIES = 8  # tries before the batch halts its pipeline: about an hour of them (`back_off`)
OF_MESSAGES = {
    MESSAGE_DECODES: "The message is a JSON object whose fields have the contract's types.",
    ROW_IS_ACCEPTED: "The transform and the table accept the message, and no user has rejected its batch.",
}


def row_check_names(contract: Contract) -> list[str]:
    """Return the checks that count messages: decoding, each row rule, and rejections by the transform or the table."""
    return [MESSAGE_DECODES, *(rule.name for rule in contract.row_rules), ROW_IS_ACCEPTED]


def row_check_descriptions(contract: Contract) -> dict[str, str]:
    """Return what each of `row_check_names` requires of a message."""
    descriptions = OF_MESSAGES | {rule.name: rule.description for rule in contract.row_rules}
    return {name: descriptions[name] for name in row_check_names(contract)}


def row_checks(contract: Contract, faults: Sequence[FaultGroup], messages: int) -> list[CheckResult]:
    """Return a result for each of `row_check_names`. They only warn: messages that failed are dead letters already."""
    counts: dict[str, int] = {}
    samples: dict[str, list[Mapping[str, Any]]] = {}
    for group in faults:
        name = {"decode": MESSAGE_DECODES, "check": group.error_class}.get(group.stage, ROW_IS_ACCEPTED)
        counts[name] = counts.get(name, 0) + group.count
        samples[name] = [*samples.get(name, []), *group.samples][:SAMPLES]
    return [
        CheckResult(
            name,
            contract.row_table.name,
            "warning",
            name not in counts,
            {"messages": messages, "failed": counts.get(name, 0), "samples": samples.get(name, [])},
        )
        for name in row_check_names(contract)
    ]


def without_values(contract: Contract, results: Sequence[CheckResult]) -> list[CheckResult]:
    """Return the results of batch rules as they may be stored and shown: without observed values of classified columns.

    The number of failed rows stays, and where they are.
    """
    hidden = classified(contract)
    rules = {(rule.table, rule.name): rule for rule in contract.batch_rules}
    tables = {table.name: hidden.of_table(table) for table in contract.tables}
    return [
        replace(result, observed={**result.observed, "observed_value": HIDDEN})
        if "observed_value" in result.observed and names_any(rules[result.table, result.name], tables[result.table])
        else result
        for result in results
    ]


def failed_checks(staged: Staged, checks: Sequence[CheckResult]) -> BlockingCheckFailed | None:
    """Return the blocking checks that failed, except those a person accepted for this batch; None if there are none."""
    pending = staged.pending
    failed = [
        {"check": check.name, "table": check.table, "observed": check.observed}
        for check in checks
        if not check.passed and check.severity == "blocking" and check.name not in pending.checks_accepted
    ]
    return BlockingCheckFailed(pending.batch_id, staged.messages, staged.rows, tuple(failed)) if failed else None


def rejection(pipeline: str, failed: BlockingCheckFailed, checks: Sequence[CheckResult]) -> GateFailed | Halt:
    """Return the error to raise: GateFailed, to retry the batch after a back-off, or a Halt after GATE_TRIES tries."""
    names = ", ".join(f"{item['check']} on {item['table']} ({_brief(item['observed'])})" for item in failed.checks)
    seen = f"batch {failed.batch_id} failed {names}. Nothing was published, and the offsets did not move."
    if failed.tries >= GATE_TRIES:
        return Halt(pipeline, failed, f"{seen} The batch was checked {plural(failed.tries, 'time')}.")
    return GateFailed(
        f"{pipeline}: {seen} Correct the contract's rule or the producer of the messages; the next try checks the "
        "same offsets again. To publish the batch anyway, or turn its messages into dead letters: tidegate resolve "
        f"{pipeline}",
        checks,
    )


def _brief(observed: Mapping[str, Any]) -> str:
    if "observed_value" in observed:
        return f"observed {observed['observed_value']}"
    return f"{plural(observed['failed'], 'row')} failed" if "failed" in observed else "some rows failed"
