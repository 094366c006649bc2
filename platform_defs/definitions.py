"""All that Dagster loads, composed in one place. Loading opens no connection: Kafka and Postgres may be down."""

import logging
from collections.abc import Iterable, Sequence

import dagster as dg

from assets import BrokenContract, find_all
from platform_defs.contract.pipeline import Pipeline
from platform_defs.orchestration.assets import table_assets
from platform_defs.orchestration.broken import broken_asset, broken_assets, report_broken
from platform_defs.orchestration.checks import verify_check
from platform_defs.orchestration.jobs import pipeline_job, verify_job
from platform_defs.orchestration.schedules import nightly_verify
from platform_defs.orchestration.sensors import lag_sensor
from platform_defs.orchestration.topics import by_topic, observe_topics, topic_asset
from resources.dagster.run_session import RunSession
from resources.spark.session import SparkResource


def compose(
    pipelines: Sequence[Pipeline], broken: Iterable[BrokenContract] = (), spark: SparkResource | None = None
) -> dg.Definitions:
    """Topics, tables, checks, jobs, sensors and the schedule of these pipelines, and what shows the broken ones.

    `spark`: a session to share; without it each run has its own.
    """
    contracts = [pipeline.contract for pipeline in pipelines]
    topics = by_topic(contracts)
    jobs = {contract.pipeline: pipeline_job(contract) for contract in contracts}
    verify = verify_job(contracts)
    unusable = broken_assets(tuple(broken))
    return dg.Definitions(
        assets=[*map(topic_asset, topics), *map(table_assets, pipelines), *map(broken_asset, unusable)],
        asset_checks=[verify_check(pipeline) for pipeline in pipelines],
        jobs=[*jobs.values(), verify],
        sensors=[
            *(lag_sensor(contract, jobs[contract.pipeline]) for contract in contracts),
            observe_topics([topic.name for topic in topics]),
            *([report_broken(unusable)] if unusable else []),
        ],
        schedules=[nightly_verify(verify)],
        resources={"spark": spark or SparkResource(), "run_session": RunSession()},
        executor=dg.in_process_executor,  # one Spark session a run
    )


def load() -> dg.Definitions:
    """Everything under assets/. What cannot be used is a warning here and a red check in Dagster; the rest runs."""
    found = find_all()
    for item in found.broken:
        logging.getLogger("tidegate").warning("cannot be used: %s", item.error)
    return compose(found.pipelines, found.broken)


defs = load()
