"""The names of topics, tables and checks in Dagster."""

from collections.abc import Sequence

import dagster as dg

from platform_defs.contract.model.contract import Contract, Table

PIPELINE_TAG = "tidegate/pipeline"
STARTED_FOR = "tidegate/started_for"  # of a run that the sensor started: the pipelines that were due, and why
# Dagster's UI hides tags that begin with `.dagster/`, so that those for people are not cut off.
DEFINITIONS = ".dagster/tidegate_definitions"  # of such a run: the digest of the sensor's contracts and transforms
BESIDE = ".dagster/tidegate_beside"  # of such a run: the ids of the runs that do the work while it warms up
LOAD_JOB = ".dagster/tidegate_job"  # of a run of one of our jobs that load: which one (`job_tag`)
CONTINUOUS = "tidegate/continuous"  # of such a run: it stays, for the pipelines whose latency is a few seconds
HANDS_OVER = "tidegate/hands_over"  # of a run that stays: why it asks for another in its place
LEAVE = "tidegate/leave"  # of such a run: why it is to end its turns and leave what is due to the next one
FAILED = "tidegate/failed"  # of a failed run: the pipelines that failed
VERIFIES = "tidegate/verifies"  # of a run that a schedule started: the pipeline that it verifies
DRAIN_JOB = "drain"
CONTINUOUS_JOB = "drain_continuous"
CONTINUOUS_OP = "drain_continuously"
VERIFY_JOB = "verify"
VERIFY_POOL = "verify"  # one run of it at a time (dagster.yaml), beside those that read topics
LAG_SENSOR = "lag"


def job_tag(job: str, prefix: Sequence[str]) -> dict[str, str]:
    """Return the tag of a job that loads the pipelines below a prefix. It tells our runs from those of a user's own job
    with the same name.
    """
    return {LOAD_JOB: "/".join([*prefix, job])}


def table_key(table: str, prefix: Sequence[str] = ()) -> dg.AssetKey:
    """Return `bank/postings` for `bank.postings`, below the prefix."""
    return dg.AssetKey([*prefix, *table.split(".")])


def topic_key(topic: str, prefix: Sequence[str] = ()) -> dg.AssetKey:
    """Return `kafka/bank.transfers` for `bank.transfers`, below the prefix: one part, since Kafka has no schemas."""
    return dg.AssetKey([*prefix, "kafka", topic])


def table_keys(contract: Contract) -> list[dg.AssetKey]:
    return [table_key(table.name, contract.asset_prefix) for table in contract.tables]


def verify_key(contract: Contract) -> dg.AssetCheckKey:
    """Return `verify_bank_transfers`, a check of the topic: it finds the result of each message, in all tables.

    It has the pipeline's name because several pipelines may read one topic.
    """
    return dg.AssetCheckKey(topic_key(contract.topic, contract.asset_prefix), f"verify_{contract.pipeline}")


def is_row_table(contract: Contract, table: Table) -> bool:
    return table.name == contract.row_table.name
