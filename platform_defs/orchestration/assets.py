"""A pipeline's tables as assets: one op that drains the topic, batch after batch, and reports each to Dagster.

The tables of a pipeline commit together. Materializing one of them therefore runs the pipeline as a whole, and all of
its tables are reported: selecting `bank/balances` alone is allowed, and does not leave `bank/postings` behind.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta

import dagster as dg

from platform_defs.contract.model import Contract, Table
from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine.batch import drain
from platform_defs.errors import Fenced, GateFailed, Halt, TidegateError
from platform_defs.operations.open_run import open_run
from platform_defs.orchestration.checks import check_specs
from platform_defs.orchestration.halts import halt_metadata, report_halt_at_end
from platform_defs.orchestration.keys import PIPELINE_TAG, is_row_table, table_key, topic_key
from platform_defs.orchestration.reporter import Reporter
from platform_defs.orchestration.runs import report_dead
from resources.dagster.run_session import RunSession
from resources.endpoints import connection
from resources.postgres.auditor import warm_up
from resources.postgres.ledger import Ledger
from resources.spark.session import SparkResource

LEAST_FRESHNESS = timedelta(minutes=1)  # Dagster refuses a shorter window


def table_assets(pipeline: Pipeline) -> dg.AssetsDefinition:
    """The op of a pipeline. Its outputs are skippable: it logs its materializations itself, one a batch."""
    contract = pipeline.contract

    @dg.multi_asset(
        name=f"drain_{contract.pipeline}",
        specs=[_spec(contract, table) for table in contract.tables],
        check_specs=check_specs(contract),
        can_subset=True,
        pool=contract.pipeline,
        op_tags={PIPELINE_TAG: contract.pipeline},
    )
    def drain_topic(
        context: dg.AssetExecutionContext,
        spark: SparkResource,
        run_session: RunSession,  # noqa: ARG001  # open while the run is alive
    ) -> Iterator[dg.MaterializeResult[None]]:
        warm_up(contract)  # imports Great Expectations while Spark starts
        with _failures_explained(context, contract):
            _drain(context, pipeline, spark)
        yield from ()

    return drain_topic


def _drain(context: dg.AssetExecutionContext, pipeline: Pipeline, spark: SparkResource) -> None:
    contract, endpoints = pipeline.contract, connection()
    ledger = Ledger(endpoints.postgres_url)
    for run_id in report_dead(context.instance, ledger, contract, besides=context.run.run_id):
        context.log.warning(f"run {run_id} was shown as started, but its process is gone: reported as failed")
    with (
        report_halt_at_end(context, ledger, contract),
        open_run(pipeline, endpoints, spark.session, context.run.run_id) as outside,
    ):
        reporter = Reporter(context, contract, ledger, outside, endpoints)
        try:
            reporter.report_earlier()
            for published in drain(pipeline, outside):
                reporter.published(published)
        except GateFailed as failed:
            reporter.gate_failed(failed)
            raise
        finally:
            reporter.finish()


@contextmanager
def _failures_explained(context: dg.AssetExecutionContext, contract: Contract) -> Generator[None]:
    """Turn each of our errors into a failure with its sentence. No retry here: the sensor starts the next run."""
    try:
        yield
    except Fenced as error:
        text = f"Stopped cleanly: another run has taken {contract.pipeline} over. {error}"
        raise dg.Failure(text, allow_retries=False) from error
    except Halt as error:
        raise dg.Failure(str(error), halt_metadata(error), allow_retries=False) from error
    except GateFailed as error:
        names = [item.name for item in error.results if not item.passed and item.severity == "blocking"]
        raise dg.Failure(str(error), {"failed checks": ", ".join(names)}, allow_retries=False) from error
    except TidegateError as error:
        context.log.error(str(error))
        raise dg.Failure(str(error), allow_retries=False) from error


def _spec(contract: Contract, table: Table) -> dg.AssetSpec:
    source = topic_key(contract.topic) if is_row_table(contract, table) else table_key(contract.row_table.name)
    return dg.AssetSpec(
        table_key(table.name),
        deps=[source],
        skippable=True,
        description=_description(contract, table),
        group_name=contract.domain,
        kinds={"kafka", "pyspark", "postgres"},
        tags={PIPELINE_TAG: contract.pipeline, "tidegate/disposition": table.disposition},
        metadata={
            "dagster/column_schema": _schema(table),
            "dagster/table_name": table.name,
            "contract_version": contract.version,
        },
        code_version=contract.version,
        freshness_policy=dg.FreshnessPolicy.time_window(
            max(timedelta(seconds=contract.limits.freshness_seconds), LEAST_FRESHNESS)
        ),
    )


def _description(contract: Contract, table: Table) -> str:
    how = {
        "append": "a row for each message, or several",
        "upsert": "the latest state of each key",
        "accumulate": f"exact sums over {contract.row_table.name}",
    }[table.disposition]
    what = table.description or contract.description
    return f"{what} ({table.disposition}: {how}. Delivery: {contract.delivery}, from {contract.topic}.)".strip()


def _schema(table: Table) -> dg.TableSchema:
    sums = {item.column: f"{item.function}({item.source or '*'})" for item in table.aggregates}
    keys = dict.fromkeys(table.group_by, "group by")
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                column.type.postgres,
                description=column.description or sums.get(column.name) or keys.get(column.name),
                constraints=dg.TableColumnConstraints(
                    nullable=not column.required, unique=table.group_by == (column.name,)
                ),
                tags={"classification": column.classification} if column.classification else {},
            )
            for column in table.columns
        ]
    )
