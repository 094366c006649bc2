"""Deletes old runs, events and evaluations from Dagster's own log."""

from dataclasses import dataclass

import dagster as dg
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from platform_defs.dagster.run_session import LEDGER_TAG
from platform_defs.dagster.storage import EventLog
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural
from platform_defs.postgres.connection import error_for_sqlstate, queries

MAX_NAMED = 20  # runs in one sentence
GONE = 365.0  # days without a run in this instance after which a ledger counts as gone: its job prunes every night
PAGE = 2_000  # runs looked up, or events and evaluations deleted, per statement


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
