"""Asset checks: one for each row rule and batch rule, evaluated with every batch; `not_halted`; and
`verify_<pipeline>`, which does not trust the engine.
"""

from functools import partial

import dagster as dg
from pydantic import Field

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.redaction import redacting
from platform_defs.dagster.keys import VERIFY_POOL, table_key, verify_key
from platform_defs.dagster.run_session import RunSession
from platform_defs.engine.commit import audit
from platform_defs.errors import InternalError, TidegateError
from platform_defs.pipelines.reporting.events import samples_table
from platform_defs.pipelines.reporting.halts import halt_check_spec
from platform_defs.spark.resource import SparkResource
from platform_defs.stack.endpoints import connection


def check_specs(contract: Contract) -> list[dg.AssetCheckSpec]:
    """Return the checks of a pipeline and its batches. A row rule never blocks: a message that breaks it becomes a dead
    letter.
    """
    row_table = table_key(contract.row_table.name, contract.asset_prefix)
    by_row = [
        dg.AssetCheckSpec(name, asset=row_table, description=text, metadata={"evaluated": "for each message"})
        for name, text in audit.row_check_descriptions(contract).items()
    ]
    by_batch = [
        dg.AssetCheckSpec(
            rule.name,
            asset=table_key(rule.table, contract.asset_prefix),
            description=rule.description,
            blocking=rule.severity == "blocking",
            metadata={"evaluated": "for each batch", "expectation": rule.expectation},
        )
        for rule in contract.batch_rules
    ]
    return [halt_check_spec(contract), *by_row, *by_batch]


class VerifyConfig(dg.Config):
    """The options of a verification run."""

    whole: bool = Field(
        default=False,
        description="Compare all messages in one snapshot, not only those committed since the last check.",
    )


def verify_check(pipeline: Pipeline, names: str = "") -> dg.AssetChecksDefinition:
    """Return the check that reads the topic again, without the engine, and compares each message with the tables: what
    is new since the last check, or all of it.
    """
    contract, key = pipeline.contract, verify_key(pipeline.contract)
    tables = ", ".join(table.name for table in contract.tables)
    spec = dg.AssetCheckSpec(
        key.name,
        asset=key.asset_key,
        description=(
            f"Every message is in {tables} exactly once, or is a dead letter, or was filtered out by the transform "
            "or skipped on purpose. Runs independently of the engine. Compares the messages since the last check, "
            "or all messages with whole: true."
        ),
    )

    # Not `asset_check`: that would put the topic's name into the op's.
    @dg.multi_asset_check(name=f"{names}{key.name}", specs=[spec], pool=VERIFY_POOL)
    def verify(
        config: VerifyConfig,
        tidegate_spark: SparkResource,
        tidegate_run_session: RunSession,  # noqa: ARG001  # open while the run is alive
    ) -> dg.AssetCheckResult:
        from platform_defs.verify.incremental import verify_new  # slow imports, only for this run
        from platform_defs.verify.verify import verify as verify_whole

        try:
            compare = verify_whole if config.whole else verify_new
            bug = partial(InternalError.in_command, f"verify {contract.pipeline}")
            with redacting(None, bug), redacting(contract):
                report = compare(pipeline, connection(), tidegate_spark.session)
        except TidegateError as error:
            raise dg.Failure(str(error), allow_retries=False) from None  # Dagster would store its causes
        found = {name: value for name, value in report.to_json().items() if isinstance(value, bool | int | float)}
        shown = found | ({"samples": samples_table(report.to_json()["samples"])} if report.samples else {})
        return dg.AssetCheckResult(passed=report.ok, description=report.explanation, metadata=shown)

    return verify
