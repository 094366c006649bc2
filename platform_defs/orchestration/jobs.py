"""Jobs: one for each pipeline, called like it, and `verify` for all."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition as AssetJob,  # what define_asset_job returns has no public name
)

from platform_defs.contract.model import Contract
from platform_defs.orchestration.keys import PIPELINE_TAG, table_keys, verify_key

NO_RETRIES = {"dagster/max_retries": "0"}  # the sensor starts the next run; a retry beside it would only wait for it


def pipeline_job(contract: Contract) -> AssetJob:
    """Drains the pipeline: `dagster job execute -j bank_transfers`."""
    return dg.define_asset_job(
        contract.pipeline,
        selection=dg.AssetSelection.assets(*table_keys(contract)),
        tags={PIPELINE_TAG: contract.pipeline, **NO_RETRIES},
        description=f"Carries what is unread in {contract.topic} to {', '.join(t.name for t in contract.tables)}.",
    )


def verify_job(contracts: Sequence[Contract]) -> AssetJob:
    """Runs every `verify` check."""
    return dg.define_asset_job(
        "verify",
        selection=dg.AssetSelection.checks(*(verify_key(contract) for contract in contracts)),
        description="Reads every topic whole and compares it, message by message, with its tables.",
    )
