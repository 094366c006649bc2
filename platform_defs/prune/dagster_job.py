"""The job `prune`: deletes what is no longer needed from every pipeline's ledger, then from Dagster's own log."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import dagster as dg
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from platform_defs.contract.model.contract import Contract
from platform_defs.dagster.jobs import EXECUTOR, NO_RETRIES
from platform_defs.dagster.run_session import LEDGER_TAG, RunSession
from platform_defs.dagster.storage import EventLog
from platform_defs.errors import BadInput, LedgerMissing, TidegateError
from platform_defs.errors.words import plural
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.ledger.ledger import Ledger
from platform_defs.postgres.connection import error_for_sqlstate, queries
from platform_defs.prune.prune import prune
from platform_defs.settings.settings import settings
from platform_defs.stack.endpoints import connection

JOB = "prune"
MAX_NAMED = 20  # runs in one sentence
GONE = 365.0  # days without a run in this instance after which a ledger counts as gone: its job prunes every night
PAGE = 2_000  # runs looked up, or events and evaluations deleted, per statement


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


@dataclass(frozen=True)
class PrunedLog:
    """The number of removed runs, evaluations and events."""

    runs: int = 0
    evaluations: int = 0  # of checks
    events: int = 0  # outside any run


def prune_log(instance: dg.DagsterInstance, days: float, ledger_id: str) -> PrunedLog | None:
    """Remove from Dagster's own log what is older than `days`: runs with their events and output, and sensor events.
    Over the connections of the instance's own storage; return None if that is not ours (dagster/storage.py). The runs
    of other ledgers and their evaluations stay, since they have a retention of their own, unless the ledger has had no
    run for GONE days: nobody else would ever remove them.

    Dagster removes old ticks by itself (dagster.yaml), but never runs and events. Kept for its UI: the latest
    materialization and observation of each asset and partition, the latest evaluation of each check, and every run that
    has not ended.

    Raises LedgerAway or BadInput; what was removed before that stays removed. Runs whose output this user may not
    delete stay, and are named in a BadInput at the end.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, EventLog):
        return None
    tags = {"ledger_id": ledger_id, "ledger_tag": LEDGER_TAG, "seconds": GONE * 86_400}
    runs, last, snapshots = 0, 0, list[str]()
    counts, left = [0, 0], dict[str, OSError]()  # `left`: errors by run
    try:
        with storage.index_connection() as connection:
            others = connection.exec_driver_sql(queries()["dagster_other_ledgers"], tags).scalars().all()
            given = {**tags, "seconds": days * 86_400, "most": PAGE, "other_ledgers": [*others]}
            while found := connection.exec_driver_sql(queries()["dagster_old_runs"], {**given, "last": last}).all():
                last = found[-1].id
                for run in found:
                    try:
                        instance.compute_log_manager.delete_logs(prefix=[run.run_id])
                    except OSError as error:
                        left[run.run_id] = error
                        continue
                    instance.delete_run(run.run_id)
                    runs += 1
                    snapshots += run.snapshots or ()
            connection.exec_driver_sql(queries()["dagster_forget_snapshots"], {"snapshots": snapshots})
            for number, statement in enumerate(("dagster_forget_checks", "dagster_forget_events")):
                while (gone := connection.exec_driver_sql(queries()[statement], given).rowcount) > 0:
                    counts[number] += gone
    except DBAPIError as error:
        raise error_for_sqlstate(getattr(error.orig, "pgcode", None), str(error.orig).strip(), "ledger") from error
    except (DagsterPostgresException, PoolTimeout) as error:
        raise error_for_sqlstate(None, str(error), "ledger") from error
    if left:
        why, named = next(iter(left.values())), ", ".join([*left][:MAX_NAMED])
        named += f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
        raise BadInput(
            f"Dagster's log was pruned, except for {plural(len(left), 'run')} whose output could not be deleted: "
            f"{why}. The next nightly run tries again; give this user the right to delete the folders of these runs in "
            f"Dagster's compute logs: {named}"
        )
    return PrunedLog(runs, *counts)
