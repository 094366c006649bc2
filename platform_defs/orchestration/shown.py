"""What Dagster shows of a pipeline's checks: a run that the sensor started repeats none of it.

Such runs come every few minutes, and a check that passed before and passes again is no news. To tell Dagster of each
would be most of what a small batch costs.
"""

import time

import dagster as dg
from dagster import DagsterInstance
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from platform_defs.contract.model import Contract
from platform_defs.orchestration.checks import check_specs

REPEATED = 3600.0  # seconds after which a check that still passes is told again, so that it is seen to be evaluated


class Shown:
    """What Dagster shows, as of the first question."""

    def __init__(self, instance: DagsterInstance, contract: Contract) -> None:
        self._instance, self._contract = instance, contract
        self._passed: dict[dg.AssetCheckKey, float] | None = None  # when, in seconds since the epoch

    def repeats(self, found: dg.AssetCheckEvaluation) -> bool:
        """Whether Dagster shows the check as passed, told not long ago, and it has passed again."""
        if self._passed is None:
            self._passed = self._asked()
        return found.passed and time.time() - self._passed.get(found.asset_check_key, 0.0) < REPEATED

    def told(self, found: dg.AssetCheckEvaluation) -> None:
        """Dagster has been told."""
        known = {} if self._passed is None else self._passed
        known.pop(found.asset_check_key, None)
        if found.passed:
            known[found.asset_check_key] = time.time()

    def _asked(self) -> dict[dg.AssetCheckKey, float]:
        keys = [spec.key for spec in check_specs(self._contract)]
        found = self._instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
        passed = AssetCheckExecutionRecordStatus.SUCCEEDED
        return {key: record.create_timestamp for key, record in found.items() if record.status is passed}
