"""All that Dagster loads, composed in one place. Loading opens no connection: Kafka and Postgres may be down."""

from collections.abc import Sequence

import dagster as dg

from assets import find_pipelines
from platform_defs.contract.pipeline import Pipeline
from platform_defs.orchestration.assets import table_assets
from platform_defs.orchestration.checks import verify_check
from platform_defs.orchestration.jobs import pipeline_job, verify_job
from platform_defs.orchestration.schedules import nightly_verify
from platform_defs.orchestration.sensors import lag_sensor
from platform_defs.orchestration.topics import observe_topics, topic_asset
from resources.dagster.run_session import RunSession
from resources.spark.session import SparkResource


def compose(pipelines: Sequence[Pipeline], spark: SparkResource | None = None) -> dg.Definitions:
    """Topics, tables, checks, jobs, sensors and the schedule of these pipelines; `spark` where not each run's own."""
    contracts = [pipeline.contract for pipeline in pipelines]
    jobs = {contract.pipeline: pipeline_job(contract) for contract in contracts}
    verify = verify_job(contracts)
    return dg.Definitions(
        assets=[*map(topic_asset, contracts), *map(table_assets, pipelines)],
        asset_checks=[verify_check(pipeline) for pipeline in pipelines],
        jobs=[*jobs.values(), verify],
        sensors=[*(lag_sensor(contract, jobs[contract.pipeline]) for contract in contracts), observe_topics(contracts)],
        schedules=[nightly_verify(verify)],
        resources={"spark": spark or SparkResource(), "run_session": RunSession()},
        executor=dg.in_process_executor,  # one Spark session a run
    )


defs = compose(find_pipelines())
