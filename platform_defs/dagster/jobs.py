"""Jobs: `drain` for the pipelines, and `verify` for all of them."""

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition as AssetJob,  # what define_asset_job returns has no public name
)

from platform_defs.contract.model.contract import Contract
from platform_defs.dagster.keys import DRAIN_JOB, VERIFY_JOB, job_tag, table_keys, verify_key

EXECUTOR = dg.in_process_executor  # one Spark session for each run
NO_RETRIES = {"dagster/max_retries": "0"}  # the sensor starts the next run; a retry would only compete with it


def drain_job(contracts: Sequence[Contract], names: str = "") -> AssetJob:
    """Return the job that reads all pipelines, or those that its run selects: the sensor selects those that are due."""
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        f"{names}{DRAIN_JOB}",
        selection=dg.AssetSelection.assets(*(key for contract in contracts for key in table_keys(contract))),
        tags=NO_RETRIES | job_tag(DRAIN_JOB, contracts[0].asset_prefix),
        executor_def=EXECUTOR,
        description="Loads new messages into the selected tables.",
    )


def verify_job(contracts: Sequence[Contract], names: str = "") -> AssetJob:
    """Return the job that runs the `verify_<pipeline>` check of every pipeline."""
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        f"{names}{VERIFY_JOB}",
        selection=dg.AssetSelection.checks(*(verify_key(contract) for contract in contracts)),
        executor_def=EXECUTOR,
        description=(
            "Compares each message read since the last check with the tables, or every message if the run config "
            "has whole: true. The schedules start a run for each pipeline."
        ),
    )
