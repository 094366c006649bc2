"""Jobs: one for each pipeline, with its name, and `verify` for all of them."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition as AssetJob,  # what define_asset_job returns has no public name
)

from platform_defs.contract.model import Contract
from platform_defs.orchestration.keys import PIPELINE_TAG, table_keys, verify_key

NO_RETRIES = {"dagster/max_retries": "0"}  # the sensor starts the next run; a retry would only compete with it


def pipeline_job(contract: Contract) -> AssetJob:
    """Drains the pipeline: `dagster job execute -j bank_transfers`."""
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        contract.pipeline,
        selection=dg.AssetSelection.assets(*table_keys(contract)),
        tags={PIPELINE_TAG: contract.pipeline, **NO_RETRIES},
        description=f"Reads what is unread in {contract.topic} into {', '.join(t.name for t in contract.tables)}.",
    )


def verify_job(contracts: Sequence[Contract]) -> AssetJob:
    """Runs the `verify_<pipeline>` check of every pipeline."""
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        "verify",
        selection=dg.AssetSelection.checks(*(verify_key(contract) for contract in contracts)),
        description="Reads every topic from the beginning and compares each message with the tables.",
    )
