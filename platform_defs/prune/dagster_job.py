"""The job `prune`: deletes what is no longer needed from every pipeline's ledger, then from Dagster's own log."""

from collections.abc import Sequence
from dataclasses import asdict

import dagster as dg

from platform_defs.contract.model.contract import Contract
from platform_defs.dagster.jobs import EXECUTOR, NO_RETRIES
from platform_defs.dagster.run_session import RunSession
from platform_defs.errors import LedgerMissing, TidegateError
from platform_defs.errors.words import plural
from platform_defs.settings.settings import settings
from platform_defs.stack.endpoints import connection

JOB = "prune"


def prune_job(contracts: Sequence[Contract], names: str = "") -> dg.JobDefinition:
    """Return the job that prunes these pipelines, one after the other. A failure does not stop the others; the run
    fails at its end, and the next night's run does the rest.
    """

    @dg.op(
        name=f"{names}prune_ledger",
        description=(
            "Runs `tidegate prune --execute` for every pipeline, then removes old runs and events from Dagster."
        ),
    )
    def prune_ledger(
        context: dg.OpExecutionContext,
        tidegate_run_session: RunSession,  # noqa: ARG001  # open while the run is alive
    ) -> None:
        # Slow imports, only for this run.
        from platform_defs.kafka.broker import KafkaBroker
        from platform_defs.ledger.ledger import Ledger
        from platform_defs.prune.dagster_log import prune_log
        from platform_defs.prune.prune import prune

        failures: dict[str, str] = {}
        try:
            endpoints = connection()
        except TidegateError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        broker = KafkaBroker(endpoints.kafka_options())
        for contract in contracts:
            try:
                found = prune(endpoints.postgres_url, contract, broker.describe, execute=True)
            except TidegateError as error:
                failures[contract.pipeline] = str(error)
                context.log.error(f"{contract.pipeline}: {error}")
            else:
                context.log.info(f"{contract.pipeline}: {found.sentence()}")
        try:
            if (ledger_id := Ledger(endpoints.postgres_url).ledger_id()) is None:
                raise LedgerMissing("there is no ledger, so it is unknown which of Dagster's runs are its own")
            log = prune_log(context.instance, settings().dagster_retention_days, ledger_id)
            if log is None:
                context.log.info("Dagster's event log was not pruned: the storage in dagster.yaml is not Tidegate's.")
            else:
                context.log.info(f"Dagster: removed {', '.join(f'{n:,} {name}' for name, n in asdict(log).items())}")
        except TidegateError as error:
            failures["Dagster's log"] = str(error)
        if failures:
            what = f"{plural(len(failures), 'part')} could not be pruned; the others were"
            raise dg.Failure(f"{what}. {'; '.join(f'{k}: {v}' for k, v in failures.items())}", allow_retries=False)

    @dg.job(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=f"{names}{JOB}",
        tags=NO_RETRIES,
        executor_def=EXECUTOR,
        description=(
            "Removes ledger entries that are older than each contract's retention and no longer needed, and old "
            "runs and events from Dagster."
        ),
    )
    def prune_all() -> None:
        prune_ledger()

    return prune_all
