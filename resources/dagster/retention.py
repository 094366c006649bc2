"""Dagster's own log, kept in bounds: old runs with their events and output, and old events of sensors.

Dagster removes old ticks by itself (dagster.yaml), and runs and events never. What its UI shows stays: the latest
materialization, observation and evaluation of each asset and check, and every run that has not ended.
"""

from dataclasses import dataclass

from dagster import DagsterInstance

from resources.postgres.connection import connect, database_errors, queries

PAGE = 2_000  # runs that are looked up, or events and evaluations that are deleted, at once


@dataclass(frozen=True)
class PrunedLog:
    """How many of each were removed."""

    runs: int = 0
    evaluations: int = 0  # of checks
    events: int = 0  # of no run


def prune_log(instance: DagsterInstance, url: str, days: float) -> PrunedLog:
    """Remove what is older than that, where Dagster's storage is ours (storage.py), in the database at `url`.

    Raises LedgerAway; what was removed before that stays removed.
    """
    with connect(url, "tidegate prune") as connection, database_errors():
        if connection.execute(queries()["dagster_has_log"]).fetchone() != (True,):
            return PrunedLog()
        given = {"seconds": days * 86_400, "most": PAGE}
        runs = 0
        while found := connection.execute(queries()["dagster_old_runs"], given).fetchall():
            for (run_id,) in found:
                instance.delete_run(run_id)
                instance.compute_log_manager.delete_logs(prefix=[run_id])
            runs += len(found)
        counts = [0, 0]
        for number, statement in enumerate(("dagster_forget_checks", "dagster_forget_events")):
            while (gone := connection.execute(queries()[statement], given).rowcount) > 0:
                counts[number] += gone
    return PrunedLog(runs, *counts)
