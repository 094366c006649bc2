"""The traces of the batches: their seconds, and the rows added to the ledger and to Dagster's log."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg

from platform_defs.dagster.keys import LAG_SENSOR

INSERTED = (
    "SELECT schemaname, relname, n_tup_ins FROM pg_stat_user_tables"
    " WHERE schemaname IN ('tidegate', 'tidegate_staging', 'dagster')"
)
BATCHES = "SELECT pipeline, messages, timings FROM tidegate.batch WHERE committed_at >= to_timestamp(%s)"
RUNS = (
    "SELECT status, count(*), sum(end_time - start_time) FROM dagster.runs"
    " WHERE create_timestamp >= to_timestamp(%s)::timestamp GROUP BY status"
)
TICKS = (
    "SELECT (tick_body::json->>'timestamp')::float, (tick_body::json->>'end_timestamp')::float FROM dagster.job_ticks"
    " WHERE timestamp >= to_timestamp(%s)::timestamp AND tick_body::json->>'job_name' = %s ORDER BY 1"
)


@dataclass(frozen=True)
class Batches:
    """The batches since a moment."""

    count: int
    messages: int
    pipelines: int
    steps: Mapping[str, float]  # median seconds of a batch by step


@dataclass(frozen=True)
class Tick:
    """One evaluation of the sensor that starts runs."""

    started: float  # seconds since the epoch
    seconds: float


def rows_inserted(database: psycopg.Connection) -> dict[str, int]:
    """Return the rows inserted so far by table, `schema.table`."""
    database.execute("SELECT pg_stat_clear_snapshot()")
    return {f"{schema}.{table}": rows for schema, table, rows in database.execute(INSERTED)}


def batches(database: psycopg.Connection, since: float) -> Batches:
    """Return the batches committed since then."""
    found = database.execute(BATCHES, [since]).fetchall()
    names = {name for _, _, timings in found for name in timings}
    steps = {name: statistics.median(timings.get(name, 0.0) for _, _, timings in found) for name in names}
    messages, pipelines = sum(row[1] for row in found), {row[0] for row in found}
    return Batches(len(found), messages, len(pipelines), steps)


def runs(database: psycopg.Connection, since: float) -> list[tuple[str, int, float | None]]:
    """Return by status how many runs were created since then, and the sum of their seconds."""
    return database.execute(RUNS, [since]).fetchall()


def ticks(database: psycopg.Connection, since: float) -> list[Tick]:
    """Return the lag sensor's ended ticks since then."""
    found = database.execute(TICKS, [since, LAG_SENSOR]).fetchall()
    return [Tick(start, end - start) for start, end in found if end is not None]


def working_runs(database: psycopg.Connection) -> int:
    """Return how many runs have not ended."""
    found = database.execute("SELECT count(*) FROM dagster.runs WHERE status NOT IN ('SUCCESS', 'FAILURE', 'CANCELED')")
    row = found.fetchone()
    return int(row[0]) if row else 0
