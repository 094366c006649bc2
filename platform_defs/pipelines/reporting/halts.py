"""A halt as an asset check of the row table, `not_halted`: failed from the halt until a person resolves it.

Only the ledger knows whether a pipeline is halted. Every run reports it to Dagster, however it ends. Between runs the
sensor does, if Dagster shows something else: after a settlement, or a halt found by a run outside Dagster.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg
from dagster import DagsterInstance
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.reserved import NOT_HALTED
from platform_defs.contract.redaction import stored_halt
from platform_defs.dagster.keys import table_key
from platform_defs.errors import Halt
from platform_defs.ledger.answers import PipelineStatus
from platform_defs.pipelines.reporting.events import samples_table


def halt_check_spec(contract: Contract) -> dg.AssetCheckSpec:
    """Return the check. It need not block: a run of a halted pipeline fails anyway."""
    return dg.AssetCheckSpec(
        NOT_HALTED,
        asset=table_key(contract.row_table.name, contract.asset_prefix),
        description=(
            f"Fails while {contract.pipeline} is halted: it stopped because continuing would lose or repeat "
            f"messages. To see how to resolve it: tidegate resolve {contract.pipeline}"
        ),
        metadata={"evaluated": "in each run, and when the ledger changes"},
    )


def not_halted(contract: Contract, status: PipelineStatus) -> dg.AssetCheckEvaluation:
    """Return the check, from the ledger's `status` of the pipeline."""
    halt = status.halt
    if halt is not None:
        detail = stored_halt(contract, halt.detail)
        halt = Halt(contract.pipeline, detail, detail.seen)
    return dg.AssetCheckEvaluation(
        asset_key=table_key(contract.row_table.name, contract.asset_prefix),
        check_name=NOT_HALTED,
        passed=halt is None,
        severity=dg.AssetCheckSeverity.ERROR,
        description=str(halt) if halt else f"{contract.pipeline} is not halted.",
        metadata=halt_metadata(halt) if halt else {},
    )


def halt_metadata(halt: Halt) -> dict[str, Any]:
    """Return the facts about a halt: its code, the command that shows how to resolve it, the exact ranges."""
    detail = halt.detail.to_json()
    tables = {name: samples_table(detail[name]) for name in ("ranges", "samples") if detail.get(name)}
    return {"halt": halt.code, "resolve with": halt.command, **tables, "detail": dg.MetadataValue.json(detail)}


def stale_halt_checks(
    instance: DagsterInstance, found: Sequence[tuple[Contract, PipelineStatus]]
) -> list[dg.AssetCheckEvaluation]:
    """Return the checks that Dagster shows differently from the ledger, found with one query for all.

    Call for pipelines that no run works on: a run reports the check itself.
    """
    return shows_otherwise(instance, [not_halted(contract, status) for contract, status in found if status.has_run])


def as_result(found: dg.AssetCheckEvaluation) -> dg.AssetCheckResult:
    """Return the same for an op that yields it, where a sensor would report it."""
    return dg.AssetCheckResult(
        passed=found.passed,
        asset_key=found.asset_key,
        check_name=found.check_name,
        severity=found.severity,
        description=found.description,
        metadata=found.metadata,
    )


def shows_otherwise(
    instance: DagsterInstance, current: Sequence[dg.AssetCheckEvaluation]
) -> list[dg.AssetCheckEvaluation]:
    """Return those of `current` that Dagster shows differently, found with one query for all."""
    if not current:
        return []
    shown = instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [item.asset_check_key for item in current]
    )
    return [item for item in current if not _same(item, shown.get(item.asset_check_key))]


def _same(current: dg.AssetCheckEvaluation, shown: AssetCheckExecutionRecord | None) -> bool:
    event = shown.event.dagster_event if shown and shown.event else None
    last = event.event_specific_data if event else None
    return isinstance(last, dg.AssetCheckEvaluation) and (last.passed, last.severity, last.metadata) == (
        current.passed,
        current.severity,
        current.metadata,
    )
