"""The tables of all pipelines as one asset definition: one op, so that a run works on many with one Spark session.

The tables of a pipeline commit together. Materializing one of them therefore runs the pipeline as a whole, and all of
its tables are reported: selecting `bank/balances` alone is allowed, and does not leave `bank/postings` behind.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg
from pydantic import Field

from platform_defs.contract.model.contract import Contract, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.reserved import outputs
from platform_defs.contract.model.system_columns import DESCRIPTIONS, target_columns
from platform_defs.dagster.jobs import EXECUTOR, NO_RETRIES
from platform_defs.dagster.keys import (
    CONTINUOUS_JOB,
    CONTINUOUS_OP,
    PIPELINE_TAG,
    is_row_table,
    job_tag,
    table_key,
    topic_key,
)
from platform_defs.dagster.run_session import RunSession
from platform_defs.dagster.runs import of_tables
from platform_defs.pipelines.checks import check_specs
from platform_defs.spark.resource import SparkResource

LEAST_FRESHNESS = timedelta(minutes=1)  # Dagster refuses a shorter window


def table_assets(pipelines: Sequence[Pipeline], names: str = "") -> list[dg.AssetsDefinition]:
    """Return the tables of all pipelines under one op; those whose output names are taken there, under another."""
    groups = _without_clash(pipelines)
    return [_definition(f"{names}drain_topics{n or ''}", group, pipelines) for n, group in enumerate(groups)]


def _without_clash(pipelines: Sequence[Pipeline]) -> list[list[Pipeline]]:
    """Return the pipelines in the fewest groups such that no two outputs of a group have the same name: table a.b__c of
    one pipeline and table a__b.c of another are both called a__b__c.
    """
    groups: list[tuple[set[str], list[Pipeline]]] = []
    for pipeline in pipelines:
        names = {output for output, _ in outputs(pipeline.contract)}
        fitting = next((group for group in groups if names.isdisjoint(group[0])), None)
        if fitting is None:
            groups.append((names, [pipeline]))
        else:
            fitting[0].update(names)
            fitting[1].append(pipeline)
    return [members for _, members in groups]


def _definition(name: str, members: Sequence[Pipeline], pipelines: Sequence[Pipeline]) -> dg.AssetsDefinition:
    """Return the op. Its outputs are skippable: it logs its materializations itself, one per batch."""
    contracts = [pipeline.contract for pipeline in members]

    @dg.multi_asset(
        name=name,
        specs=[_spec(contract, table) for contract in contracts for table in contract.tables],
        check_specs=[spec for contract in contracts for spec in check_specs(contract)],
        can_subset=True,
        description="Loads topics into their tables, exactly once. Each log line begins with the pipeline's name.",
    )
    def drain_topics(
        context: dg.AssetExecutionContext,
        tidegate_spark: SparkResource,
        tidegate_run_session: RunSession,  # noqa: ARG001  # open while the run is alive
    ) -> Iterator[dg.MaterializeResult[None]]:
        # Here and below, since the engine's imports take longer than all that definitions need.
        from platform_defs.pipelines.drain import checks_kept, drain, expected_failures

        selected = context.selected_asset_keys | {key.asset_key for key in context.selected_asset_check_keys}
        names = of_tables(selected, [item.contract for item in pipelines])
        with expected_failures(context.log), checks_kept(context):
            drain(context.op_execution_context, pipelines, names, tidegate_spark)
        yield from ()

    return drain_topics


class ContinuousConfig(dg.Config):
    """The options of a continuous run."""

    pipelines: list[str] = Field(description="The pipelines that the run is started for.")


def continuous_job(pipelines: Sequence[Pipeline], names: str = "") -> dg.JobDefinition:
    """Return the job of the run that stays for pipelines of low latency. It selects no assets: an asset that an
    unfinished run has selected counts as in progress, and what depends on it would not be started until the run ends.
    """

    @dg.op(
        name=f"{names}{CONTINUOUS_OP}",
        description="Loads topics into their tables as messages arrive. Each log line begins with the pipeline's name.",
    )
    def drain_continuously(
        context: dg.OpExecutionContext,
        config: ContinuousConfig,
        tidegate_spark: SparkResource,
        tidegate_run_session: RunSession,  # noqa: ARG001  # open while the run is alive
    ) -> None:
        from platform_defs.pipelines.drain import drain, expected_failures

        with expected_failures(context.log):
            drain(context, pipelines, config.pipelines, tidegate_spark)

    @dg.job(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=f"{names}{CONTINUOUS_JOB}",
        tags=NO_RETRIES | job_tag(CONTINUOUS_JOB, pipelines[0].contract.asset_prefix),
        executor_def=EXECUTOR,
        description="Loads new messages of the pipelines with a latency of a few seconds. The sensor `lag` starts it.",
    )
    def drain_continuous() -> None:
        drain_continuously()

    return drain_continuous


def _spec(contract: Contract, table: Table) -> dg.AssetSpec:
    prefix, source = contract.asset_prefix, contract.row_table.name
    how = {
        "append": "one or more rows for each message",
        "upsert": "the latest state of each key",
        "accumulate": f"exact sums over {source}",
    }[table.disposition]
    what = table.description or contract.description
    return dg.AssetSpec(
        table_key(table.name, prefix),
        deps=[topic_key(contract.topic, prefix) if is_row_table(contract, table) else table_key(source, prefix)],
        skippable=True,
        description=f"{what} ({table.disposition}: {how}, from {contract.topic}.)".strip(),
        group_name=contract.domain,
        kinds={"kafka", "pyspark", "postgres"},
        tags={PIPELINE_TAG: contract.pipeline, "tidegate/disposition": table.disposition},
        owners=contract.owners,
        metadata={
            "dagster/column_schema": _schema(contract, table),
            "dagster/table_name": table.name,
            "contract_version": contract.version,
            "show_dead_letters": f"tidegate dlq list {contract.pipeline}",
            **_files(contract),
        },
        code_version=contract.version,
        freshness_policy=dg.FreshnessPolicy.time_window(
            max(timedelta(seconds=contract.limits.freshness_seconds), LEAST_FRESHNESS)
        ),
    )


def _files(contract: Contract) -> dict[str, dg.MetadataValue[Any]]:
    """Return the paths of the contract and of its transform, as far as there are files."""
    files = {"contract": contract.path, "transform": contract.transform_path}
    return {name: dg.PathMetadataValue(path.resolve()) for name, path in files.items() if path and path.exists()}


def _schema(contract: Contract, table: Table) -> dg.TableSchema:
    """Return every column with a description, including Tidegate's own."""
    columns = [
        dg.TableColumn(
            column.name,
            column.type.postgres,
            description=column.description or _origin(contract, table, column.name),
            constraints=dg.TableColumnConstraints(
                nullable=not column.required, unique=table.group_by == (column.name,)
            ),
            tags={"classification": column.classification} if column.classification else {},
        )
        for column in table.columns
    ]
    own = [
        dg.TableColumn(
            name,
            kind.postgres,
            description=DESCRIPTIONS[name],
            constraints=dg.TableColumnConstraints(nullable=False, unique=name == "_key"),
        )
        for name, kind in target_columns(table)
    ]
    return dg.TableSchema(columns=[*columns, *own])


def _origin(contract: Contract, table: Table, name: str) -> str:
    """Return the origin of a column's values, for a column without a description."""
    if table != contract.row_table:
        sums = {item.column: f"{item.function}({item.source or '*'})" for item in table.aggregates}
        return f"{sums.get(name, f'Grouping column {name}')} of {contract.row_table.name}."
    field = next((item for item in contract.message_fields if item.name == name), None)
    if field is None:
        return "Computed by the transform."
    return field.description or f"{field.place} of the message."
