"""A halt as an asset check of the row table, `not_halted`: failed from the halt until a person settles it.

Only the ledger knows whether a pipeline is halted. Every run reports it to Dagster at its end, however it ends. Between
runs the sensor does, when Dagster shows something else: after a settlement, or a halt found by a run outside Dagster.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster import DagsterInstance

from platform_defs.contract.model import Contract
from platform_defs.errors import Halt, TidegateError
from platform_defs.orchestration.events import samples_table
from platform_defs.orchestration.keys import table_key
from resources.postgres.answers import PipelineStatus
from resources.postgres.ledger import Ledger

NOT_HALTED = "not_halted"


def halt_check_spec(contract: Contract) -> dg.AssetCheckSpec:
    """The check. It need not block: a run of a halted pipeline fails anyway."""
    return dg.AssetCheckSpec(
        NOT_HALTED,
        asset=table_key(contract.row_table.name),
        description=(
            f"Fails while {contract.pipeline} is halted: it stopped because reading further would lose or repeat "
            f"messages. To see how to settle it: tidegate ack {contract.pipeline}"
        ),
        metadata={"evaluated": "at the end of each run, and when the ledger changes"},
    )


def not_halted(contract: Contract, status: PipelineStatus) -> dg.AssetCheckEvaluation:
    """The check, from the ledger's `status` of the pipeline."""
    halt = status.halt
    return dg.AssetCheckEvaluation(
        asset_key=table_key(contract.row_table.name),
        check_name=NOT_HALTED,
        passed=halt is None,
        severity=dg.AssetCheckSeverity.ERROR,
        description=str(halt) if halt else f"{contract.pipeline} is not halted.",
        metadata=halt_metadata(halt) if halt else {},
    )


def halt_metadata(halt: Halt) -> dict[str, Any]:
    """What a person needs to know about a halt: its code, the command that shows how to settle it, the exact ranges."""
    detail = halt.detail.to_json()
    tables = {name: samples_table(detail[name]) for name in ("ranges", "samples") if detail.get(name)}
    return {"halt": halt.code, "settle with": halt.command, **tables, "detail": dg.MetadataValue.json(detail)}


@contextmanager
def report_halt_at_end(context: dg.AssetExecutionContext, ledger: Ledger, contract: Contract) -> Generator[None]:
    """Report at the end of a run, however it ends, whether the pipeline is halted."""
    try:
        yield
    finally:
        try:
            found = not_halted(contract, ledger.status(contract.pipeline))
            context.log_event(found)  # pyright: ignore[reportArgumentType]  # taken, though the annotation omits it
        except TidegateError as error:
            context.log.warning(f"could not find out whether {contract.pipeline} is halted: {error}")


def stale_halt_check(
    instance: DagsterInstance, contract: Contract, status: PipelineStatus
) -> list[dg.AssetCheckEvaluation]:
    """The check, where Dagster shows something else than the ledger says. Ask between runs: a run reports it itself."""
    if not status.has_run:
        return []
    found = not_halted(contract, status)
    shown = instance.get_latest_asset_check_evaluation_record(found.asset_check_key)
    last = shown.evaluation if shown else None
    same = isinstance(last, dg.AssetCheckEvaluation) and (last.passed, last.metadata) == (found.passed, found.metadata)
    return [] if same else [found]
