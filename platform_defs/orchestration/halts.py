"""A halt as an asset check of the row table, `not_halted`: red from the halt on until a person has settled it.

The ledger alone says how a pipeline is. Every run says it once more at its end, whatever became of that run; between
runs
the sensor does, as soon as Dagster shows something else: a settlement, or a halt that a run outside of Dagster found.
"""

from collections.abc import Iterator
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
    """The check. It blocks nothing: a run of a halted pipeline fails by itself."""
    return dg.AssetCheckSpec(
        NOT_HALTED,
        asset=table_key(contract.row_table.name),
        description=(
            f"{contract.pipeline} has not stopped because going on would lose or repeat messages. Red until a person "
            f"has settled the halt; to see what settles it: tidegate ack {contract.pipeline}"
        ),
        metadata={"judges": "the pipeline"},
    )


def not_halted(contract: Contract, status: PipelineStatus | None) -> dg.AssetCheckEvaluation:
    """The check as the ledger's `status` has it."""
    halt = status.halt if status else None
    return dg.AssetCheckEvaluation(
        asset_key=table_key(contract.row_table.name),
        check_name=NOT_HALTED,
        passed=halt is None,
        severity=dg.AssetCheckSeverity.ERROR,
        description=str(halt) if halt else f"{contract.pipeline} is not halted.",
        metadata=halt_metadata(halt) if halt else {},
    )


def halt_metadata(halt: Halt) -> dict[str, Any]:
    """What a person has to know of a halt: its code, what shows how to settle it, and exactly what it is about."""
    tables = {name: samples_table(halt.detail[name]) for name in ("ranges", "samples") if halt.detail.get(name)}
    return {"halt": halt.code, "settle with": halt.command, **tables, "detail": dg.MetadataValue.json(halt.detail)}


@contextmanager
def report_halt_at_end(context: dg.AssetExecutionContext, ledger: Ledger, contract: Contract) -> Iterator[None]:
    """Tell Dagster at the end of a run, however it ends, whether the pipeline is halted."""
    try:
        yield
    finally:
        try:
            found = not_halted(contract, ledger.status(contract.pipeline))
            context.log_event(found)  # pyright: ignore[reportArgumentType]  # taken, though the annotation omits it
        except TidegateError as error:
            context.log.warning(f"whether {contract.pipeline} is halted is not known: {error}")


def stale_halt_check(
    instance: DagsterInstance, contract: Contract, status: PipelineStatus | None
) -> list[dg.AssetCheckEvaluation]:
    """The check, where Dagster does not show what the ledger says. Ask while no run works: that tells by itself."""
    if status is None:
        return []
    found = not_halted(contract, status)
    shown = instance.get_latest_asset_check_evaluation_record(found.asset_check_key)
    said = shown.evaluation if shown else None
    same = isinstance(said, dg.AssetCheckEvaluation) and (said.passed, said.metadata) == (found.passed, found.metadata)
    return [] if same else [found]
