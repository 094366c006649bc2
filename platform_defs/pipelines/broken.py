"""Contracts and transforms that cannot be used, as Dagster shows them: an asset each, with a check that is red.

Nothing else is affected: the other pipelines have their assets and checks, and are read. The check needs no run to be
red: a sensor reports it, once, and again when the error changes. Once the file is corrected and the code location
reloaded, asset, check and sensor are gone.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster import DagsterInstance

from platform_defs.contract.model.reserved import CONTRACT_LOADS
from platform_defs.contract.reader.catalogue import BrokenContract
from platform_defs.dagster.keys import table_key

SENSOR = "broken_contracts"
EVERY = 30  # seconds between two checks of what Dagster shows


@dataclass(frozen=True)
class BrokenAsset:
    """A BrokenContract as an asset in Dagster."""

    key: dg.AssetKey
    name: str  # of its op, unique among all ops
    group: str
    broken: BrokenContract

    @property
    def sentence(self) -> str:
        return str(self.broken.error)


def broken_assets(broken: Sequence[BrokenContract], prefix: Sequence[str] = ()) -> list[BrokenAsset]:
    """Return them, each with a key of its own, below the prefix.

    That is its row table's key if the contract could be read and no other broken contract claims that table, so that
    the table keeps its place and its history. Otherwise it is the file, `assets/bank/transfers.odcs.yaml`: tables and
    topics have keys of two parts.
    """
    claims = Counter(item.contract.row_table.name for item in broken if item.contract)
    found = dict[dg.AssetKey, BrokenAsset]()
    for number, item in enumerate(broken):
        table = item.contract.row_table.name if item.contract else None
        file = (item.path.parent.parent.name, item.path.parent.name, item.path.name)
        words = [re.sub(r"[^A-Za-z0-9_.-]", "_", part) for part in file]
        key = dg.AssetKey([*prefix, *(table_key(table).path if table and claims[table] == 1 else words)])
        if key in found:  # two files whose names differ in characters that Dagster rejects
            key = dg.AssetKey([*key.path[:-1], f"{key.path[-1]}_{number}"])
        group = re.sub(r"[^A-Za-z0-9_]", "_", item.path.parent.name)  # a name that Dagster accepts
        found[key] = BrokenAsset(key, f"broken_{number}", group, item)
    return list(found.values())


def broken_asset(shown: BrokenAsset, names: str = "") -> dg.AssetsDefinition:
    """Return the asset. Materializing it fails with the sentence, which its check shows too."""

    @dg.multi_asset(
        name=f"{names}{shown.name}",
        specs=[
            dg.AssetSpec(
                shown.key,
                skippable=True,
                description=f"Cannot be used: {shown.sentence}",
                group_name=shown.group,
                kinds={"broken"},
                metadata=_metadata(shown),
            )
        ],
        check_specs=[
            dg.AssetCheckSpec(
                CONTRACT_LOADS,
                asset=shown.key,
                description=(
                    "The contract and its transform can be loaded. If this check fails, correct the file and "
                    "reload the code location. Other pipelines are not affected."
                ),
            )
        ],
        can_subset=True,
    )
    def fail(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        yield from ()  # nothing is materialized
        context.log_event(evaluation(shown))  # pyright: ignore[reportArgumentType]  # accepted, though not annotated
        raise dg.Failure(shown.sentence, _metadata(shown), allow_retries=False)

    return fail


def evaluation(shown: BrokenAsset) -> dg.AssetCheckEvaluation:
    """Return the failed check: the sentence, and file, line and field of the mistake."""
    return dg.AssetCheckEvaluation(
        asset_key=shown.key,
        check_name=CONTRACT_LOADS,
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR,
        description=shown.sentence,
        metadata=_metadata(shown),
    )


def report_broken(broken: Sequence[BrokenAsset], names: str = "") -> dg.SensorDefinition:
    """Return a sensor that turns the checks red without a run."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=f"{names}{SENSOR}",
        minimum_interval_seconds=EVERY,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports contracts and transforms that cannot be used. Launches no runs.",
    )
    def report(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        reason = f"these cannot be used: {'; '.join(item.sentence for item in broken)}"
        return dg.SensorResult(asset_events=not_shown(context.instance, broken), skip_reason=reason)

    return report


def not_shown(instance: DagsterInstance, broken: Sequence[BrokenAsset]) -> list[dg.AssetCheckEvaluation]:
    """Return the failed checks that Dagster does not show yet, or shows with another sentence."""
    missing = list[dg.AssetCheckEvaluation]()
    for check in map(evaluation, broken):
        record = instance.get_latest_asset_check_evaluation_record(check.asset_check_key)
        shown: Any = record.evaluation if record else None  # Any: of a check that a run has only planned, that event
        alike = isinstance(shown, dg.AssetCheckEvaluation) and shown.passed == check.passed
        if not alike or shown.description != check.description:
            missing.append(check)
    return missing


def _metadata(shown: BrokenAsset) -> dict[str, Any]:
    error = shown.broken.error
    line = None if error.line is None else str(error.line)  # a text: Dagster would plot a number
    place = {"file": error.file or str(shown.broken.path), "line": line, "field": error.field}
    return {name: value for name, value in place.items() if value is not None}
