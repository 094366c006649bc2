"""Dagster runs in this process, and the results that Dagster then shows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import dagster as dg
from dagster import AssetCheckKey, AssetKey, DagsterInstance

from platform_defs.code_location import compose
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.keys import CONTINUOUS_JOB, CONTINUOUS_OP, DRAIN_JOB
from platform_defs.spark.resource import SparkResource
from tests.support.world import KeptSpark


def execute(
    instance: DagsterInstance,
    *pipelines: Pipeline,
    selected: Sequence[AssetKey] | None = None,
    tags: Mapping[str, str] | None = None,
    spark: SparkResource | None = None,
) -> dg.ExecuteInProcessResult:
    """Run these pipelines in process. Without `tags`, the run looks as if a user started it."""
    job = compose(pipelines, spark=spark or KeptSpark()).resolve_job_def(DRAIN_JOB)
    return job.execute_in_process(instance=instance, asset_selection=selected, tags=tags, raise_on_error=False)


def execute_continuously(
    instance: DagsterInstance, *pipelines: Pipeline, tags: Mapping[str, str], spark: SparkResource | None = None
) -> dg.ExecuteInProcessResult:
    """Run the continuous job of these pipelines in process."""
    job = compose(pipelines, spark=spark or KeptSpark()).resolve_job_def(CONTINUOUS_JOB)
    config = {"ops": {CONTINUOUS_OP: {"config": {"pipelines": [pipeline.name for pipeline in pipelines]}}}}
    return job.execute_in_process(run_config=config, instance=instance, tags=tags, raise_on_error=False)


def failure(result: dg.ExecuteInProcessResult) -> dg.Failure:
    """Return the failure of the run's only failed step."""
    (event,) = result.get_step_failure_events()
    found = event.step_failure_data.user_failure_data
    assert found is not None
    return dg.Failure(found.description, found.metadata)


def table_keys(pipeline: Pipeline) -> list[AssetKey]:
    return [AssetKey(table.name.split(".")) for table in pipeline.contract.tables]


def check(instance: DagsterInstance, pipeline: Pipeline, name: str) -> dg.AssetCheckEvaluation:
    """Return Dagster's latest evaluation of a check of the row table."""
    key = AssetCheckKey(table_keys(pipeline)[0], name)
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert record.event is not None
    found = record.event.asset_check_evaluation
    assert found is not None
    return found


def with_rule_renamed(pipeline: Pipeline, name: str, new: str) -> Pipeline:
    """Return the pipeline with one of its row table's batch rules renamed."""
    table = pipeline.contract.row_table
    rules = tuple(replace(rule, name=new) if rule.name == name else rule for rule in table.batch_rules)
    assert rules != table.batch_rules
    tables = (replace(table, batch_rules=rules), *pipeline.contract.accumulates)
    return replace(pipeline, contract=replace(pipeline.contract, tables=tables))
